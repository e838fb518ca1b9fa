import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_advisor.errors import UsageError
from fairlead_advisor.probe.schedule import Timetable

RATES = st.floats(10, 200)
MS = 1_000_000


@pytest.mark.parametrize("rate_hz", [9.99, 0, -1, 200.1, float("nan"), float("inf")])
def test_a_rate_outside_the_limits_is_refused(rate_hz: float) -> None:
    with pytest.raises(UsageError, match="the rate must be 10 to 200"):
        Timetable(rate_hz, 10)


@pytest.mark.parametrize("seconds", [0, 0.9, -5, 3601, float("nan"), float("inf")])
def test_a_duration_outside_the_limits_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="the duration must be 1 to 3600"):
        Timetable(20, seconds)


def test_due_times_do_not_drift() -> None:
    timetable = Timetable(30, 3600)
    assert timetable.count == 108_000
    assert timetable.due_ns(107_999) == round(107_999 * 1e9 / 30)


@pytest.mark.parametrize(
    ("index", "elapsed_ms", "expected"),
    [
        pytest.param(0, 0, 0, id="at the start"),
        pytest.param(3, 151, 3, id="a little late"),
        pytest.param(3, 149, 3, id="a little early"),
        pytest.param(3, 199, 3, id="late by less than a period"),
        pytest.param(3, 200, 4, id="late by a whole period"),
        pytest.param(3, 1010, 20, id="late by many periods: none in a burst"),
        pytest.param(3, 60_000, 200, id="after the end"),
    ],
)
def test_the_next_request_is_never_a_whole_period_overdue(index: int, elapsed_ms: int, expected: int) -> None:
    assert Timetable(20, 10).next_index(index, elapsed_ms * MS) == expected


@given(RATES, st.integers(0, 100))
def test_a_wake_up_on_time_skips_nothing(rate_hz: float, index: int) -> None:
    timetable = Timetable(rate_hz, 100)
    assert timetable.next_index(index, timetable.due_ns(index)) == index


@given(RATES, st.integers(0, 1000), st.integers(0, 200 * 1000 * MS))
def test_the_next_request_is_never_before_the_one_asked_for_nor_beyond_the_end(rate_hz: float, index: int, elapsed_ns: int) -> None:
    timetable = Timetable(rate_hz, 100)
    chosen = timetable.next_index(index, elapsed_ns)
    assert index <= chosen <= timetable.count
    assert chosen in (index, timetable.count) or timetable.due_ns(chosen) <= elapsed_ns < timetable.due_ns(chosen + 1)
