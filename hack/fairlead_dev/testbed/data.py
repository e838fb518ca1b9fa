"""The compact form of a data set: one `.npz` of traces per split and `runs.jsonl.gz` with what is known of each run.

The arrays of a split, for n runs with N samples together (README.md documents them for readers in other languages):
    names          [n] the runs' names, `<path>__<class>__<seed>`
    start          [n + 1] int64: run i has the samples start[i] to start[i + 1]
    rate_hz        [n] float64: requests a second
    rtt_floor_ms   [n] float64, rtt_step_ms [n] float64: rtt_ms = floor + step * rtt
    rtt            [N] uint16, 65535 for a lost request
    lateness       [N] uint16 in units of 10 us: request k of a run was sent k / rate_hz + lateness after its start

Packets of bursts are in a file of their own, `burst_packets.npz`: names, start, rtt_floor_ms, rtt_step_ms and rtt as above, and
    send_time_us   [N] uint32: microseconds after the start of the run's trace
"""

from __future__ import annotations

import gzip
import json
import math
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairlead_dev.errors import CommandUsageError

FORMAT = 1
RUNS_FILE = "runs.jsonl.gz"
BURST_PACKETS_FILE = "burst_packets.npz"
LOST = 65_535
LATENESS_UNIT_S = 1e-5
_LEAST_STEP_MS = 1e-3
_MOST_METADATA_BYTES = 200_000_000


@dataclass(frozen=True, slots=True)
class Recording:
    """A trace and what is known of its run. `send_times_s` and `rtts_ms` [samples] float64; NaN is a lost request."""

    name: str
    run: dict[str, Any]
    send_times_s: NDArray[np.float64]
    rtts_ms: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RawTrace:
    """A trace as recorded, to be packed. Requests are on a timetable of `rate_hz`, none skipped."""

    name: str
    rate_hz: float
    send_times_s: Sequence[float]
    rtts_ms: Sequence[float]


@dataclass(frozen=True, slots=True)
class BurstPackets:
    """The packets of a run's bursts in the order of sending: float64 [packets], NaN is a lost one. Times as in the run's trace."""

    name: str
    send_times_s: NDArray[np.float64]
    rtts_ms: NDArray[np.float64]


def write_burst_packets(folder: Path, runs: Sequence[BurstPackets]) -> None:
    """Pack the bursts of `runs`; the same packets give the same bytes."""
    packed = [_quantized(run.rtts_ms) for run in runs]
    with (folder / BURST_PACKETS_FILE).open("wb") as opened:
        np.savez_compressed(
            opened,
            format=np.int64(FORMAT),
            names=np.array([run.name for run in runs]),
            start=np.cumsum([0, *(len(run.rtts_ms) for run in runs)]),
            rtt_floor_ms=np.array([floor_ms for _, floor_ms, _ in packed]),
            rtt_step_ms=np.array([step_ms for *_, step_ms in packed]),
            rtt=np.concatenate([rtt for rtt, *_ in packed]),
            send_time_us=np.concatenate([np.round(run.send_times_s * 1e6).astype(np.uint32) for run in runs]),
        )


def read_burst_packets(folder: Path) -> dict[str, BurstPackets]:
    """The bursts of the runs in `folder` by the run's name; UsageError if the file is missing or damaged."""
    file = folder / BURST_PACKETS_FILE
    arrays = _arrays(file, "the data set has no bursts", "names", "start", "rtt_floor_ms", "rtt_step_ms", "rtt", "send_time_us")
    names, start, floor_ms, step_ms, rtt, send_time_us = arrays
    found = {}
    for index, name in enumerate(names):
        part = slice(int(start[index]), int(start[index + 1]))
        found[str(name)] = BurstPackets(str(name), send_time_us[part] / 1e6, _milliseconds(rtt[part], floor_ms[index], step_ms[index]))
    return found


def write_split(file: Path, traces: Sequence[RawTrace]) -> None:
    """Pack `traces` into `file`; the same traces give the same bytes."""
    rtts, latenesses, floors, steps, starts = [], [], [], [], [0]
    for trace in traces:
        rtt, floor_ms, step_ms = _quantized(np.asarray(trace.rtts_ms, dtype=np.float64))
        timetable_s = np.arange(len(rtt)) / trace.rate_hz
        late = np.asarray(trace.send_times_s, dtype=np.float64) - timetable_s
        # Traces count from the first request, which may itself have been late.
        late -= late.min(initial=0.0)
        rtts.append(rtt)
        latenesses.append(np.clip(_in_order(late, timetable_s), 0, LOST).astype(np.uint16))
        floors.append(floor_ms)
        steps.append(step_ms)
        starts.append(starts[-1] + len(rtt))
    with file.open("wb") as opened:
        np.savez_compressed(
            opened,
            format=np.int64(FORMAT),
            names=np.array([trace.name for trace in traces]),
            start=np.array(starts, dtype=np.int64),
            rate_hz=np.array([trace.rate_hz for trace in traces]),
            rtt_floor_ms=np.array(floors),
            rtt_step_ms=np.array(steps),
            rtt=np.concatenate(rtts) if rtts else np.zeros(0, np.uint16),
            lateness=np.concatenate(latenesses) if latenesses else np.zeros(0, np.uint16),
        )


def _in_order(late_s: NDArray[np.float64], timetable_s: NDArray[np.float64]) -> NDArray[np.int64]:
    """Lateness in units, so that of requests which left together after a pause each is later than the one before."""
    number = np.arange(len(late_s))
    sent = np.round((timetable_s + late_s) / LATENESS_UNIT_S).astype(np.int64)
    # Two units: a timetable of another rate is rounded by up to half a unit on either side.
    apart = np.maximum.accumulate(sent - 2 * number) + 2 * number if len(sent) else sent
    return apart - np.round(timetable_s / LATENESS_UNIT_S).astype(np.int64)


def _quantized(rtts_ms: NDArray[np.float64]) -> tuple[NDArray[np.uint16], float, float]:
    answered = rtts_ms[~np.isnan(rtts_ms)]
    if not len(answered):
        return np.full(len(rtts_ms), LOST, np.uint16), 0.0, _LEAST_STEP_MS
    floor_ms = float(answered.min())
    step_ms = max(_LEAST_STEP_MS, (float(answered.max()) - floor_ms) / (LOST - 1))
    levels = np.where(np.isnan(rtts_ms), LOST, np.round((np.nan_to_num(rtts_ms, nan=floor_ms) - floor_ms) / step_ms))
    return levels.astype(np.uint16), floor_ms, step_ms


def write_runs(folder: Path, runs: Sequence[dict[str, Any]]) -> None:
    """Write what is known of the runs; the same runs give the same bytes."""
    text = "".join(json.dumps(run, sort_keys=True) + "\n" for run in runs)
    with (folder / RUNS_FILE).open("wb") as opened, gzip.GzipFile("", "wb", 9, opened, mtime=0) as compressed:
        compressed.write(text.encode())


def read_runs(folder: Path) -> dict[str, dict[str, Any]]:
    """What is known of every run of the data set in `folder`, by the run's name; UsageError if it is not one."""
    file = folder / RUNS_FILE
    try:
        with gzip.open(file, "rb") as opened:
            text = opened.read(_MOST_METADATA_BYTES + 1)
    except OSError as error:
        raise CommandUsageError(f"{file}: cannot be read ({error}): name a folder with a packed data set") from None
    if len(text) > _MOST_METADATA_BYTES:
        raise CommandUsageError(f"{file}: unpacks to over {_MOST_METADATA_BYTES} bytes: is it a data set's?")
    try:
        runs = [json.loads(line) for line in text.splitlines()]
        return {run["name"]: run for run in runs}
    except (ValueError, KeyError, TypeError) as error:
        raise CommandUsageError(f"{file}: is damaged ({error}): fetch or generate the data set again") from None


def read_split(folder: Path, split: str) -> Iterator[Recording]:
    """The recordings of `split` in `folder`, in the order of packing; UsageError if the file is missing or damaged."""
    runs = read_runs(folder)
    file = folder / f"{split}.npz"
    why = f"the data set has no split {split!r}"
    arrays = _arrays(file, why, "names", "start", "rate_hz", "rtt_floor_ms", "rtt_step_ms", "rtt", "lateness")
    names, start, rate_hz, floor_ms, step_ms, rtt, lateness = arrays
    for index, name in enumerate(names):
        if str(name) not in runs:
            raise CommandUsageError(f"{file}: run {name} is not in {RUNS_FILE}: the files are of different data sets")
        part = slice(int(start[index]), int(start[index + 1]))
        rtts_ms = _milliseconds(rtt[part], floor_ms[index], step_ms[index])
        times_s = np.arange(len(rtts_ms)) / rate_hz[index] + lateness[part] * LATENESS_UNIT_S
        yield Recording(str(name), runs[str(name)], times_s, rtts_ms)


def _milliseconds(levels: NDArray[np.uint16], floor_ms: float, step_ms: float) -> NDArray[np.float64]:
    return np.where(levels == LOST, math.nan, floor_ms + step_ms * levels.astype(np.float64))


def _arrays(file: Path, why_missing: str, *names: str) -> list[NDArray[Any]]:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            if int(arrays["format"]) != FORMAT:
                raise CommandUsageError(f"{file}: has format {int(arrays['format'])}, this program reads {FORMAT}")
            return [arrays[name] for name in names]
    except FileNotFoundError:
        raise CommandUsageError(f"{file}: no such file: {why_missing}") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise CommandUsageError(f"{file}: is damaged ({error}): fetch or generate the data set again") from None
