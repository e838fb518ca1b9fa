"""Pictures for the docs: `python -m fairlead_dev.testbed.validation.plot VALIDATION_FOLDER DATASET OUTPUT`. Needs matplotlib."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from fairlead_dev.errors import CommandUsageError, DevError
from fairlead_dev.testbed.data import Recording, read_split
from fairlead_dev.testbed.dataset.classes import BackgroundClass
from fairlead_dev.testbed.runs.batch import RUNS
from fairlead_dev.testbed.validation.measure import FIGURES
from fairlead_dev.testbed.validation.scenarios import PATHS

try:
    import matplotlib as mpl
    from matplotlib import pyplot as plt
except ImportError:
    sys.exit("the pictures need matplotlib: install it beside the locked packages")

_CONTROL_COLOURS = {"cubic": "#0072b2", "bbr": "#d55e00"}
_DPI = 110


def main(arguments: Sequence[str]) -> int:
    """Draw every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("validation", type=Path, help="a folder that `validate` filled")
    parser.add_argument("dataset", type=Path, help="a packed data set")
    parser.add_argument("output", type=Path)
    options = parser.parse_args(arguments)
    mpl.use("Agg")
    plt.rcParams.update({"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "fairlead"})
    options.output.mkdir(parents=True, exist_ok=True)
    try:
        figures = json.loads((options.validation / FIGURES).read_text())
        _theory(figures["comparisons"], options.output / "theory.png")
        _coexistence(figures["coexistence"], options.output / "coexistence.png")
        _queue(options.validation, options.output / "queue.png")
        _classes(list(read_split(options.dataset, "train")), options.output / "classes.png")
    except FileNotFoundError as error:
        print(f"{error.filename}: is missing: run `validate` to its end first", file=sys.stderr)
        return CommandUsageError.exit_code
    except DevError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _theory(comparisons: list[dict[str, Any]], file: Path) -> None:
    ascending = sorted(comparisons, key=lambda one: str(one["quantity"]))
    groups = {quantity: list(group) for quantity, group in groupby(ascending, key=lambda one: str(one["quantity"]))}
    figure, axes = plt.subplots(2, 4, figsize=(10, 5), constrained_layout=True)
    for axis, (quantity, group) in zip(axes.flat, groups.items(), strict=False):
        expected, measured = [one["expected"] for one in group], [one["measured"] for one in group]
        low, high = min(expected + measured) * 0.9, max(expected + measured) * 1.1
        axis.plot([low, high], [low, high], color="0.7", linewidth=1, zorder=0)
        axis.errorbar(expected, measured, yerr=[one["tolerance"] for one in group], fmt="o", markersize=4, elinewidth=0.8, color="#0072b2")
        axis.set(title=quantity, xlabel=f"theory ({group[0]['unit']})", ylabel="measured")
    for axis in axes.flat[len(groups) :]:
        axis.set_axis_off()
    figure.savefig(file, dpi=_DPI)


def _coexistence(pairs: list[dict[str, Any]], file: Path) -> None:
    paths = list(dict.fromkeys(pair["path"] for pair in pairs))
    figure, axes = plt.subplots(1, len(paths), figsize=(10, 2.6), constrained_layout=True)
    for axis, path in zip(np.atleast_1d(axes), paths, strict=True):
        for row, pair in enumerate(one for one in pairs if one["path"] == path):
            left = 0.0
            for side in ("background", "foreground"):
                mbps = pair[f"{side}_mbps"]
                axis.barh(
                    row, mbps, left=left, color=_CONTROL_COLOURS[pair[side]], edgecolor="white", hatch="//" if side == "foreground" else ""
                )
                axis.text(left + mbps / 2, row, f"{pair[side]} {mbps:.0f}", ha="center", va="center", color="white", fontsize=7)
                left += mbps
        axis.set(title=f"{path}: background, then foreground (hatched)", xlabel="goodput (Mb/s)", yticks=[])
    figure.savefig(file, dpi=_DPI)


def _queue(folder: Path, file: Path) -> None:
    """The queue that the emulator held and the RTT that the probe saw, on one time axis."""
    figure, axes = plt.subplots(len(PATHS), 1, figsize=(10, 7), constrained_layout=True)
    for axis, (name, path) in zip(axes, PATHS.items(), strict=True):
        run = folder / RUNS / f"{name}-full"
        trace, queue = _columns(run / "trace.csv"), _columns(run / "queue.csv")
        delay_ms = path.rtt_ms + queue["forward_queue_bytes"] * 8 / path.rate_bps * 1000
        during = queue["time_s"] >= 0
        axis.plot(trace["send_time_s"], trace["rtt_ms"], color="#0072b2", linewidth=0.8, label="RTT seen by the probe")
        axis.plot(queue["time_s"][during], delay_ms[during], ".", color="#d55e00", markersize=3, label="propagation + emulator's queue")
        axis.axhline(path.rtt_ms + path.full_queue_ms, color="0.6", linestyle="--", linewidth=0.8)
        axis.set(title=f"{name}, one CUBIC flow", ylabel="ms")
    axes[0].legend(loc="lower right", frameon=False)
    axes[-1].set_xlabel("s")
    figure.savefig(file, dpi=_DPI)


def _classes(recordings: list[Recording], file: Path) -> None:
    """One recording of every class on the path that has all of them and the largest bandwidth-delay product."""
    by_path: dict[str, dict[str, Recording]] = {}
    for recording in recordings:
        by_path.setdefault(recording.run["path_id"], {})[recording.run["class"]] = recording
    complete = [found for found in by_path.values() if len(found) == len(BackgroundClass)]
    if not complete:
        raise CommandUsageError("the data set has no path with a training run of every class")
    chosen = max(complete, key=lambda found: found["B0-C0"].run["rate_bps"] * found["B0-C0"].run["rtt_ms"])
    run = chosen["B0-C0"].run
    figure, axes = plt.subplots(3, 2, figsize=(10, 5.5), sharex=True, sharey=True, constrained_layout=True)
    for axis, background in zip(axes.flat, BackgroundClass, strict=True):
        recording = chosen[background]
        axis.plot(recording.send_times_s, recording.rtts_ms, linewidth=0.7, color="#0072b2")
        axis.set_title(f"{background}")
    for axis in axes[:, 0]:
        axis.set_ylabel("RTT (ms)")
    for axis in axes[-1]:
        axis.set_xlabel("s")
    figure.suptitle(f"{run['rate_bps'] / 1e6:.0f} Mb/s, {run['rtt_ms']:.0f} ms, a buffer of {run['queue_bdp']:.2f} BDP")
    figure.savefig(file, dpi=_DPI)


def _columns(file: Path) -> dict[str, Any]:
    with file.open() as opened:
        rows = list(csv.DictReader(opened))
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in rows[0]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
