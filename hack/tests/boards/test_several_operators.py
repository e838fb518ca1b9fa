"""Boards while two operators answer Prometheus, after one of them began anew, and with jobs of one name in two namespaces."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead_dev.boards.files import FOLDER
from fairlead_dev.boards.panels import gained
from fairlead_dev.boards.reading import filled, load, panels, queries
from fairlead_dev.checkout import BINARIES, CHECKOUT
from fairlead_dev.metrics import sections

EXPRESSIONS = sorted({query.expr for board in load(CHECKOUT / FOLDER) for query in queries(board)})
OF_EACH = {"count(fairlead_operator_queue_depth)"}
"""What is asked of every operator on purpose: how many there are."""
BOTH = ("a", "b")


def given(values: Mapping[str, float], operators: Iterable[str] = BOTH) -> list[dict[str, str]]:
    """Series that each of the operators shows with the same values."""
    parts = [(*series.rstrip("}").split("{"), value) for series, value in values.items()]
    return [
        {"series": f'{name}{{{labels}{"," if labels else ""}pod="{operator}",instance="{operator}"}}', "values": f"{value}x60"}
        for operator in operators
        for name, labels, value in parts
    ]


def answer_as_expected(folder: Path, series: list[dict[str, str]], cases: list[dict[str, Any]]) -> str:
    """What promtool says of the cases; empty if all are as they should be."""
    file = folder / "several.yaml"
    file.write_text(json.dumps({"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": cases}]}))
    done = subprocess.run([BINARIES / "promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_no_gauge_of_the_operator_is_added_up_over_operators(expr: str) -> None:
    gauges = {
        metric.name
        for section in sections()
        if section.title.startswith("Operator")
        for metric in section.metrics
        if metric.kind == "gauge"
    }
    added = re.findall(r"\b(?:sum|count|avg)(?: by \([^)]*\))?\s*\(+\s*(\w+)", expr)
    assert expr in OF_EACH or not gauges & set(added)


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_jobs_are_told_apart_by_their_namespaces_too(expr: str) -> None:
    grouped = [set(labels.split(", ")) for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", expr)]
    assert [labels for labels in grouped if "transferjob" in labels and "namespace" not in labels] == []


def test_a_line_that_is_named_for_its_job_is_named_for_its_namespace_too() -> None:
    named = [target["legendFormat"] for board in load(CHECKOUT / FOLDER) for panel in panels(board) for target in panel["targets"]]
    of_jobs = [name for name in named if "{{transferjob}}" in name]
    assert len(of_jobs) > 5
    assert [name for name in of_jobs if "{{namespace}}" not in name] == []


def test_what_a_leader_and_its_successor_both_show_counts_once(tmp_path: Path) -> None:
    job = 'namespace="lab",transferjob="job"'
    series = given(
        {
            f'fairlead_job_info{{{job},tenant="t",source_node="n"}}': 1,
            f'fairlead_job_phase{{{job},phase="Transferring"}}': 1,
            f"fairlead_job_measured_bytes_per_second{{{job}}}": 50,
            f"fairlead_job_bytes{{{job}}}": 1000,
            f"fairlead_job_delivered_bytes{{{job}}}": 400,
            'fairlead_operator_link_measured_bytes_per_second{link="wan"}': 40,
            'fairlead_operator_link_available_bytes_per_second{link="wan"}': 80,
            'fairlead_operator_link_jobs_waiting{link="wan"}': 3,
            'fairlead_operator_tenant_jobs{tenant="t"}': 2,
            "fairlead_operator_queue_depth{}": 7,
            'fairlead_operator_jobs{phase="Transferring"}': 4,
        }
    )
    expected: Mapping[tuple[str, str], float] = {
        ("Fairlead / Goodput", "Goodput"): 400,
        ("Fairlead / Goodput", "Jobs that move data"): 1,
        ("Fairlead / Goodput", "Still to move"): 600,
        ("Fairlead / Fairness", "Use of the link"): 0.5,
        ("Fairlead / Fairness", "Jobs that wait for the link"): 3,
        ("Fairlead / Fairness", "Tenants"): 2,
        ("Fairlead / Operator", "Jobs that wait for a worker"): 7,
        ("Fairlead / Operator", "Jobs by phase"): 4,
    }
    asked = {(query.board, query.panel): query.expr for board in load(CHECKOUT / FOLDER) for query in queries(board) if query.ref == "A"}
    cases = [
        {
            "expr": f"sum({filled(asked[panel], {}, range_s=600, rate_interval_s=240)})",
            "eval_time": "30m",
            "exp_samples": [{"labels": "{}", "value": value}],
        }
        for panel, value in expected.items()
    ]
    assert answer_as_expected(tmp_path, series, cases) == ""


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
