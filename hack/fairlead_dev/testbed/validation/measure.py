"""Runs the validation and keeps its figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fairlead_dev.testbed.runs.batch import RUNS
from fairlead_dev.testbed.runs.record import MANIFEST
from fairlead_dev.testbed.scenario.model import Scenario
from fairlead_dev.testbed.validation.scenarios import COEXISTENCE
from fairlead_dev.testbed.validation.theory import Comparison, compare

FIGURES = "validation.json"


def comparisons(scenarios: Sequence[Scenario], folder: Path) -> Iterator[Comparison]:
    """Theory beside measurement for the runs of `scenarios` recorded in `folder`."""
    for scenario in scenarios:
        yield from compare(scenario, _manifest(folder, scenario.name))


def _manifest(folder: Path, name: str) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / RUNS / name / MANIFEST).read_text())
    return manifest


def shares(prefix: str, folder: Path) -> list[dict[str, Any]]:
    """Who carried how much on the path of that prefix, for every pair of congestion controls recorded in `folder`."""
    found = []
    for background, foreground in COEXISTENCE:
        manifest = _manifest(folder, f"{prefix}-{background}-{foreground}")
        carried = {flow["name"]: flow["goodput_bps"] / 1e6 for flow in manifest["flows"]}
        found.append(
            {
                "path": prefix,
                "background": background,
                "foreground": foreground,
                "background_mbps": round(carried["background"], 1),
                "foreground_mbps": round(carried["foreground"], 1),
            }
        )
    return found


def faults_of(folder: Path, name: str) -> list[str]:
    """What disturbed the run of that name, by its verdict."""
    faults: list[str] = _manifest(folder, name)["verdict"]["faults"]
    return faults


def write_figures(file: Path, found: Sequence[Comparison], pairs: Sequence[dict[str, Any]], disturbed: Mapping[str, Sequence[str]]) -> None:
    """Keep the figures as JSON."""
    comparisons = [{**asdict(one), "holds": one.holds} for one in found]
    content = {"comparisons": comparisons, "coexistence": list(pairs), "disturbed": dict(disturbed)}
    file.write_text(json.dumps(content, indent=1) + "\n")


def table(found: Sequence[Comparison]) -> str:
    """The comparisons for a person."""
    lines = [f"{'path and traffic':32} {'quantity':26} {'theory':>10} {'measured':>10} unit"]
    lines += [
        f"{one.scenario:32} {one.quantity:26} {one.expected:10.4g} {one.measured:10.4g} {one.unit:6}{'' if one.holds else ' off'}"
        for one in found
    ]
    return "\n".join(lines)
