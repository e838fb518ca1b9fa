"""The rows of the product's part of the table, with their goals. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fairlead_dev.bench.classifier import product
from fairlead_dev.bench.intervals import rounded_interval
from fairlead_dev.bench.rows import Goal, Row

HEADLINE_WINDOW_S = 10.0
FAST_PATHS = "test_paths_fast"
"""The runs of `test_paths` above 100 Mb/s."""
SHORT_PATHS, LONGER_PATHS = "test_paths_short", "test_paths_longer"
"""Those of `test_paths` with an RTT below 5 ms, and the others."""
OTHER_EMULATOR = "other_emulator"
"""The runs of `--other-emulator-data`."""
GOALS = {
    "macro_f1_seeds": Goal("at_least", 0.95, "value"),
    "any_bbr_seeds": Goal("at_least", 0.97, "value"),
    "macro_f1_paths": Goal("at_least", 0.87, "value"),
    "any_bbr_paths": Goal("at_least", 0.97, "value"),
    "any_bbr_paths_low": Goal("at_least", 0.95, "value"),
    "ece_paths": Goal("at_most", 0.05, "value"),
    "any_bbr_paths_80": Goal("at_least", 0.97, "value"),
    "macro_f1_paths_fast": Goal("at_least", 0.82, "value"),
    "any_bbr_paths_fast": Goal("at_least", 0.96, "value"),
    "any_bbr_other_emulator": Goal("at_least", 0.96, "value"),
    "macro_f1_other_emulator": Goal("at_least", 0.82, "value"),
    "ece_other_emulator": Goal("at_most", 0.06, "value"),
    "abstains_or_says_so_fair_queue": Goal("at_least", 0.9, "value"),
    "inference_ms": Goal("at_most", 5.0, "value"),
    "model_bytes": Goal("at_most", 2_000_000, "value"),
}
_UNITS = {"inference_ms": "ms", "features_ms": "ms", "model_bytes": "byte"}
_OF_A_SPLIT = {
    "macro_f1_{}": "macro_f1",
    "any_bbr_{}": "any_bbr_accuracy",
    "any_bbr_{}_80": "any_bbr_accuracy_at_80_percent",
    "ece_{}": "expected_calibration_error",
    "coverage_{}": "coverage",
}


def headline_rows(points: Sequence[product.Point]) -> list[Row]:
    """The figures of windows of 10 s, each with its interval over paths, and the bounds that goals or the reader ask for."""
    rows: list[Row] = []
    for point in points:
        if point.window_s != HEADLINE_WINDOW_S or point.rate_hz is not None:
            continue
        split = point.split.removeprefix("test_")
        rows += [row(name.format(split), point.figures[figure], point.intervals.get(figure)) for name, figure in _OF_A_SPLIT.items()]
        if point.split == "test_paths":
            any_bbr, error = (point.intervals.get(figure) for figure in ("any_bbr_accuracy", "expected_calibration_error"))
            rows += [row("any_bbr_paths_low", any_bbr and any_bbr[0]), row("ece_paths_high", error and error[1])]
    found = {each.name for each in rows}
    if "any_bbr_paths" in found and "any_bbr_paths_fast" not in found:
        rows += [absent(f"{name}_paths_fast", "no unseen path above 100 Mb/s") for name in ("macro_f1", "any_bbr")]
    if f"any_bbr_{OTHER_EMULATOR}" not in found:
        why = "no recording on another emulator: --other-emulator-data"
        rows += [absent(f"{name}_{OTHER_EMULATOR}", why) for name in ("macro_f1", "any_bbr", "ece")]
    return rows


def fair_queue_rows(point: product.Point | None) -> list[Row]:
    """What it answers behind queues that share by themselves, each with its interval over paths."""
    if point is None:
        return [absent("abstains_or_says_so_fair_queue", "no recording with a fair queue: --fair-queue-data")]
    rows = [row(f"{name}_fair_queue", value, point.intervals.get(name)) for name, value in point.figures.items()]
    return [replace(each, more={**each.more, "windows": point.windows, "paths": point.paths}) for each in rows]


def row(name: str, value: float | None, bounds: tuple[float, float] | None = None) -> Row:
    """A figure beside its goal, with its interval over paths where it has one."""
    goal = GOALS.get(name)
    bound, ratio = (None, None) if goal is None else (goal.bound, goal.margin(value))
    more = {} if bounds is None else {"interval_95": rounded_interval(bounds)}
    note = "" if bounds is None else f"95 % of draws of the paths: {bounds[0]:.3f} to {bounds[1]:.3f}"
    return Row(name, value, _UNITS.get(name, "1"), bound, ratio, note, more, goal)


def absent(name: str, why: str) -> Row:
    """A figure that has a goal and that these data cannot give."""
    return Row(name, None, _UNITS.get(name, "1"), note=why, goal=GOALS.get(name))


def point_row(point: product.Point) -> Row:
    """The figures of one window length and rate of one split."""
    rate = "" if point.rate_hz is None else f"_{point.rate_hz:g}hz"
    more = {
        **{name: _rounded(point.figures[name]) for name in product.RESAMPLED},
        "interval_95": {name: rounded_interval(bounds) for name, bounds in point.intervals.items()},
        "windows": point.windows,
        "paths": point.paths,
    }
    return Row(f"product_{point.split}_{point.window_s:g}s{rate}", _rounded(point.figures["macro_f1"]), "1", more=more)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
