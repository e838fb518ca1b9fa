"""What the bench works on: all that can be refused is refused here, before the opening of a sealed set is logged."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from fairlead_advisor.files import ensure_writable
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.models.model import Model
from fairlead_advisor.models.store import find_model
from fairlead_advisor.train.data import TEST_SPLITS, TRAIN, Dataset, DatasetRun, load_dataset, load_datasets
from fairlead_dev.bench.classifier.product import has_another_emulator, has_fair_queue
from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.dataset.specification import DATASETS
from fairlead_dev.testbed.sealed.openings import read_openings
from fairlead_dev.testbed.sealed.sets import RECORDED_AS, list_with, load_lists, sealed_ids

TRAINING_DATA = DATASETS / "full"
"""What rivals learn where the tested set has nothing to learn from."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The model, what it is asked about, and that with the runs that rivals are trained on; and what else it alone is asked about."""

    model: Model
    dataset: Dataset
    with_training: Dataset
    training_sha256: str
    sealed_set: str | None
    """What the tested paths are put aside for, if they are."""
    other_emulator: Dataset | None = None
    fair_queue: Dataset | None = None

    @property
    def digest(self) -> str:
        """Of all that the figures of an opening depend on."""
        beside = [named.sha256 for named in (self.other_emulator, self.fair_queue) if named is not None]
        return hashlib.sha256(" ".join([self.model.sha256, self.dataset.sha256, self.training_sha256, *beside]).encode()).hexdigest()


def load_inputs(options: argparse.Namespace) -> Inputs:
    """Reads everything. AdvisorError or CommandUsageError, naming the file and the remedy, if the bench could not run to its end."""
    model, dataset = find_model(options.model), load_dataset(options.data, tests_alone=True)
    tested = [run for split in TEST_SPLITS for run in dataset.of_split(split)]
    if not tested:
        raise CommandUsageError(f"{options.data}: has no run of {', '.join(TEST_SPLITS)}: name a packed data set with --data")
    if learnt_too := sorted({run.path for run in dataset.of_split("test_paths")} & set(model.metadata.trained_paths)):
        raise CommandUsageError(
            f"{options.data}: {_some(learnt_too)}: {model.label} was trained on them: name another set, or another model"
        )
    sealed_set = _sealed_set(options, dataset)
    training = _training(options, dataset)
    learnt = training.of_split(TRAIN)
    known = {run.path for run in learnt} | set(model.metadata.trained_paths)
    other_emulator = _beside(
        options.other_emulator_data, known, has_another_emulator, "on `fairlead-wan`, or on what its line does not say"
    )
    fair_queue = _beside(options.fair_queue_data, known, has_fair_queue, "behind another queue than a fair one")
    _check_outputs(options)
    rest = [run for run in dataset.runs if run.split != TRAIN]
    with_training = Dataset([*learnt, *rest], dataset.sha256)
    return Inputs(model, dataset, with_training, training.sha256, sealed_set, other_emulator, fair_queue)


def _beside(folder: Path | None, known: Set[str], is_wanted: Callable[[DatasetRun], bool], otherwise: str) -> Dataset | None:
    """The test runs of a set for rows of their own."""
    if folder is None:
        return None
    dataset = load_dataset(folder, tests_alone=True)
    tested = [run for split in TEST_SPLITS for run in dataset.of_split(split)]
    paths = {run.path for run in tested}
    if not tested:
        raise CommandUsageError(f"{folder}: has no run of {', '.join(TEST_SPLITS)}: name a packed data set")
    if unfit := [run.name for run in tested if not is_wanted(run)]:
        raise CommandUsageError(f"{folder}: {_some(unfit)}: recorded {otherwise}: name another set")
    if sealed := sorted(paths & sealed_ids()):
        raise CommandUsageError(f"{folder}: {_some(sealed)}: sealed paths, which are looked at with --data alone: name another set")
    if both := sorted(paths & known):
        raise CommandUsageError(f"{folder}: {_some(both)}: names of paths that are trained on: name another set")
    _check_undisturbed(folder, tested)
    return Dataset(tested, dataset.sha256)


def _sealed_set(options: argparse.Namespace, dataset: Dataset) -> str | None:
    """Which set the paths are sealed in, if they are; by what is in the data, not by what it is called: a copy is sealed too."""
    paths = {run.path for run in dataset.runs}
    if not paths & sealed_ids():
        return None
    sets = {name: set(list_with(name).of(name).paths) for name in RECORDED_AS}
    wanted = max(sets, key=lambda name: len(sets[name] & paths))
    expected = sets[wanted]
    if others := sorted((paths & sealed_ids()) - expected):
        raise CommandUsageError(f"{options.data}: {_some(others)}: sealed for something else than {wanted}: take them out")
    _check_undisturbed(options.data, dataset.runs)
    lacking = [path for path in sorted(expected) if lacking_classes(dataset.runs, path)]
    if lacking and not options.incomplete:
        raise CommandUsageError(
            f"{options.data}: of {len(expected)} sealed paths {len(lacking)} lack a class or all of them ({_some(lacking)}), and a set is "
            f"sealed once: record the rest (`make dataset DATASET={RECORDED_AS[wanted]}` goes on), or say --incomplete"
        )
    return wanted


def _check_undisturbed(folder: Path, runs: Sequence[DatasetRun]) -> None:
    if disturbed := [run.name for run in runs if run.about.get("faults")]:
        raise CommandUsageError(f"{folder}: {_some(disturbed)}: disturbed by the machine: pack without --keep-disturbed")


def lacking_classes(runs: Sequence[DatasetRun], path: str) -> list[str]:
    """The classes of which `path` has no recording."""
    there = {run.class_name for run in runs if run.path == path}
    return [name for name in CLASSES if name not in there]


def _training(options: argparse.Namespace, dataset: Dataset) -> Dataset:
    if not (options.train_data or options.train_whole_data) and dataset.of_split(TRAIN):
        return dataset
    folders = options.train_data or ([] if options.train_whole_data else [TRAINING_DATA])
    named = ", ".join(map(str, (*folders, *options.train_whole_data)))
    training = load_datasets(folders, options.train_whole_data)
    learnt, asked = {run.path for run in training.of_split(TRAIN)}, {run.path for run in dataset.runs}
    if not learnt:
        raise CommandUsageError(f"{named}: has no run of `{TRAIN}`: name another set with --train-data")
    if sealed := sorted(learnt & _never_opened()):
        raise CommandUsageError(f"{named}: {_some(sealed)}: sealed paths: nothing is trained on them; name another set with --train-data")
    # Rivals know a path by its name: another path of that name would be taken for this one.
    is_named = options.data.resolve() in {folder.resolve() for folder in folders}
    if not is_named and (both := sorted(learnt & asked)):
        raise CommandUsageError(f"{named}: {_some(both)}: names of paths in {options.data} too: name another set with --train-data")
    return training


def _never_opened() -> set[str]:
    """The sealed paths that nobody has looked at yet."""
    opened = {opening.set for opening in read_openings()}
    return {path for sealed in load_lists() for one in sealed.sets if one.name not in opened for path in one.paths}


def _check_outputs(options: argparse.Namespace) -> None:
    output: Path = options.output
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        if options.pictures:
            options.pictures.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandUsageError(f"{error.filename}: the folder cannot be made: {error.strerror}") from None
    for file in (output, *([options.pictures / "picture.svg"] if options.pictures else [])):
        ensure_writable(file)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
