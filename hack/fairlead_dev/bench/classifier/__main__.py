"""Prints the classifier's table and writes build/bench/classifier.json: python -m fairlead_dev.bench.classifier --data DIR."""

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.models.location import newest_installed
from fairlead_advisor.train.data import ACTIVE, TEST_SPLITS, TRAIN, Dataset, DatasetRun
from fairlead_dev.bench.classifier import baselines, paper, pictures, product, rivals
from fairlead_dev.bench.classifier.figures import (
    FAST_PATHS,
    HEADLINE_WINDOW_S,
    LONGER_PATHS,
    OTHER_EMULATOR,
    SHORT_PATHS,
    fair_queue_rows,
    headline_rows,
    point_row,
    row,
)
from fairlead_dev.bench.classifier.inputs import TRAINING_DATA, Inputs, load_inputs
from fairlead_dev.bench.rows import Row, heading, line, write
from fairlead_dev.bench.runner import BenchCommand
from fairlead_dev.bench.sealed import about_set, add_reason, log_opening


def add_options(parser: argparse.ArgumentParser) -> None:
    """The data, the model and what else to do."""
    parser.add_argument("--data", type=Path, required=True, help="a packed data set")
    parser.add_argument(
        "--train-data",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help=f"a packed data set that rivals are trained on, may be repeated [--data, or {TRAINING_DATA.name} if that has no runs for it]",
    )
    parser.add_argument(
        "--train-whole-data",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="one of which they are trained on the tests too, as the model was",
    )
    parser.add_argument(
        "--other-emulator-data", type=Path, metavar="DIR", help="a packed data set recorded on another emulator, for rows of its own"
    )
    parser.add_argument(
        "--fair-queue-data", type=Path, metavar="DIR", help="a packed data set recorded behind fair queues [those runs of --data]"
    )
    parser.add_argument("--model", type=Path, help="a model file (default: the installed one)")
    parser.add_argument("--pictures", type=Path, help="write the pictures of the docs into this folder")
    parser.add_argument("--learning-curve", action="store_true", help="train on parts of the data too; minutes each")
    parser.add_argument("--incomplete", action="store_true", help="open a sealed set of which paths or classes are not recorded")
    add_reason(parser)
    parser.add_argument("--jobs", type=int, default=2)


def run(options: argparse.Namespace) -> int:
    """Measures, prints and writes."""
    inputs = load_inputs(options)
    opened = log_opening(inputs.sealed_set, "classifier", options.reason, inputs.digest) if inputs.sealed_set is not None else None
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        **about_set(opened),
        "model": inputs.model.label,
        "model_sha256": inputs.model.sha256,
        "data": inputs.dataset.sha256[:12],
        "recordings": len(inputs.dataset.runs),
        "paths": len({run.path for run in inputs.dataset.runs}),
    }
    named = {"other_emulator_data": inputs.other_emulator, "fair_queue_data": inputs.fair_queue}
    about |= {name: data.sha256[:12] for name, data in named.items() if data is not None}
    rows, points, rates = _product(inputs, options.jobs)
    show(rows, points + rates)
    written: list[Row | Mapping[str, Any]] = [*rows, *(point_row(point) for point in points + rates)]
    # The figures that a set may be opened for are safe before anything else is tried.
    write([Row("about", None, "", note="without rivals", more=about), *written], options.output)
    curve = list(product.learning_curve(inputs.with_training, 1, options.jobs)) if options.learning_curve else []
    for paths, figures in curve:
        print(f"trained on {paths:3} paths: unseen paths macro F1 {figures['macro_f1']:.3f}, any BBR {figures['any_bbr_accuracy']:.3f}")
    results = [result for probing, runs in _long_recordings(inputs.dataset).items() for result in baselines.evaluate(runs, probing)]
    show_baselines(results)
    beside = list(rivals.evaluate(inputs.with_training))
    show_rivals(beside)
    written += [
        Row(f"learning_curve_{paths}_paths", figures["macro_f1"], "1", more={"any_bbr": figures["any_bbr_accuracy"]})
        for paths, figures in curve
    ]
    written += [{"name": f"rival_{result.classifier}_{result.split}", **asdict(result)} for result in beside]
    written += [asdict(result) | {"name": f"baseline_{result.classifier}_{result.probing}_{result.window_s}s"} for result in results]
    about["rivals_trained_on"] = inputs.training_sha256[:12]
    write([Row("about", None, "", more=about), *written, *paper.ROWS], options.output)
    if options.pictures:
        of_splits = [point for point in points if point.split in TEST_SPLITS]
        pictures.write_all(options.pictures, inputs.dataset, pictures.PictureData(of_splits, rates, curve))
        folder = options.model if options.model and options.model.is_dir() else (options.model or newest_installed()).parent
        report = folder / "report.json"
        if report.is_file():
            pictures.write_importances(options.pictures, report)
    return 0


def _product(inputs: Inputs, jobs: int) -> tuple[list[Row], list[product.Point], list[product.Point]]:
    """The product's rows, and its figures by set and window and by sampling rate."""
    model, dataset = inputs.model, inputs.dataset
    known, learnt = set(model.metadata.trained_paths), {run.path for run in dataset.of_split(TRAIN)}
    same_data = bool(learnt) and learnt <= known if known else model.metadata.data_sha256 == dataset.sha256
    if not known and not same_data and inputs.sealed_set is None:
        print(f"{model.label} was trained on other data: runs that are tests here may have been trained on there")
    tested = [run for split in TEST_SPLITS for run in dataset.of_split(split)]
    # Where the queue itself shares evenly, what the others are makes no difference: to abstain is right there.
    fair, told = [run for run in tested if product.has_fair_queue(run)], [run for run in tested if not product.has_fair_queue(run)]
    if inputs.fair_queue is not None:
        fair = list(inputs.fair_queue.runs)
    sets = {split: [run for run in told if run.split == split] for split in TEST_SPLITS}
    sets[OTHER_EMULATOR] = list(inputs.other_emulator.runs) if inputs.other_emulator is not None else []
    sets[FAST_PATHS] = [run for run in sets["test_paths"] if product.is_fast(run)]
    if any(product.is_short(run) for run in sets["test_paths"]):
        sets[SHORT_PATHS] = [run for run in sets["test_paths"] if product.is_short(run)]
        sets[LONGER_PATHS] = [run for run in sets["test_paths"] if not product.is_short(run)]
    points = [
        point
        for split, runs in sets.items()
        for window_s in product.WINDOWS_S
        if (point := product.measure(model, runs, split, window_s, jobs=jobs))
    ]
    rates = [
        point
        for rate_hz in product.RATES_HZ
        if (point := product.measure(model, sets["test_paths"], "test_paths", HEADLINE_WINDOW_S, rate_hz=rate_hz, jobs=jobs))
    ]
    rows = [
        row("model_bytes", model.bytes),
        row("trained_on_this_data", float(same_data)),
        row("inference_ms", product.median_of(product.inference_ms(model, tested))),
        row("features_ms", product.features_alone_ms(tested)),
        *headline_rows(points),
        *fair_queue_rows(product.measure_fair_queue(model, fair, HEADLINE_WINDOW_S, jobs)),
    ]
    return rows, points, rates


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


def show(rows: Sequence[Row], points: Sequence[product.Point]) -> None:
    """Prints the product's part of the table."""
    print(heading())
    for each in rows:
        print(line(each))
    print(f"\n{'test set':16} {'window s':>8} {'rate Hz':>8} {'macro F1':>9} {'any BBR':>8} {'at 80 %':>8} {'ECE':>6}")
    for point in points:
        figures = point.figures
        shown = ("macro_f1", "any_bbr_accuracy", "any_bbr_accuracy_at_80_percent", "expected_calibration_error")
        numbers = " ".join(f"{figures[name]:8.3f}" if figures[name] is not None else f"{'-':>8}" for name in shown)
        print(f"{point.split:16} {point.window_s:8g} {point.rate_hz or '-':>8} {numbers}")


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
    for published in paper.ROWS:
        print(f"the paper: {published['probing']}, {published['classifier']}, {published['window_s']} s: {published['accuracy']}")
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
