"""The pictures of the docs: confusion matrices, accuracy against window length and sampling rate, example traces, importances."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from fairlead_advisor.features.series import columns
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.train.data import Dataset
from fairlead_dev.bench.classifier.product import Point

mpl.use("Agg")
# The same data give the same file.
mpl.rcParams["svg.hashsalt"] = "fairlead"

from matplotlib import pyplot as plt  # noqa: E402 - after the choice of the backend

_SHOWN_IMPORTANCES = 20


@dataclass(frozen=True, slots=True)
class PictureData:
    """What there is to show: figures by test set and window, by sampling rate, and by the number of paths trained on."""

    points: Sequence[Point]
    rates: Sequence[Point]
    curve: Sequence[tuple[int, dict[str, Any]]]


def write_all(folder: Path, dataset: Dataset, measured: PictureData) -> None:
    """Writes every picture that there are figures for, as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    by_window: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    for point in measured.points:
        by_window.setdefault(point.split, []).append((point.window_s, point.figures))
        if point.window_s == 10:
            _save(_confusion(point), folder / f"confusion-{point.split}.svg")
    by_rate = [(point.rate_hz or 0.0, point.figures) for point in measured.rates]
    for name, label, sets in (
        ("accuracy-by-window", "window (s)", by_window),
        ("accuracy-by-rate", "samples a second", {"test_paths": by_rate}),
        ("learning-curve", "paths trained on", {"test_paths": [(float(paths), figures) for paths, figures in measured.curve]}),
    ):
        if any(sets.values()):
            _save(_lines(label, sets), folder / f"{name}.svg")
    _save(_examples(dataset), folder / "example-traces.svg")


def write_importances(folder: Path, report: Path) -> None:
    """The features that bring most to the trees, from the report that lies beside a model."""
    importances = list(json.loads(report.read_text())["importances"].items())[:_SHOWN_IMPORTANCES]
    figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
    axes.barh([name for name, _ in reversed(importances)], [share for _, share in reversed(importances)])
    axes.set_xlabel("share of the gain")
    _save(figure, folder / "importances.svg")


def _confusion(point: Point) -> Any:
    counts = np.array(point.figures["confusion"], dtype=float)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure, axes = plt.subplots(figsize=(5, 4.4), layout="constrained")
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(CLASSES)), CLASSES, rotation=45)
    axes.set_yticks(range(len(CLASSES)), CLASSES)
    axes.set_xlabel("answered")
    axes.set_ylabel("true")
    for row, column in np.ndindex(shares.shape):
        axes.text(
            column, row, f"{shares[row, column]:.2f}", ha="center", va="center", color="white" if shares[row, column] > 0.5 else "black"
        )
    return figure


def _lines(label: str, sets: dict[str, list[tuple[float, dict[str, Any]]]]) -> Any:
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, points in sets.items():
        for key, style in (("macro_f1", "-o"), ("any_bbr_accuracy", "--s")):
            axes.plot([x for x, _ in points], [figures[key] for _, figures in points], style, label=f"{name}, {key.replace('_', ' ')}")
    axes.set_xlabel(label)
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    return figure


def _examples(dataset: Dataset) -> Any:
    """Ten seconds of each class on the path that has most classes in the test of new seeds."""
    runs = dataset.of_split("test_seeds") or list(dataset.runs)
    best = max({run.path for run in runs}, key=lambda path: (len({run.class_name for run in runs if run.path == path}), path))
    figure, grid = plt.subplots(3, 2, figsize=(9, 7), sharex=True, layout="constrained")
    for axes, name in zip(grid.flat, CLASSES, strict=True):
        axes.set_title(name, fontsize=9)
        chosen = next((run for run in runs if run.path == best and run.class_name == name), None)
        if chosen is None:
            continue
        times_s, rtts_ms = columns(chosen.trace)
        here = times_s <= times_s[0] + 20
        axes.plot(times_s[here] - times_s[0], rtts_ms[here], linewidth=0.8)
    figure.supxlabel("time (s)")
    figure.supylabel(f"RTT (ms), path {best}")
    return figure


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
