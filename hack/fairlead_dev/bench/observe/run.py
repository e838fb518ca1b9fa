"""How many tests of the run failed whose answers are counted: figures of a run that went wrong mean little."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from fairlead_dev.bench.rows import Goal, Row
from fairlead_dev.errors import CommandUsageError

NAME = "monitoring_tests_failed"
NONE = Goal("at_most", 0, "value")


def row_of(report: Path) -> Row:
    """The row, from a report of `pytest --junitxml`; without a figure where there is none, as no test was begun.

    Raises CommandUsageError where the file is no such report.
    """
    if not report.exists():
        return Row(NAME, None, "tests", note="not available: no test was begun", goal=NONE)
    try:
        cases = list(ET.parse(report).getroot().iter("testcase"))
    except ET.ParseError as error:
        raise CommandUsageError(f"{report} is no report of pytest (--junitxml): {error}") from error
    names = {case.get("name", "") for case in cases}
    # One that fails and cannot be cleaned up has two entries.
    failed = sorted({case.get("name", "") for case in cases if case.find("failure") is not None or case.find("error") is not None})
    return Row(NAME, len(failed), "tests", len(names), more={"failed": failed}, goal=NONE)
