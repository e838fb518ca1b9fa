from typing import Any

from fairlead_dev.bench.observe.boards import rows
from fairlead_dev.boards.answers import BoardAnswers, TimeWindow
from fairlead_dev.boards.files import FOLDER
from fairlead_dev.boards.questions import QUESTIONS
from fairlead_dev.boards.reading import load, queries, variables
from fairlead_dev.checkout import CHECKOUT


def test_a_panel_without_data_a_variable_without_values_and_a_question_without_its_labels_are_not_counted() -> None:
    boards = load(CHECKOUT / FOLDER)
    labels = {label: "x" for each in QUESTIONS for label in each.labels}
    answers: dict[str, dict[str, dict[str, list[dict[str, Any]]]]] = {}
    for board in boards:
        for query in queries(board):
            found = [{"metric": labels, "values": [[1, "1"]]}]
            answers.setdefault(board["uid"], {}).setdefault(str(query.panel_id), {})[query.ref] = found
    offers = {board["uid"]: {name: ["x"] for name in variables(board)} for board in boards}
    full = {row.name: row.value for row in rows(boards, BoardAnswers(TimeWindow(0, 1, 1), {}, answers, offers))}
    assert full["panels"] == full["panels_with_data"] and full["questions_answered"] == 10
    assert full["variables_with_values"] == sum(len(variables(board)) for board in boards)

    first = next(query for query in queries(boards[0]) if query.panel == "What was on the paths")
    answers[boards[0]["uid"]][str(first.panel_id)][first.ref] = [{"metric": {}, "values": [[1, "NaN"]]}]
    waiting = next(query for board in boards for query in queries(board) if query.panel == "Jobs that wait")
    answers["fairlead-fairness"][str(waiting.panel_id)][waiting.ref] = [{"metric": {"transferjob": "x"}, "values": [[1, "1"]]}]
    offers["fairlead-fairness"]["link"] = []
    fewer = {row.name: row for row in rows(boards, BoardAnswers(TimeWindow(0, 1, 1), {}, answers, offers))}
    assert fewer["panels_with_data"].value == (full["panels"] or 0) - 1
    assert fewer["panels_with_data"].more["without_data"] == ["Fairlead / Decisions: What was on the paths"]
    assert fewer["questions_answered"].more["unanswered"] == ["Why does this job wait, and how long has it?"]
    assert fewer["variables_with_values"].more["without_values"] == ["Fairlead / Fairness: link"]


def test_a_run_that_left_no_answers_has_no_figures() -> None:
    found = {row.name: row.value for row in rows(load(CHECKOUT / FOLDER), None)}
    assert found.pop("panels")
    assert found == {"panels_with_data": None, "variables_with_values": None, "questions_answered": None}
