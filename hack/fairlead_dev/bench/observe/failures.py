"""Failures that are brought about on a real API server, and how many of them `kubectl fairlead why` names truly in time.

The tests in `operator/tests/apiserver/why` bring them about; with FAIRLEAD_INDUCED_FAILURES they write what was named, and when.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairlead_dev.bench.rows import Goal, Row, not_available

NAME = "induced_failures_named"
IN_TIME_S = 10.0
FEWEST = Goal("at_least", 40, "value")


def read_records(folder: Path) -> list[dict[str, Any]]:
    """What the tests wrote of each failure: `seconds` until it was named truly, null if it never was."""
    return [record for file in sorted(folder.glob("*.json")) for record in json.loads(file.read_text(encoding="utf-8"))]


def row_of(records: Sequence[dict[str, Any]]) -> Row:
    """How many were named truly in time, of all that were brought about."""
    if not records:
        return not_available(NAME, "failures", "no failure was brought about")
    late = {record["name"]: record["seconds"] for record in records if record["seconds"] is None or record["seconds"] > IN_TIME_S}
    seconds = [record["seconds"] for record in records if record["seconds"] is not None]
    figures = {"median_s": statistics.median(seconds), "most_s": max(seconds)} if seconds else {}
    in_time = len(records) - len(late)
    more = {**figures, "not_in_time": late, "reasons": sorted({record["reasons"][-1] for record in records})}
    return Row(NAME, in_time, "failures", len(records), in_time / len(records), more=more, goal=FEWEST)
