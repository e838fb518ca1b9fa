import pytest

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.train.data import DatasetRun
from fairlead_dev.bench.classifier import baselines

from ..caricature import caricature


def recordings(seeds: int) -> list[DatasetRun]:
    return [
        DatasetRun(f"{name}{seed}", "p", name, str(seed), "train", caricature(name, seconds=40, rate_hz=50, base_ms=100, seed=seed))
        for name in CLASSES
        for seed in range(seeds)
    ]


def test_every_classifier_of_the_paper_is_validated_by_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "WINDOWS_S", (10, 60))
    results = list(baselines.evaluate(recordings(5), "passive"))
    assert {result.classifier for result in results} == {
        "1-NN DTW",
        "3-NN DTW",
        "5-NN DTW",
        "10-NN DTW",
        "MLP 2x64",
        "MLP 2x64, stopped early",
        "SVM RBF",
        "Gaussian NB",
    }
    # Recordings of 40 s have no window of 60 s.
    assert {(result.probing, result.window_s, result.windows) for result in results} == {("passive", 10, 6 * 5 * 4)}
    nearest = next(result for result in results if result.classifier == "1-NN DTW")
    assert nearest.accuracy > 0.6
    assert nearest.any_bbr_accuracy >= nearest.accuracy


def test_fewer_recordings_than_folds_give_no_figures() -> None:
    assert list(baselines.evaluate(recordings(4), "passive")) == []
