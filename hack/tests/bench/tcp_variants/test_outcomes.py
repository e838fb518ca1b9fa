"""What is made of the guest's reports."""

from __future__ import annotations

import pytest

from fairlead_dev.bench.tcp_variants.outcomes import failed, read_reports, rows_of

PASSED = {"check": "htcp_carries", "passed": True, "error": "", "streams": 4}
REFUSED = {"check": "lp_carries", "passed": False, "error": "the mover's statistics say ['cubic']"}


def test_other_words_on_the_line_are_no_reports() -> None:
    lines = ['{"kernel": "6.1"}', "[    1.0] random: crng init done", "", '"text"', '{"check": "half']
    assert read_reports(lines) == [{"kernel": "6.1"}]


@pytest.mark.parametrize(
    ("reports", "values", "notes", "names"),
    [
        ([PASSED, REFUSED], [1, 0], ["", REFUSED["error"]], ["lp_carries"]),
        ([{"kernel": "6.1"}, PASSED], [1, 0], ["", "not reported"], ["lp_carries"]),
        ([], [0, 0], ["not reported", "not reported"], ["htcp_carries", "lp_carries"]),
    ],
)
def test_a_check_that_failed_or_is_missing_counts_as_0_and_is_named(
    reports: list[dict[str, object]], values: list[int], notes: list[str], names: list[str]
) -> None:
    rows = rows_of(["htcp_carries", "lp_carries"], reports)
    assert ([row.value for row in rows], [row.note for row in rows]) == (values, notes)
    assert failed(rows) == names
    assert [row.ok for row in rows] == [bool(value) for value in values]


def test_a_row_keeps_what_the_guest_saw() -> None:
    (row,) = rows_of(["htcp_carries"], [PASSED])
    assert row.to_json() == {
        "name": "htcp_carries",
        "value": 1,
        "unit": "passed",
        "reference": None,
        "ratio": None,
        "target": ">= 1",
        "ok": True,
        "streams": 4,
    }
