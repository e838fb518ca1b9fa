from pathlib import PurePosixPath

from fairlead_dev.bench.house.pages import INDEX
from fairlead_dev.bench.house.repository import TrackedTree
from fairlead_dev.bench.house.rows import house_rows, house_table

CONTRACTS = "[importlinter:contract:a]\n" * 4
CODE = PurePosixPath("operator/fairlead/a.py")


def tree(texts: dict[PurePosixPath, str]) -> TrackedTree:
    return TrackedTree({INDEX: "", **texts}, frozenset(texts), CONTRACTS)


def test_a_count_is_a_row_with_the_count_before_and_what_was_found() -> None:
    rows = {row.name: row for row in house_rows(tree({CODE: "import sys\nsys.path\n"}), {"pythonpath_uses": 4})}
    assert rows["pythonpath_uses"].to_json() == {
        "name": "pythonpath_uses",
        "value": 1,
        "unit": "1",
        "reference": 4,
        "ratio": 0.25,
        "target": "<= 0",
        "ok": False,
        "found": ["operator/fairlead/a.py:2"],
    }
    assert rows["lines_operator_code"].value == rows["lines_code_and_tests"].value == 2
    assert rows["layer_contracts"].ok and rows["orphan_pages"].ok


def test_the_table_names_what_is_wrong_beneath_its_count() -> None:
    table = house_table(house_rows(tree({CODE: "sys.path\n"}), {})).splitlines()
    wrong = next(number for number, text in enumerate(table) if text.startswith("pythonpath_uses"))
    assert table[wrong].endswith("NO") and table[wrong + 1] == "    operator/fairlead/a.py:1"
