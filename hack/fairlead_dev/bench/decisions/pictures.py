"""The pictures of the docs: goodput and Jain's index of every cell, and one transfer whose background changes, with its real trace."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl

from fairlead_dev.bench.decisions.figures import Group, groups
from fairlead_dev.bench.decisions.lab.transfer import SAMPLES
from fairlead_dev.bench.decisions.matrix import LOOPS, MAIN, Policy
from fairlead_dev.bench.decisions.outcomes import CellOutcome
from fairlead_dev.testbed.runs.batch import RUNS
from fairlead_dev.testbed.runs.plans import FLOWS, TRACE

mpl.use("Agg")
# The same data give the same file.
mpl.rcParams["svg.hashsalt"] = "fairlead"

from matplotlib import pyplot as plt  # noqa: E402 - after the choice of the backend

_COLOURS = {
    Policy.CUBIC: "#7f7f7f",
    Policy.BBR: "#c7c7c7",
    Policy.PAPER: "#ff7f0e",
    Policy.PAPER_OWN_PATH: "#ffbb78",
    Policy.OURS: "#1f77b4",
}
_IN_FORCE = {"cubic": "#e8f1fa", "bbr": "#fdebd9"}
_BAR = 0.8 / len(MAIN)


def write_all(folder: Path, outcomes: Sequence[CellOutcome], runs: Path) -> None:
    """Writes every picture that there are runs for, as SVG; those of single runs where `runs` has their folders."""
    folder.mkdir(parents=True, exist_ok=True)
    if complete := groups(outcomes):
        _save(_bars(complete), folder / "decisions-cells.svg")
    for outcome in outcomes:
        if not outcome.scene.stationary and outcome.policy in LOOPS and (runs / RUNS / outcome.run / SAMPLES).exists():
            _save(
                _change(outcome, runs / RUNS / outcome.run),
                folder / f"decisions-{outcome.scene.name}-{outcome.path_id}-{outcome.policy}.svg",
            )


def _bars(complete: Sequence[Group]) -> Any:
    figure, (goodput, fairness) = plt.subplots(2, 1, figsize=(max(7, 0.5 * len(complete)), 6), sharex=True, layout="constrained")
    for offset, policy in enumerate(MAIN):
        measured = [
            (number + (offset - (len(MAIN) - 1) / 2) * _BAR, group) for number, group in enumerate(complete) if policy in group.runs
        ]
        places, colour = [place for place, _ in measured], _COLOURS[policy]
        goodput.bar(places, [group.vs_oracle(policy) for _, group in measured], _BAR, label=str(policy), color=colour)
        fairness.bar(places, [group.jain(policy) or 0.0 for _, group in measured], _BAR, color=colour)
    goodput.axhline(1, color="black", linewidth=0.6)
    goodput.set_ylabel("own goodput / oracle's")
    goodput.legend(fontsize=8, ncols=len(MAIN))
    fairness.set_ylabel("Jain's index (none alone)")
    fairness.set_ylim(0, 1.02)
    fairness.set_xticks(range(len(complete)), [f"{group.path_id} {group.background}" for group in complete], rotation=70, fontsize=7)
    return figure


def _change(outcome: CellOutcome, folder: Path) -> Any:
    figure, (rates, rtt) = plt.subplots(2, 1, figsize=(9, 6), sharex=True, layout="constrained")
    own = list(_own_mbps(folder / SAMPLES))
    rates.plot([time_s for time_s, _ in own], [mbps for _, mbps in own], color=_COLOURS[Policy.OURS], label="transfer")
    for name, points in _flows_mbps(folder / FLOWS).items():
        rates.plot(list(points), list(points.values()), linewidth=0.8, label=name)
    rates.set_ylabel("goodput (Mb/s)")
    rates.legend(fontsize=8)
    trace = [(float(row["send_time_s"]), float(row["rtt_ms"])) for row in _rows(folder / TRACE) if row["rtt_ms"]]
    rtt.plot([time_s for time_s, _ in trace], [value_ms for _, value_ms in trace], linewidth=0.6, color="#444444")
    rtt.set_ylabel("round-trip time (ms)")
    rtt.set_xlabel("time (s)")
    for axes in (rates, rtt):
        for span in outcome.in_force:
            axes.axvspan(span.from_s, span.to_s, color=_IN_FORCE.get(span.control, "#ffffff"), zorder=0)
        for since_s, _ in outcome.scene.rights()[1:]:
            axes.axvline(since_s, color="black", linewidth=0.8, linestyle="--")
    rates.set_title(f"{outcome.path_id}, {outcome.scene.name}, {outcome.policy}: blue ground CUBIC in force, orange BBR", fontsize=9)
    return figure


def _own_mbps(file: Path) -> Iterator[tuple[float, float]]:
    samples = [(float(row["time_s"]), int(row["acknowledged_bytes"])) for row in _rows(file)]
    for (before_s, before), (after_s, after) in pairwise(samples):
        yield after_s, (after - before) * 8e-6 / (after_s - before_s)


def _flows_mbps(file: Path) -> dict[str, dict[float, float]]:
    """Means over whole seconds of the transfer's time."""
    sums: dict[str, dict[float, list[float]]] = {}
    for row in _rows(file):
        if (second := float(row["time_s"])) >= 0:
            sums.setdefault(row["flow"], {}).setdefault(float(int(second)), []).append(float(row["goodput_bps"]))
    return {name: {second: sum(rates) / len(rates) / 1e6 for second, rates in seconds.items()} for name, seconds in sums.items()}


def _rows(file: Path) -> Iterator[Mapping[str, str]]:
    with file.open(newline="", encoding="utf-8") as opened:
        yield from csv.DictReader(opened)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
