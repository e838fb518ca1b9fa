import math
from pathlib import Path

import numpy as np
import pytest

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.train.data import DatasetRun
from fairlead_dev.bench.decisions.paper.classifier import (
    Training,
    choose,
    classify,
    held,
    load_training,
    sample_ms,
    save_training,
    training_of,
)

from ...caricature import caricature

NAN = math.nan


def test_a_sample_is_the_mean_of_the_replies_and_missing_with_fewer_than_three() -> None:
    assert sample_ms([10.0, 11.0, 15.0]) == pytest.approx(12)
    assert math.isnan(sample_ms([10.0, 11.0]))


@pytest.mark.parametrize(
    ("samples", "delays"),
    [
        ([5.0, 6.0, 7.0, 8.0, 9.0], [0, 1, 2, 3, 4]),
        ([5.0, NAN, 7.0, 8.0, 9.0], [0, 0, 2, 3, 4]),
        ([NAN, 6.0, 7.0, 8.0, 9.0], None),
        ([5.0, NAN, NAN, 8.0, 9.0], None),
    ],
    ids=["whole", "one-held", "first-missing", "too-many-missing"],
)
def test_short_gaps_hold_the_value_before(samples: list[float], delays: list[float] | None) -> None:
    assert held(samples, 5.0) == delays


def test_the_nearest_window_names_the_class() -> None:
    training = Training(np.array([[0.0] * 10, [40.0] * 10, [0.0, 40.0] * 5]), np.array([0, 2, 4]))
    assert classify(training, [1.0] * 10) == "B0-C0"
    assert classify(training, [38.0] * 10) == "B1-C0"
    assert classify(training, [3.0, 35.0] * 5) == "B1-B1"


@pytest.mark.parametrize(("background", "control"), [("B1-C1", "bbr"), ("C1-C1", "cubic"), ("B0-C0", "cubic"), (None, "cubic")])
def test_bbr_answers_bbr_and_no_answer_is_safe(background: str | None, control: str) -> None:
    assert choose(background) == control


def test_training_comes_from_recordings_and_travels_in_a_file(tmp_path: Path) -> None:
    runs = [DatasetRun(name, "p", name, "1", "train", caricature(name, seconds=40, rate_hz=50, base_ms=100, seed=1)) for name in CLASSES]
    training = training_of(runs)
    assert training.queue_ms.shape == (4 * len(CLASSES), 10)
    save_training(tmp_path / "training.npz", training)
    again = load_training(tmp_path / "training.npz")
    assert (again.queue_ms == training.queue_ms).all()
    assert (again.truth == training.truth).all()
