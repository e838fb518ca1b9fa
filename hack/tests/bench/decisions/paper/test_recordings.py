"""What the paper's classifier learns of a single path."""

from collections import Counter

import numpy as np
import pytest

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.train.data import Dataset, DatasetRun
from fairlead_dev.bench.classifier.sampling import SampledRecording, at_one_hertz
from fairlead_dev.bench.decisions.matrix import FULL, SUBSET, Cell, Matrix, Policy, cells, known_paths, sealed_matrix
from fairlead_dev.bench.decisions.paper.classifier import training_of
from fairlead_dev.bench.decisions.paper.recordings import (
    RECORDINGS,
    SECONDS,
    TrainingRecording,
    known_training,
    recorded_training,
    recordings_of,
)
from fairlead_dev.testbed.dataset.specification import DATASETS, Specification
from fairlead_dev.testbed.runs.batch import Recordable
from fairlead_dev.testbed.runs.record import scenario_digest
from fairlead_dev.testbed.scenario.load import load_toml
from fairlead_dev.testbed.sealed.sets import DECISIONS, load_sealed

from ...caricature import caricature
from ..made import PATHS

DATASET = load_toml(DATASETS / "full.toml", Specification)
PRINT = "f" * 64


def planned(*path_ids: str) -> tuple[TrainingRecording, ...]:
    return recordings_of({path_id: PATHS[path_id] for path_id in path_ids}, DATASET, PRINT)


def test_every_class_is_recorded_as_often_on_every_path() -> None:
    counted = Counter((one.path_id, str(one.planned.background)) for one in planned("new-30", "new-80"))
    assert counted == {(path_id, name): RECORDINGS for path_id in ("new-30", "new-80") for name in CLASSES}
    assert {one.scenario.duration_s for one in planned("new-30")} == {SECONDS}
    assert planned() == ()


def test_a_recording_has_the_cells_path_and_one_flow_a_source() -> None:
    for one in planned("new-30"):
        assert one.scenario.path == PATHS["new-30"]
        controls = {"c": "cubic", "b": "bbr"}
        letters = {"B0-C0": "", "B0-C1": "c", "B1-C0": "b", "B1-C1": "bc", "B1-B1": "bb", "C1-C1": "cc"}[one.planned.background]
        assert sorted(str(flow.congestion_control) for flow in one.scenario.flows) == sorted(controls[letter] for letter in letters)


@pytest.mark.parametrize("matrix", [FULL, SUBSET, sealed_matrix(load_sealed().of(DECISIONS).paths)], ids=["full", "subset", "sealed"])
def test_no_recording_is_a_cells_run(matrix: Matrix) -> None:
    runs: list[Recordable] = [*cells(matrix, known_paths(DATASET), dict.fromkeys(Policy, PRINT))]
    paths = {one.path_id: one.path for one in runs if isinstance(one, Cell)}
    recorded = recordings_of(paths, DATASET, PRINT)
    assert not {one.scenario.seed for one in runs} & {one.scenario.seed for one in recorded}
    assert len({one.scenario.seed for one in recorded}) == len(recorded) == len(CLASSES) * RECORDINGS * len(paths)
    assert not {one.name for one in runs} & {one.name for one in recorded}


def test_another_emulator_makes_other_scenarios_of_the_same_names() -> None:
    before, after = planned("new-30"), recordings_of({"new-30": PATHS["new-30"]}, DATASET, "e" * 64)
    assert [one.name for one in before] == [one.name for one in after]
    assert not {scenario_digest(one.scenario) for one in before} & {scenario_digest(one.scenario) for one in after}


def run(class_name: str, seed: int, seconds: int, path: str) -> DatasetRun:
    trace = caricature(class_name, seconds=seconds, rate_hz=50, base_ms=60, seed=seed)
    return DatasetRun(f"{path}-{class_name}-{seed}", path, class_name, str(seed), "train", trace)


def test_the_data_set_is_asked_where_it_has_as_much_of_every_class() -> None:
    much, little, no_bbr = (
        [run(name, seed, seconds, path) for name in names for seed in (1, 2)]
        for path, seconds, names in (("much", int(SECONDS), CLASSES), ("little", 60, CLASSES), ("no-bbr", int(SECONDS), CLASSES[:2]))
    )
    found = known_training(Dataset([*much, *little, *no_bbr], "d" * 64), ["much", "little", "no-bbr", "elsewhere"])
    assert found.keys() == {"much"}
    assert (found["much"].queue_ms == training_of(much).queue_ms).all()


def test_the_windows_are_those_of_a_data_set_with_the_same_recordings() -> None:
    runs = [run(name, 1, 40, "p") for name in CLASSES]
    sampled = [SampledRecording(one.path, one.class_name, at_one_hertz(one.trace)) for one in runs]
    found, wanted = recorded_training(sampled), training_of(runs)
    assert np.array_equal(found.queue_ms, wanted.queue_ms)
    assert np.array_equal(found.truth, wanted.truth)
