import re

from fairlead_dev.boards.files import FOLDER
from fairlead_dev.boards.questions import QUESTIONS
from fairlead_dev.boards.reading import load, queries
from fairlead_dev.checkout import CHECKOUT

PAGE = CHECKOUT / "docs" / "how-to" / "read-the-boards.md"


def test_each_of_the_ten_questions_is_answered_by_a_query_that_exists() -> None:
    asked = {(query.board, query.panel, query.ref): query for board in load(CHECKOUT / FOLDER) for query in queries(board)}
    assert len({each.question for each in QUESTIONS}) == 10
    for each in QUESTIONS:
        query = asked[each.board.title, each.panel, each.ref]
        grouped = re.search(r"by \(([^)]*)\)", query.expr)
        kept = set(grouped.group(1).split(", ")) if grouped else each.labels
        assert each.labels <= kept, f"{each.question}: {query.expr}"


def test_the_page_has_the_questions_and_where_each_is_answered() -> None:
    rows = re.findall(r"^\| (.+?\?) \| \*(.+?)\*, \*(.+?)\* \|", PAGE.read_text(), re.MULTILINE)
    assert rows == [(each.question, each.board.title.removeprefix("Fairlead / "), each.panel) for each in QUESTIONS]
