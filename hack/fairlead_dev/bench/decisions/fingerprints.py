"""Tells programs, models and data apart, so that a run of other ones is not taken for one of these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import fairlead_advisor
from fairlead_dev.bench.decisions.matrix import FIXED, Cell, Policy
from fairlead_dev.bench.decisions.paper import agent, classifier
from fairlead_dev.testbed.runs.record import scenario_digest

_ADVISOR = Path(fairlead_advisor.__file__).parent
_UNSEEN = frozenset({"train", "assess"})
"""Parts of the advisor's package that its sidecar never loads."""


def fingerprints(mover: Path, emulator: Path, model: Path | None, data_sha256: str) -> dict[Policy, str]:
    """A fingerprint for each policy: of what its runs depend on, and of nothing else."""
    ends = digest_of([mover, emulator])
    # The installed model lies within the advisor's package.
    ours = digest_of([*_advisor_files(), *([] if model is None else [_model_file(model)])])
    paper = digest_of([Path(agent.__file__), Path(classifier.__file__)])
    parts = {Policy.PAPER: (ends, paper, data_sha256), Policy.OURS: (ends, ours)}
    return {policy: joined((ends,) if policy in FIXED else parts[policy]) for policy in Policy}


def digest_of(files: Iterable[Path]) -> str:
    """SHA-256 over the files' contents, in that order."""
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            whole.update(hashlib.file_digest(opened, "sha256").digest())
    return whole.hexdigest()


def _model_file(model: Path) -> Path:
    return model / "model.onnx" if model.is_dir() else model


def _advisor_files() -> list[Path]:
    files = (file for file in _ADVISOR.rglob("*") if file.suffix in (".py", ".onnx"))
    return sorted(file for file in files if file.relative_to(_ADVISOR).parts[0] not in _UNSEEN)


def measured(planned: Iterable[Cell], sweep: str) -> str:
    """One digest of a whole plan: of every run's programs, path, traffic, length and number, and of the sweep of stream counts."""
    return joined([*sorted(f"{cell.name} {cell.fingerprint} {scenario_digest(cell.scenario)}" for cell in planned), sweep])


def joined(parts: Iterable[str]) -> str:
    """One digest of several."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
