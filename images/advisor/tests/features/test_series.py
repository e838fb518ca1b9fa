import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_advisor.errors import TraceError
from fairlead_advisor.features.series import GRID_HZ, Window, consecutive_windows, last_window, quantiles, resample
from tests.support.background import window
from tests.support.traces import steady, trace_of


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_quantiles_are_those_of_numpy(values: list[float], shares: list[float]) -> None:
    assert quantiles(np.array(values), tuple(shares)) == pytest.approx(np.quantile(values, shares).tolist(), abs=1e-6)


def test_the_last_window_has_the_requests_of_its_seconds_and_no_other() -> None:
    found = last_window(steady(400, 0.05), 10.0)
    assert len(found.rtts_ms) == 200
    assert found.send_times_s[-1] == pytest.approx(399 * 0.05)


@pytest.mark.parametrize(
    ("samples", "hop_s", "count"),
    [
        (200, None, 1),
        (199, None, 1),
        (198, None, 0),
        (398, None, 1),
        (399, None, 2),
        (400, None, 2),
        (400, 5.0, 3),
        (0, None, 0),
        (1, None, 0),
    ],
)
def test_a_trace_is_cut_into_whole_windows(samples: int, hop_s: float | None, count: int) -> None:
    windows = list(consecutive_windows(steady(samples, 0.05), 10.0, hop_s))
    assert len(windows) == count
    assert all(199 <= len(found.rtts_ms) <= 200 for found in windows)


def test_windows_without_overlap_share_no_request() -> None:
    times = [time for found in consecutive_windows(steady(1000, 0.02), 5.0) for time in found.send_times_s.tolist()]
    assert len(times) == len(set(times)) == 1000


@pytest.mark.parametrize("rate_hz", [10.0, 20.0, 50.0, 200.0])
def test_every_rate_comes_onto_the_same_grid(rate_hz: float) -> None:
    times_s = np.arange(round(10 * rate_hz)) / rate_hz
    series = resample(Window(times_s, 50 + 10 * np.sin(2 * np.pi * times_s / 5), 10.0))
    assert len(series.queue_ms) == 10 * GRID_HZ
    assert series.base_ms == pytest.approx(40, abs=0.2)
    assert series.spread_ms == pytest.approx(20, abs=0.5)
    assert np.percentile(series.level, (1, 99)) == pytest.approx([0, 1], abs=0.01)


def test_a_lost_request_takes_the_reply_beside_it_and_is_counted() -> None:
    trace = trace_of((index * 0.05, None if index in (7, 8) else 40.0 + index) for index in range(100))
    series = resample(last_window(trace, 5.0), 20.0)
    assert series.queue_ms[6:10].tolist() == [6.0, 6.0, 9.0, 9.0]
    assert int(series.lost.sum()) == 2


def test_an_idle_path_is_not_blown_up_into_shapes() -> None:
    series = resample(window(60 + 0.01 * (np.arange(200) % 2)))
    assert series.level.max() < 0.1


def test_too_few_answers_are_refused() -> None:
    values = np.full(100, np.nan)
    values[:9] = 60
    with pytest.raises(TraceError, match=r"only 9 answered request\(s\) in a window of 5 s, at least 10"):
        resample(window(values))
