"""Packed data sets of made traces, and the command line of the classifier's bench."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairlead_advisor.models.answer import CLASSES
from fairlead_dev.testbed.data import RawTrace, write_runs, write_split

from ..caricature import caricature


def made(folder: Path, split: str, paths: Sequence[str], **more: Any) -> Path:
    """A packed set with one recording of each class on each path."""
    runs = [
        {"name": f"{path}__{name}__s0", "path_id": path, "class": name, "seed": "s0", "split": split} for path in paths for name in CLASSES
    ]
    traces = [caricature(str(run["class"]), seconds=20, rate_hz=50, base_ms=100, seed=number) for number, run in enumerate(runs)]
    folder.mkdir()
    write_split(
        folder / f"{split}.npz",
        [RawTrace(str(run["name"]), 50.0, list(of.send_times_s), list(of.rtts_ms)) for run, of in zip(runs, traces, strict=True)],
    )
    write_runs(folder, [run | more for run in runs])
    return folder


def arguments(data: Path, output: Path, *more: str) -> list[str]:
    return ["--data", str(data), "--output", str(output), "--jobs", "1", *more]
