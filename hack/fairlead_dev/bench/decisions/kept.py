"""What the figures need of finished runs, in a committed folder: a matrix is made in parts, and a machine keeps nothing.

JSON lines, one for each finished run, training recording and scene of stream counts, in a file for each call. A line that was cut off does
not count, nor does one of another digest of what is measured; of a run that is there twice the first counts, by the files' names, which
begin with the time.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fairlead_advisor.probe.trace import Trace, read_trace
from fairlead_dev.bench.classifier.sampling import SampledRecording, at_one_hertz
from fairlead_dev.bench.decisions.lab.machine import boot
from fairlead_dev.bench.decisions.loaded_classification import is_replayed, watched
from fairlead_dev.bench.decisions.matrix import Cell
from fairlead_dev.bench.decisions.outcomes import CellOutcome, outcome_of
from fairlead_dev.bench.decisions.paper.recordings import TrainingRecording
from fairlead_dev.bench.lab.machine import description
from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.runs.plans import TRACE
from fairlead_dev.testbed.runs.record import MANIFEST, scenario_digest

SUFFIX = ".jsonl"
_US, _TICKS_PER_MS = 1e6, 1e4
"""A trace file has as many digits."""


class Kept:
    """The runs and scenes of one digest that a folder has; what is added goes into `file`, which is there from the first line on."""

    def __init__(self, file: Path, measured: str, lines: Iterable[Mapping[str, Any]] = ()) -> None:
        self._file, self._measured = file, measured
        self._runs: dict[str, Mapping[str, Any]] = {}
        self._scenes: dict[str, Mapping[str, Any]] = {}
        for line in lines:
            if line["measured"] == measured:
                self._take(line)

    @property
    def is_empty(self) -> bool:
        """Whether nothing of this digest is there."""
        return not (self._runs or self._scenes)

    def has(self, run: Cell | TrainingRecording) -> bool:
        """Whether that run is kept."""
        line = self._runs.get(run.name)
        return line is not None and line["scenario_digest"] == scenario_digest(run.scenario)

    def add(self, run: Cell | TrainingRecording, folder: Path) -> None:
        """Keeps the run in that folder, a good one, unless it is kept already."""
        if not self.has(run):
            self._append(recording_line(run, folder) if isinstance(run, TrainingRecording) else line_of(run, folder))

    def add_scene(self, scene: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keeps the rows of that scene of stream counts, unless there are some."""
        if scene not in self._scenes:
            self._append({"scene": scene, "rows": list(rows), "machine": _this_machine()})

    def scenes(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of every kept scene."""
        return {scene: list(line["rows"]) for scene, line in self._scenes.items()}

    def outcomes(self, cells: Iterable[Cell]) -> Iterator[CellOutcome]:
        """The outcomes of the cells that are kept."""
        return (outcome_of(cell, self._runs[cell.name]) for cell in cells if self.has(cell))

    def trace(self, run: str) -> Trace:
        """What was watched beside that run."""
        return unpacked(self._runs[run]["watched"])

    def sampled(self, recording: TrainingRecording) -> SampledRecording:
        """A training recording that is kept, as the paper samples it."""
        rtts_ms = [math.nan if rtt_ms is None else rtt_ms for rtt_ms in self._runs[recording.name]["sampled_rtts_ms"]]
        return SampledRecording(recording.path_id, str(recording.planned.background), np.array(rtts_ms))

    def _append(self, content: Mapping[str, Any]) -> None:
        line = {"measured": self._measured, **content}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab", buffering=0) as opened:
            opened.write(json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n")
        self._take(line)

    def _take(self, line: Mapping[str, Any]) -> None:
        if "run" in line:
            self._runs.setdefault(line["run"], line)
        else:
            self._scenes.setdefault(line["scene"], line)


def read_kept(folder: Path, measured: str) -> Kept:
    """What `folder` has of that digest, and where a call of now on this machine adds to.

    UsageError if it has runs, but of other digests alone: whoever goes on elsewhere would begin anew without noticing. UsageError too if a
    file is damaged.
    """
    lines = [line for file in sorted(folder.glob(f"*{SUFFIX}")) for line in _lines(file)]
    kept = Kept(folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{boot()}{SUFFIX}", measured, lines)
    if lines and kept.is_empty:
        there = ", ".join(sorted({line["measured"][:12] for line in lines}))
        raise CommandUsageError(
            f"{folder}: its runs are of {there}, and here {measured[:12]} would be measured: go on with the same sources, compilers, "
            "model, data and options, or begin anew with another folder"
        )
    return kept


def _lines(file: Path) -> Iterator[Mapping[str, Any]]:
    # What follows the last line's end was cut off.
    *whole, _ = file.read_bytes().split(b"\n")
    for number, text in enumerate(whole, 1):
        try:
            line = json.loads(text)
            lacking = {"measured", "machine", *_needed(line)} - line.keys()
        except (ValueError, TypeError, AttributeError):
            lacking = {"JSON"}
        if lacking:
            raise CommandUsageError(
                f"{file}, line {number}: is no kept run, without {', '.join(sorted(lacking))}: take the file from the repository again"
            )
        yield line


def _needed(line: Mapping[str, Any]) -> tuple[str, ...]:
    if "scene" in line:
        return ("rows",)
    return ("scenario_digest",) if "sampled_rtts_ms" in line else ("scenario_digest", "own", "settled_flows_bps", "flows")


def _this_machine() -> dict[str, str]:
    return {"description": description(), "boot": boot()}


def sampled_in(runs: Path, recording: TrainingRecording) -> SampledRecording:
    """The training recording in its folder in `runs`, as the paper samples it."""
    rtts_ms = at_one_hertz(read_trace(runs / recording.name / TRACE))
    return SampledRecording(recording.path_id, str(recording.planned.background), rtts_ms)


def recording_line(recording: TrainingRecording, folder: Path) -> dict[str, Any]:
    """What is learnt of the training recording in `folder`, to the last bit."""
    rtts_ms = [None if math.isnan(rtt_ms) else rtt_ms for rtt_ms in sampled_in(folder.parent, recording).rtts_ms.tolist()]
    digest = scenario_digest(recording.scenario)
    return {"run": recording.name, "scenario_digest": digest, "machine": _this_machine(), "sampled_rtts_ms": rtts_ms}


def line_of(cell: Cell, folder: Path) -> dict[str, Any]:
    """What the figures need of the run in `folder`, and nothing more."""
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return {
        "run": cell.name,
        **{name: manifest[name] for name in ("scenario_digest", "own", "settled_flows_bps", "machine")},
        "flows": [{name: flow[name] for name in ("name", "goodput_bps")} for flow in manifest["flows"]],
        **({"watched": packed(watched(read_trace(folder / TRACE)))} if is_replayed(cell.scene, cell.policy) else {}),
    }


def packed(trace: Trace) -> str:
    """A trace in some 6 bytes for a request: steps of the sending times in µs, and round-trip times in 0.1 µs, None for a lost request."""
    times_us = [round(time_s * _US) for time_s in trace.send_times_s]
    ticks = [None if math.isnan(rtt_ms) else round(rtt_ms * _TICKS_PER_MS) for rtt_ms in trace.rtts_ms]
    steps_us = [after - before for before, after in pairwise([0, *times_us])]
    return base64.b64encode(zlib.compress(json.dumps([steps_us, ticks], separators=(",", ":")).encode(), 9)).decode()


def unpacked(text: str) -> Trace:
    """The same trace again, to the last bit of what was read from its file."""
    steps_us, ticks = json.loads(zlib.decompress(base64.b64decode(text)))
    times_s = array("d", (time_us / _US for time_us in accumulate(steps_us)))
    return Trace(times_s, array("d", (math.nan if tick is None else tick / _TICKS_PER_MS for tick in ticks)))
