import math
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_advisor.probe.summary import Summary, summarize
from tests.support.traces import trace_of


def test_summarizes_answered_and_lost_requests() -> None:
    rtts_ms = [60.0, 62.0, None, 61.0, 80.0]
    summary = summarize(trace_of((index / 20, rtt_ms) for index, rtt_ms in enumerate(rtts_ms)))
    expected = Summary(
        samples=5,
        answered=4,
        loss_ratio=0.2,
        rtt_median_ms=61.5,
        rtt_minimum_ms=60.0,
        rtt_mean_ms=65.75,
        rtt_p95_ms=80.0,
        jitter_ms=22 / 3,
    )
    assert asdict(summary) == pytest.approx(asdict(expected))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([], Summary(0, 0, None, None, None, None, None, None), id="nothing sent"),
        pytest.param([(0.0, None)], Summary(1, 0, 1.0, None, None, None, None, None), id="nothing answered"),
        pytest.param([(0.0, 7.0)], Summary(1, 1, 0.0, 7.0, 7.0, 7.0, 7.0, None), id="one answer has no jitter"),
    ],
)
def test_what_was_not_measured_is_none(rows: list[tuple[float, float | None]], expected: Summary) -> None:
    assert summarize(trace_of(rows)) == expected


@given(st.lists(st.floats(0.01, 1e4), min_size=1))
def test_the_figures_are_in_order(rtts_ms: list[float]) -> None:
    summary = summarize(trace_of((index / 20, rtt_ms) for index, rtt_ms in enumerate(rtts_ms)))
    assert summary.rtt_minimum_ms is not None and summary.rtt_median_ms is not None and summary.rtt_mean_ms is not None
    assert summary.rtt_minimum_ms <= summary.rtt_median_ms <= max(rtts_ms)
    assert summary.rtt_minimum_ms <= summary.rtt_mean_ms or math.isclose(summary.rtt_minimum_ms, summary.rtt_mean_ms)
    assert summary.rtt_p95_ms in rtts_ms
