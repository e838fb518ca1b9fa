"""Recordings of a cell's own path for the paper's classifier, which is trained on the path that it works on. Pure.

The paper has an hour of each class [Anvari 2021, section 5.2]; so much of every path would take longer than the matrix does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.train.data import TRAIN, Dataset
from fairlead_dev.bench.classifier.sampling import SampledRecording, cut
from fairlead_dev.bench.decisions.paper.classifier import WINDOW_SAMPLES, Training, training_of
from fairlead_dev.testbed.dataset.plan import PlannedRun, plan_runs
from fairlead_dev.testbed.dataset.specification import FixedPath, Specification
from fairlead_dev.testbed.scenario.model import Path, Scenario

SEED = 20261129
"""Neither the matrix's nor a data set's: a cell's own traffic is in no training."""
RECORDINGS, SECONDS = 2, 120.0
"""Of each class."""
_WINDOWS = RECORDINGS * int(SECONDS) // WINDOW_SAMPLES


@dataclass(frozen=True, slots=True)
class TrainingRecording:
    """One recording. `fingerprint` identifies the programs that make it, as a cell's does."""

    planned: PlannedRun
    fingerprint: str

    @property
    def path_id(self) -> str:
        """The path that it is of."""
        return self.planned.path_id

    @property
    def name(self) -> str:
        """The folder's name, unlike a cell's."""
        return f"{self.path_id}__{self.planned.background.lower()}__training-{self.planned.seed_name}"

    @property
    def scenario(self) -> Scenario:
        """Path and traffic."""
        scenario = self.planned.scenario
        return scenario.model_copy(update={"name": f"{scenario.name}.{self.fingerprint[:12]}"})


def recordings_of(paths: Mapping[str, Path], specification: Specification, fingerprint: str) -> tuple[TrainingRecording, ...]:
    """All recordings of these paths, made as those of the data set are: with one flow a source, as cells have."""
    fixed = tuple(FixedPath(id=name, path=path, duration_s=SECONDS, train_seeds=RECORDINGS, test_seeds=0) for name, path in paths.items())
    nothing_drawn = specification.drawn_paths.model_copy(update={"known": 0, "unseen": 0, "training_only": 0})
    changes = {"seed": SEED, "most_flows_per_side": 1, "drawn_paths": nothing_drawn, "fixed_paths": fixed, "kinds": ()}
    return tuple(TrainingRecording(planned, fingerprint) for planned in plan_runs(specification.model_copy(update=changes)))


def known_training(dataset: Dataset, path_ids: Iterable[str]) -> dict[str, Training]:
    """The training windows of the data set's own runs on a path, where it has as many of each class as the recordings would give."""
    found = {}
    for path_id in path_ids:
        runs = [run for run in dataset.of_split(TRAIN) if run.path == path_id]
        training = training_of(runs) if runs else None
        if training is not None and np.bincount(training.truth, minlength=len(CLASSES)).min() >= _WINDOWS:
            found[path_id] = training
    return found


def recorded_training(sampled: Sequence[SampledRecording]) -> Training:
    """The training windows of a path's recordings."""
    samples = cut(sampled, WINDOW_SAMPLES)
    return Training(samples.queue_ms, samples.truth)
