"""What counts as a failure that was named."""

from __future__ import annotations

from typing import Any

from fairlead_dev.bench.observe.failures import row_of


def record(name: str, seconds: float | None, reason: str = "SourceMissing") -> dict[str, Any]:
    return {"name": name, "reasons": ["BackingOff", reason], "seconds": seconds}


def test_those_count_that_are_named_truly_within_ten_seconds() -> None:
    row = row_of([record("soon", 0.5), record("just", 10.0), record("late", 10.1), record("never", None)])
    assert (row.value, row.reference, row.ratio) == (2, 4, 0.5)
    assert row.more["not_in_time"] == {"late": 10.1, "never": None}
    assert (row.more["most_s"], row.more["reasons"]) == (10.1, ["SourceMissing"])


def test_without_any_that_was_named_nothing_is() -> None:
    assert row_of([record("never", None)]).value == 0
