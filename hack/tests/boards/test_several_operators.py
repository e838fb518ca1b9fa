"""Boards after an operator began anew."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead_dev.boards.panels import gained
from fairlead_dev.checkout import BINARIES


def answer_as_expected(folder: Path, series: list[dict[str, str]], cases: list[dict[str, Any]]) -> str:
    """What promtool says of the cases; empty if all are as they should be."""
    file = folder / "several.yaml"
    file.write_text(json.dumps({"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": cases}]}))
    done = subprocess.run([BINARIES / "promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


@pytest.mark.parametrize(
    ("what", "series", "counted"),
    [
        ("began before the time and went on", {"a": "1x20 3x60"}, 2),
        ("began within the time, with its first event", {"a": "_x20 1x60"}, 1),
        ("was replaced by another process", {"a": "5x20 7x10 stale", "b": "_x35 0x5 3x60"}, 2 + 3),
        ("began anew under the same labels", {"a": "4x20 6x10 0x5 1x60"}, 2 + 1),
        ("lost a scrape as the time begins", {"a": "4x9 stale 4x60"}, 0),
        ("ended before the time", {"a": "4x5 stale"}, 0),
    ],
)
def test_what_was_counted_within_a_time_outlives_who_counted_it(tmp_path: Path, what: str, series: Mapping[str, str], counted: int) -> None:
    shown = [{"series": f'events_total{{instance="{each}"}}', "values": values} for each, values in series.items()]
    # Half a count more or less is what `increase` makes of the ends.
    expr = f"round({gained('events_total', '50m')} or vector(0))"
    case = {"expr": expr, "eval_time": "60m", "exp_samples": [{"labels": "{}", "value": counted}]}
    assert answer_as_expected(tmp_path, shown, [case]) == "", what
