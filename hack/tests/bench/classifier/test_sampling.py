from array import array

import numpy as np
import pytest

from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.train.data import DatasetRun
from fairlead_dev.bench.classifier.sampling import at_one_hertz, windows


def run(name: str, class_name: str, rtts_ms: np.ndarray, path: str = "p") -> DatasetRun:
    times_s = np.arange(len(rtts_ms)) / 50
    return DatasetRun(name, path, class_name, "1", "train", Trace(array("d", times_s), array("d", rtts_ms)))


def test_a_second_is_the_mean_of_the_requests_at_its_start() -> None:
    rtts_ms = np.full(150, 40.0)
    rtts_ms[[0, 1]] = (50, 52)
    rtts_ms[[50, 51]] = (np.nan, 44)
    rtts_ms[[100, 101]] = np.nan
    assert at_one_hertz(run("r", "B0-C0", rtts_ms).trace) == pytest.approx([51, 44, np.nan], nan_ok=True)


def test_windows_tell_the_queue_above_the_floor_of_the_path() -> None:
    low, high = run("a", "B0-C0", np.full(600, 40.0)), run("b", "B0-C1", np.full(600, 47.0))
    found = windows([low, high, run("c", "B1-C0", np.full(600, 90.0), path="q")], 5)
    assert found.queue_ms.shape == (6, 5)
    assert found.queue_ms[:, 0].tolist() == [0, 0, 7, 7, 0, 0]
    assert found.truth.tolist() == [0, 0, 1, 1, 2, 2]
    assert found.recording.tolist() == [0, 0, 1, 1, 2, 2]


def test_short_gaps_hold_the_last_value_and_longer_ones_reject_the_window() -> None:
    rtts_ms = 40 + np.repeat(np.arange(20.0), 50)
    rtts_ms[2 * 50 : 3 * 50] = np.nan
    rtts_ms[6 * 50 : 8 * 50] = np.nan
    found = windows([run("a", "B0-C0", rtts_ms)], 5)
    assert found.queue_ms.tolist() == [[0, 1, 1, 3, 4], [10, 11, 12, 13, 14], [15, 16, 17, 18, 19]]
