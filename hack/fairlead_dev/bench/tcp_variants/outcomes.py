"""Rows of what the guest reported. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead_dev.bench.rows import Goal, Row

PASSES = Goal("at_least", 1, of="value")


def read_reports(lines: Iterable[str]) -> list[dict[str, Any]]:
    """The objects among the lines."""
    found = []
    for line in lines:
        try:
            report = json.loads(line)
        except ValueError:
            continue
        if isinstance(report, dict):
            found.append(report)
    return found


def rows_of(checks: Sequence[str], reports: Iterable[Mapping[str, Any]]) -> list[Row]:
    """A row for each check: 1 where the guest says that it passed, 0 where it failed or was not reported."""
    by_name = {report["check"]: report for report in reports if "check" in report}
    return [_row(name, by_name.get(name)) for name in checks]


def _row(name: str, report: Mapping[str, Any] | None) -> Row:
    if report is None:
        return Row(name, 0, "passed", note="not reported", goal=PASSES)
    seen = {key: value for key, value in report.items() if key not in {"check", "passed", "error"}}
    return Row(name, int(report["passed"]), "passed", note=report["error"], more=seen, goal=PASSES)


def failed(rows: Iterable[Row]) -> list[str]:
    """The names of the checks that did not pass."""
    return [row.name for row in rows if not row.value]
