"""Tells programs, models and data apart, so that a run of other ones is not taken for one of these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import fairlead_dev
from fairlead_dev.bench.classifier import dtw, sampling
from fairlead_dev.bench.decisions import matrix, timeline
from fairlead_dev.bench.decisions.builds import program_digest
from fairlead_dev.bench.decisions.matrix import ADVISED, Cell, Policy
from fairlead_dev.bench.decisions.paper import agent, classifier
from fairlead_dev.bench.digests import ADVISOR, advisor_files, digest_of
from fairlead_dev.clients import http
from fairlead_dev.testbed.runs.record import scenario_digest

_TOOLS = Path(fairlead_dev.__file__).parent
_LAB = ("testbed/agents", "testbed/lab", "testbed/runs", "testbed/scenario", "netlab", "wan", "bench/decisions/lab")
"""What lays the path and sends over it, beside the programs. What the data set's code draws is in each run's scenario."""
_LAB_MODULES = (http, matrix, timeline)


def fingerprints(mover: Path, emulator: Path, model: Path | None, data_sha256: str) -> dict[Policy, str]:
    """A fingerprint for each policy: of what its runs depend on, the lab's own code among that, and of nothing else."""
    ends = joined([program_digest(mover), program_digest(emulator), digest_of(lab_files())])
    # The installed model lies within the advisor's package.
    ours = digest_of([*advisor_files(), *([] if model is None else [_model_file(model)])])
    paper = digest_of(_source_of(module) for module in (agent, classifier, dtw, sampling))
    parts = {Policy.PAPER: (ends, paper, data_sha256), **dict.fromkeys(ADVISED, (ends, ours))}
    return {policy: joined(parts.get(policy, (ends,))) for policy in Policy}


def lab_files() -> list[Path]:
    """The sources that every run depends on, whoever chooses there."""
    folders = [*(_TOOLS / folder for folder in _LAB), ADVISOR / "probe"]
    return [*(_source_of(module) for module in _LAB_MODULES), *(file for folder in folders for file in sorted(folder.rglob("*.py")))]


def _source_of(module: ModuleType) -> Path:
    assert module.__file__ is not None
    return Path(module.__file__)


def _model_file(model: Path) -> Path:
    return model / "model.onnx" if model.is_dir() else model


def measured(planned: Iterable[Cell], sweep: str) -> str:
    """One digest of a whole plan: of every run's programs, path, traffic, length and number, and of the sweep of stream counts."""
    return joined([*sorted(f"{cell.name} {cell.fingerprint} {scenario_digest(cell.scenario)}" for cell in planned), sweep])


def joined(parts: Iterable[str]) -> str:
    """One digest of several."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
