"""Tells programs, models and data apart, so that a run of other ones is not taken for one of these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import fairlead_dev
from fairlead_dev.bench.builds import program_digest
from fairlead_dev.bench.classifier import dtw, sampling
from fairlead_dev.bench.decisions import matrix, timeline
from fairlead_dev.bench.decisions.matrix import ADVISED, Cell, Policy
from fairlead_dev.bench.decisions.paper import agent, classifier, recordings
from fairlead_dev.bench.decisions.paper.recordings import TrainingRecording
from fairlead_dev.bench.digests import ADVISOR, advisor_files, digest_of
from fairlead_dev.clients import http
from fairlead_dev.testbed.runs.record import scenario_digest

_TOOLS = Path(fairlead_dev.__file__).parent
_LAB = ("testbed/agents", "testbed/lab", "testbed/runs", "testbed/scenario", "netlab", "wan", "bench/decisions/lab")
"""What lays the path and sends over it, beside the programs. What the data set's code draws is in each run's scenario."""
_LAB_MODULES = (http, matrix, timeline)
_RECORDINGS, _FALCON = "testbed/dataset", "bench/falcon"
"""What draws a path's training recordings, on which the runs that learn from them depend; and Falcon's search."""


def fingerprints(mover: Path, emulator: Path, model: Path | None, data_sha256: str) -> dict[Policy, str]:
    """A fingerprint for each policy: of what its runs depend on, the lab's own code among that, and of nothing else."""
    ends = joined([program_digest(mover), program_digest(emulator), digest_of(lab_files())])
    # The installed model lies within the advisor's package.
    ours = digest_of([*advisor_files(), *([] if model is None else [_model_file(model)])])
    paper = digest_of(_source_of(module) for module in (agent, classifier, dtw, sampling))
    own_path = digest_of([_source_of(recordings), *_sources_in(_RECORDINGS)])
    parts = {
        Policy.PAPER: (ends, paper, data_sha256),
        Policy.PAPER_OWN_PATH: (ends, paper, data_sha256, own_path),
        Policy.FALCON: (ends, digest_of(_sources_in(_FALCON))),
        **dict.fromkeys(ADVISED, (ends, ours)),
    }
    return {policy: joined(parts.get(policy, (ends,))) for policy in Policy}


def recordings_fingerprint(emulator: Path) -> str:
    """The same of training recordings, in which there is no mover: what is drawn is in each one's scenario."""
    return joined([program_digest(emulator), digest_of(lab_files())])


def lab_files() -> list[Path]:
    """The sources that every run depends on, whoever chooses there."""
    files = [file for folder in _LAB for file in _sources_in(folder)]
    return [*(_source_of(module) for module in _LAB_MODULES), *files, *sorted((ADVISOR / "probe").rglob("*.py"))]


def _sources_in(folder: str) -> list[Path]:
    return sorted((_TOOLS / folder).rglob("*.py"))


def _source_of(module: ModuleType) -> Path:
    assert module.__file__ is not None
    return Path(module.__file__)


def _model_file(model: Path) -> Path:
    return model / "model.onnx" if model.is_dir() else model


def measured(planned: Iterable[Cell | TrainingRecording], sweep: str) -> str:
    """One digest of a whole plan: of every run's programs, path, traffic, length and number, and of the sweep of stream counts."""
    return joined([*sorted(f"{run.name} {run.fingerprint} {scenario_digest(run.scenario)}" for run in planned), sweep])


def joined(parts: Iterable[str]) -> str:
    """One digest of several."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
