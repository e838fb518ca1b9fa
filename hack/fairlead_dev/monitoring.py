"""Checks with promtool what Prometheus is given: rules, their unit tests, names and help of all metrics, and the queries of the boards."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from fairlead_dev.boards.files import FOLDER
from fairlead_dev.boards.made_up import promtool_tests
from fairlead_dev.boards.reading import Board, load
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.metrics import documented
from fairlead_dev.promtool import PROMTOOL, complaints

RULES: Final = CHECKOUT / "charts" / "fairlead" / "files" / "rules.yaml"
RULE_TESTS: Final = CHECKOUT / "hack" / "tests" / "monitoring" / "alerts.yaml"
RUNBOOKS: Final = CHECKOUT / "docs" / "runbooks"
_HISTOGRAM_PARTS: Final = ("_bucket", "_sum", "_count")


def rules() -> list[Mapping[str, Any]]:
    """All recording rules and alerts."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts() -> frozenset[str]:
    """Names of the alerts."""
    return frozenset(rule["alert"] for rule in rules() if "alert" in rule)


def tested_alerts() -> frozenset[str]:
    """Alerts that a unit test sees fire."""
    tests = yaml.safe_load(RULE_TESTS.read_text())["tests"]
    return frozenset(case["alertname"] for test in tests for case in test.get("alert_rule_test", ()) if case["exp_alerts"])


def runbooks() -> frozenset[str]:
    """Alerts that have a page."""
    return frozenset(page.stem for page in RUNBOOKS.glob("Fairlead*.md"))


def metrics_in(expression: str) -> frozenset[str]:
    """Names of our metrics in an expression, those of a histogram without its parts."""
    names = re.findall(r"\bfairlead_[a-z_]+", expression)
    return frozenset(next((name.removesuffix(part) for part in _HISTOGRAM_PARTS if name.endswith(part)), name) for name in names)


def exposition() -> str:
    """Every documented metric with one sample, as a program would show it."""
    lines = []
    for metric in documented().values():
        labels = ",".join(f'{label}="x"' for label in metric.labels)
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        if metric.kind == "histogram":
            bucket = ",".join(filter(None, (labels, 'le="+Inf"')))
            lines += [f"{metric.name}_bucket{{{bucket}}} 1", f"{metric.name}_sum{{{labels}}} 1", f"{metric.name}_count{{{labels}}} 1"]
        else:
            lines.append(f"{metric.name}{{{labels}}} 1")
    return "\n".join(lines) + "\n"


def unanswered(boards: Iterable[Board], promtool: Path = PROMTOOL) -> str:
    """What promtool says of queries without an answer where every documented metric has moved; empty if all have one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "boards.yaml")
        path.write_text(json.dumps(promtool_tests(boards)))
        done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def main(promtool: Path = PROMTOOL) -> int:
    """Runs the checks; 1 if one failed."""
    checks = (["check", "rules", "--lint-fatal", str(RULES)], ["test", "rules", str(RULE_TESTS)])
    failed = [words for words in checks if subprocess.run([promtool, *words], check=False).returncode]
    for words, said in (
        (["check", "metrics"], complaints(exposition(), promtool)),
        (["test", "boards"], unanswered(load(CHECKOUT / FOLDER), promtool)),
    ):
        if said:
            print(said, file=sys.stderr)
            failed.append(words)
    for words in failed:
        print(f"promtool {' '.join(words[:2])} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
