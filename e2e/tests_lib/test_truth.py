"""What is held against Prometheus' answers: the queries ask for metrics and labels that exist, and bounds are bounds."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from e2e.lib.truth import BY_WEIGHT, CROWDED, EXACT, Truth, exactly, rate, untold

from fairlead_dev.boards.made_up import labels_of_pods
from fairlead_dev.checkout import BINARIES
from fairlead_dev.metrics import sections

TRUTHS = (*EXACT, *CROWDED, *BY_WEIGHT)
SELECTOR = re.compile(r"(fairlead_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)=~?"([^"|]*)[^"]*"')


def series(*values: str) -> list[dict[str, Any]]:
    return [{"metric": {"pod": str(number)}, "value": [1.0, value]} for number, value in enumerate(values)]


@pytest.mark.parametrize(
    ("truth", "answer", "told"),
    [
        pytest.param(exactly("a", 5e6), series("5000000", "5e+06"), True, id="equal"),
        pytest.param(exactly("a", 5e6), series("5000001"), False, id="one more"),
        pytest.param(exactly("a", 0), series(), False, id="no series"),
        pytest.param(exactly("a", 1), series("1", "2"), False, id="one of two"),
        pytest.param(Truth("a", 0.06, 0.09), series("NaN"), False, id="no number"),
        pytest.param(rate("a", 16e6), series("1.9e6"), True, id="bits as bytes"),
        pytest.param(rate("a", 16e6), series("2.1e6"), False, id="above the cap"),
    ],
)
def test_every_series_must_lie_within_the_bounds(truth: Truth, answer: list[dict[str, Any]], told: bool) -> None:
    assert truth.is_told_by(answer) is told
    values = [str(each["value"][1]) for each in answer]
    assert untold([truth], {"a": answer}) == ({} if told else {truth: values})


@pytest.mark.parametrize("truth", TRUTHS, ids=lambda truth: truth.expr)
def test_queries_ask_for_metrics_and_labels_that_exist(truth: Truth) -> None:
    labels = {metric.name: {*metric.labels, *labels_of_pods(section)} for section in sections() for metric in section.metrics}
    found = SELECTOR.findall(truth.expr)
    assert found
    for name, matchers in found:
        assert {label for label, _ in MATCHER.findall(matchers)} <= labels[name]


def test_prometheus_answers_the_queries_where_there_is_what_they_ask_for(tmp_path: Path) -> None:
    def made_up(found: re.Match[str]) -> str:
        pairs = ",".join(f'{label}="{value}"' for label, value in MATCHER.findall(found.group(2) or ""))
        return f"{found.group(1)}{{{pairs}}}"

    made = {made_up(found) for truth in TRUTHS for found in SELECTOR.finditer(truth.expr)}
    assert len(made) >= 30
    given = [{"series": each, "values": "1x10"} for each in sorted(made)]
    cases = [
        {"expr": f"count({truth.expr}) > bool 0", "eval_time": "2m", "exp_samples": [{"labels": "{}", "value": 1}]} for truth in TRUTHS
    ]
    file = tmp_path / "truths.yaml"
    file.write_text(json.dumps({"tests": [{"interval": "15s", "input_series": given, "promql_expr_test": cases}]}))
    done = subprocess.run([BINARIES / "promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
