"""Prints the classifier's table and writes build/bench/classifier.json: python -m fairlead_dev.bench.classifier --data DIR."""

import argparse
import sys
from collections import defaultdict
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.models.location import newest_installed
from fairlead_advisor.models.store import find_model
from fairlead_advisor.train.data import ACTIVE, TEST_SPLITS, Dataset, DatasetRun, load_dataset
from fairlead_dev.bench.classifier import baselines, paper, pictures, product, rivals
from fairlead_dev.bench.intervals import rounded_interval
from fairlead_dev.bench.rows import Goal, Row, write
from fairlead_dev.bench.runner import BenchCommand
from fairlead_dev.bench.sealed import about_set, add_reason, log_opening
from fairlead_dev.testbed.sealed.sets import CLASSIFIER, sealed_ids

_GOALS = {
    "macro_f1_seeds": Goal("at_least", 0.95, "value"),
    "macro_f1_paths": Goal("at_least", 0.85, "value"),
    "any_bbr_seeds": Goal("at_least", 0.97, "value"),
    "any_bbr_paths": Goal("at_least", 0.93, "value"),
    "ece_paths": Goal("at_most", 0.05, "value"),
    "any_bbr_paths_80": Goal("at_least", 0.97, "value"),
    "inference_ms": Goal("at_most", 5.0, "value"),
    "model_bytes": Goal("at_most", 2_000_000, "value"),
}

_RESAMPLED_ROWS = {
    "macro_f1_{}": "macro_f1",
    "any_bbr_{}": "any_bbr_accuracy",
    "any_bbr_{}_80": "any_bbr_accuracy_at_80_percent",
    "ece_{}": "expected_calibration_error",
    "coverage_{}": "coverage",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The data, the model and what else to do."""
    parser.add_argument("--data", type=Path, required=True, help="a packed data set")
    parser.add_argument("--model", type=Path, help="a model file (default: the installed one)")
    parser.add_argument("--pictures", type=Path, help="write the pictures of the docs into this folder")
    parser.add_argument("--learning-curve", action="store_true", help="train on parts of the data too; minutes each")
    add_reason(parser)
    parser.add_argument("--jobs", type=int, default=2)


def run(options: argparse.Namespace) -> int:
    """Measures, prints and writes."""
    model, dataset = find_model(options.model), load_dataset(options.data)
    # By what is in the data, not by what they are called: a copy of sealed recordings is sealed too.
    opened = log_opening(CLASSIFIER, "classifier", options.reason) if {run.path for run in dataset.runs} & sealed_ids() else None
    same_data = model.metadata.data_sha256 == dataset.sha256
    if not same_data:
        print(f"{model.label} was trained on other data: runs that are tests here may have been trained on there")
    bounds: dict[str, tuple[float, float] | None] = {}
    values: dict[str, float | None] = {"model_bytes": model.bytes, "trained_on_this_data": float(same_data)}
    points = [
        point
        for split in TEST_SPLITS
        for window_s in product.WINDOWS_S
        if (point := product.measure(model, dataset, split, window_s, jobs=options.jobs))
    ]
    rates = [
        point
        for rate_hz in product.RATES_HZ
        if (point := product.measure(model, dataset, "test_paths", 10.0, rate_hz=rate_hz, jobs=options.jobs))
    ]
    tested = [run for split in TEST_SPLITS for run in dataset.of_split(split)]
    values["inference_ms"] = product.median_of(product.inference_ms(model, tested))
    values["features_ms"] = product.features_alone_ms(tested)
    for point in points:
        if point.window_s == 10:
            name, figures = point.split.removeprefix("test_"), point.figures
            values |= {f"macro_f1_{name}": figures["macro_f1"], f"any_bbr_{name}": figures["any_bbr_accuracy"]}
            values |= {
                f"ece_{name}": figures["expected_calibration_error"],
                f"any_bbr_{name}_80": figures["any_bbr_accuracy_at_80_percent"],
                f"coverage_{name}": figures["coverage"],
            }
            bounds |= {f"{row.format(name)}": point.intervals[figure] for row, figure in _RESAMPLED_ROWS.items()}
    show(values, points + rates)
    curve = list(product.learning_curve(dataset, 1, options.jobs)) if options.learning_curve else []
    for paths, figures in curve:
        print(f"trained on {paths:3} paths: unseen paths macro F1 {figures['macro_f1']:.3f}, any BBR {figures['any_bbr_accuracy']:.3f}")
    results = [result for probing, runs in _long_recordings(dataset).items() for result in baselines.evaluate(runs, probing)]
    show_baselines(results)
    beside = list(rivals.evaluate(dataset))
    show_rivals(beside)
    product_rows = [row(name, value, bounds.get(name)) for name, value in values.items()]
    point_rows = [point_row(point) for point in points + rates]
    curve_rows = [
        Row(f"learning_curve_{paths}_paths", figures["macro_f1"], "1", more={"any_bbr": figures["any_bbr_accuracy"]})
        for paths, figures in curve
    ]
    rival_rows = [{"name": f"rival_{result.classifier}_{result.split}", **asdict(result)} for result in beside]
    baseline_rows = [asdict(result) | {"name": f"baseline_{result.classifier}_{result.probing}_{result.window_s}s"} for result in results]
    about = {"date": datetime.now(UTC).date().isoformat(), **about_set(opened), "model": model.label, "data": dataset.sha256[:12]}
    write(
        [Row("about", None, "", more=about), *product_rows, *point_rows, *curve_rows, *rival_rows, *baseline_rows, *paper.ROWS],
        options.output,
    )
    if options.pictures:
        pictures.write_all(options.pictures, dataset, pictures.PictureData(points, rates, curve))
        folder = options.model if options.model and options.model.is_dir() else (options.model or newest_installed()).parent
        report = folder / "report.json"
        if report.is_file():
            pictures.write_importances(options.pictures, report)
    return 0


def _long_recordings(dataset: Dataset) -> dict[str, list[DatasetRun]]:
    """The runs of the paths that have five recordings of each class, which the paper's validation needs: passive and active."""
    passive: dict[str, list[DatasetRun]] = defaultdict(list)
    for run in dataset.runs:
        if run.split in ("train", "test_seeds"):
            passive[run.path].append(run)
    enough = [runs for runs in passive.values() if _has_folds(runs)]
    active = dataset.of_split(ACTIVE)
    return {"passive": [run for runs in enough for run in runs]} | ({"active": active} if _has_folds(active) else {})


def _has_folds(runs: list[DatasetRun]) -> bool:
    return all(sum(run.class_name == name for run in runs) >= baselines.FOLDS for name in CLASSES)


def row(name: str, value: float | None, bounds: tuple[float, float] | None = None) -> Row:
    """A figure beside its goal, with its interval over paths where it has one."""
    goal = _GOALS.get(name)
    bound, ratio = (None, None) if goal is None else (goal.bound, goal.margin(value))
    unit = {"inference_ms": "ms", "features_ms": "ms", "model_bytes": "byte"}.get(name, "1")
    return Row(name, value, unit, bound, ratio, more={} if bounds is None else {"interval_95": rounded_interval(bounds)})


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


def show(values: dict[str, float | None], points: list[product.Point]) -> None:
    """Prints the product's part of the table."""
    print(f"{'figure':24} {'value':>12} {'goal':>12}")
    for name, value in values.items():
        goal = _GOALS[name].bound if name in _GOALS else "-"
        print(f"{name:24} {'-' if value is None else f'{value:.4g}':>12} {goal:>12}")
    print(f"\n{'test set':12} {'window s':>8} {'rate Hz':>8} {'macro F1':>9} {'any BBR':>8} {'at 80 %':>8} {'ECE':>6}")
    for point in points:
        figures = point.figures
        shown = ("macro_f1", "any_bbr_accuracy", "any_bbr_accuracy_at_80_percent", "expected_calibration_error")
        numbers = " ".join(f"{figures[name]:8.3f}" if figures[name] is not None else f"{'-':>8}" for name in shown)
        print(f"{point.split:12} {point.window_s:8g} {point.rate_hz or '-':>8} {numbers}")


def show_baselines(results: list[baselines.BaselineResult]) -> None:
    """Prints the paper's classifiers, as measured here and as published."""
    names = sorted({(result.probing, result.classifier) for result in results}, reverse=True)
    print(f"\n{'accuracy, 5-fold by recording':30}" + "".join(f"{seconds:>7}s" for seconds in baselines.WINDOWS_S))
    for probing, classifier in names:
        cells = {result.window_s: result.accuracy for result in results if (result.probing, result.classifier) == (probing, classifier)}
        shown = "".join(f"{cells[seconds]:8.3f}" if seconds in cells else f"{'-':>8}" for seconds in baselines.WINDOWS_S)
        print(f"{probing + ', ' + classifier:30}" + shown)
    if not results:
        print("no path of this data set has five recordings of each class: the paper's classifiers are left out")
    for line in paper.ROWS:
        print(f"the paper: {line['probing']}, {line['classifier']}, {line['window_s']} s: {line['accuracy']}")
    for difference in paper.DIFFERENCES:
        print(f"  - {difference}")


def show_rivals(results: list[rivals.RivalResult]) -> None:
    """Prints the rivals on the product's splits."""
    heading = "on the product's splits, 10 s"
    print(f"\n{heading:30} {'split':12} {'macro F1':>9} {'any BBR':>8}")
    for result in results:
        shown = (f"{_interval(result.macro_f1, result.macro_f1_95)}", f"{_interval(result.any_bbr, result.any_bbr_95)}")
        print(f"{result.classifier:30} {result.split:12} {shown[0]} {shown[1]}")


def _interval(value: float, bounds: tuple[float, float] | None) -> str:
    return f"{value:.3f}" + ("" if bounds is None else f" ({bounds[0]:.3f}-{bounds[1]:.3f})")


BENCH = BenchCommand("classifier", __doc__, add_options, run)

if __name__ == "__main__":
    sys.exit(BENCH.main())
