"""Intervals of the product's figures."""

from array import array

import numpy as np

from fairlead_advisor.assess.metrics import Scores
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.train.data import DatasetRun
from fairlead_dev.bench.classifier.product import RESAMPLED, intervals, is_short, scores_by_path


def scores(right_shares: list[float]) -> tuple[Scores, np.ndarray]:
    """Twenty windows a path, of *any BBR* or not in turn, each path right in that share of them; all answers are sure."""
    truth = np.tile(np.array([0, 2]), 10 * len(right_shares))
    right = np.concatenate([np.arange(20) < 20 * share for share in right_shares])
    said = np.where(right, truth, 2 - truth)
    path = np.repeat(np.array([f"p{number}" for number in range(len(right_shares))]), 20)
    return Scores(np.eye(6)[said], truth, np.ones(len(truth), dtype=np.bool_)), path


def test_every_figure_of_a_goal_has_an_interval_over_paths() -> None:
    found = intervals(scores_by_path(*scores([1.0, 1.0, 0.9, 0.5])))
    assert set(found) == set(RESAMPLED)
    low, high = found["any_bbr_accuracy"] or (0.0, 0.0)
    assert 0.5 <= low < 0.85 < high <= 1.0
    # Sure of everything, it is off by what it has wrong.
    assert found["expected_calibration_error"] is not None
    assert np.allclose(found["expected_calibration_error"], (1 - high, 1 - low), atol=0.02)


def test_a_single_path_has_none() -> None:
    assert set(intervals(scores_by_path(*scores([0.9]))).values()) == {None}


def test_a_path_is_short_by_its_rtt_alone_and_a_trace_of_ones_own_is_not() -> None:
    def is_said(about: dict[str, object]) -> bool:
        return is_short(DatasetRun("run", "path", "B0-C0", "s0", "test_paths", Trace(array("d"), array("d")), about))

    assert is_said({"rtt_ms": 4.9})
    assert not is_said({"rtt_ms": 5.1})
    assert not is_said({})
