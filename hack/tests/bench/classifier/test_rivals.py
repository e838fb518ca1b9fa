"""The paper's classifiers on the product's splits."""

import numpy as np
import pytest

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.train.data import Dataset, DatasetRun
from fairlead_dev.bench.classifier import rivals
from fairlead_dev.bench.classifier.rivals import NEAREST, NEAREST_BOTH, NEAREST_OWN, Answers, evaluate, on_own_path, result_of

from ..caricature import caricature


def recordings(path: str, split: str, *, seeds: range, base_ms: float = 100, shift: int = 0) -> list[DatasetRun]:
    """Recordings whose classes look like those `shift` places further on another path."""
    return [
        DatasetRun(
            f"{path}-{name}-{split}-{seed}",
            path,
            name,
            str(seed),
            split,
            caricature(CLASSES[(number + shift) % len(CLASSES)], seconds=30, rate_hz=50, base_ms=base_ms, seed=seed),
        )
        for number, name in enumerate(CLASSES)
        for seed in seeds
    ]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    known = [*recordings("a", "train", seeds=range(2)), *recordings("b", "train", seeds=range(2))]
    # On the unseen path every class looks like another one of the known paths.
    unseen = recordings("c", "test_paths", seeds=range(10, 14), shift=3)
    return Dataset([*known, *recordings("a", "test_seeds", seeds=range(5, 7)), *unseen], "0" * 64)


def test_every_baseline_is_trained_on_the_training_paths_and_asked_about_each_split(dataset: Dataset) -> None:
    found = {(result.classifier, result.split): result for result in evaluate(dataset)}
    assert {name for name, _ in found} == {
        NEAREST,
        NEAREST_OWN,
        NEAREST_BOTH,
        "MLP 2x64",
        "MLP 2x64, stopped early",
        "SVM RBF",
        "Gaussian NB",
    }
    assert {split for _, split in found} == {"test_seeds", "test_paths"}
    assert found[NEAREST, "test_seeds"].windows == len(CLASSES) * 2 * 3
    assert found[NEAREST, "test_seeds"].accuracy > 0.6 > 0.4 > found[NEAREST, "test_paths"].accuracy


def test_the_paths_own_training_knows_what_other_paths_do_not(dataset: Dataset) -> None:
    own, _ = on_own_path(dataset, "test_paths")
    assert len(own.truth) == len(CLASSES) * 4 * 3
    assert (own.truth == own.said).mean() > 0.6


def test_no_recording_is_learnt_from_and_asked_about(monkeypatch: pytest.MonkeyPatch, dataset: Dataset) -> None:
    seen = []

    def nearest(known: np.ndarray, truth: np.ndarray, asked: np.ndarray) -> np.ndarray:
        seen.append({row.tobytes() for row in known} & {row.tobytes() for row in asked})
        return truth[: len(asked)] if len(truth) >= len(asked) else np.zeros(len(asked), dtype=np.intp)

    monkeypatch.setattr(rivals, "_nearest", nearest)
    for split in ("test_seeds", "test_paths"):
        on_own_path(dataset, split)
    assert len(seen) == 8
    assert not any(seen)


def test_a_path_without_a_second_recording_of_a_class_has_no_figure_of_its_own() -> None:
    runs = [*recordings("a", "train", seeds=range(1)), *recordings("c", "test_paths", seeds=range(1))]
    own, pooled = on_own_path(Dataset(runs, "0" * 64), "test_paths")
    assert len(own.truth) == len(pooled.truth) == 0


def test_intervals_are_of_paths() -> None:
    truth = np.array([0, 2, 0, 2] * 3)
    right_on_two = np.concatenate([truth[:8], 2 - truth[8:]])
    result = result_of("x", "test_paths", Answers(truth, right_on_two, np.repeat(np.array(["a", "b", "c"]), 4)))
    assert (result.windows, result.paths) == (12, 3)
    assert result.any_bbr == pytest.approx(2 / 3)
    assert result.any_bbr_95 == (0.0, 1.0)
    assert result.any_bbr_by_path == {"a": 1.0, "b": 1.0, "c": 0.0}
