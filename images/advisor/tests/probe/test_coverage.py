from pathlib import Path

import pytest

from fairlead_advisor.errors import TraceError
from fairlead_advisor.probe.coverage import require_coverage
from fairlead_advisor.probe.trace import Trace
from tests.support.traces import steady, trace_of

PATH = Path("trace.csv")


@pytest.mark.parametrize(
    ("trace", "window_s"),
    [
        pytest.param(steady(), 10, id="a probe of the default length"),
        pytest.param(steady(100, 0.1), 10, id="exactly 10 Hz"),
        pytest.param(steady(100, 0.101), 10, id="10 Hz on a busy host"),
        pytest.param(steady(2000), 10, id="longer than the window"),
        pytest.param(trace_of((i / 20, 60.0 if i % 2 else None) for i in range(200)), 10, id="half lost"),
        pytest.param(trace_of((i / 20 + (60 if i > 100 else 0), 60.0) for i in range(400)), 10, id="a pause before the window"),
    ],
)
def test_a_sufficient_trace_passes(trace: Trace, window_s: float) -> None:
    require_coverage(PATH, trace, window_s)


@pytest.mark.parametrize(
    ("trace", "window_s", "complaint"),
    [
        pytest.param(trace_of([]), 10, r"only 0 row\(s\), at least 10", id="header only"),
        pytest.param(steady(3), 10, r"only 3 row\(s\), at least 10", id="three samples"),
        pytest.param(steady(50, 0.2), 10, "sampled at 5 Hz, at least 10 Hz", id="too slow"),
        pytest.param(steady(100), 10, "covers 5 s, shorter than the window of 10 s", id="too short"),
        pytest.param(
            trace_of((i / 20 + (2 if i >= 150 else 0), 1.0) for i in range(250)), 10, "line 152: no request for 2.05 s", id="a gap"
        ),
        pytest.param(steady(rtt_ms=None), 10, "only 0 of the last 200 requests were answered", id="all lost"),
    ],
)
def test_an_insufficient_trace_is_refused_with_the_remedy(trace: Trace, window_s: float, complaint: str) -> None:
    with pytest.raises(TraceError, match=complaint) as refusal:
        require_coverage(PATH, trace, window_s)
    assert "probe again" in str(refusal.value)
