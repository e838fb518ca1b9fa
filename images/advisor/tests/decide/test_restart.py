"""When a flow with BBR that has next to nothing is set anew."""

import pytest

from fairlead_advisor.decide.restart import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    STUCK_S,
    TRIAL_S,
    TRIAL_SETTLE_S,
    RestartStep,
    StuckFlow,
    failed,
    least_bps,
    restarted,
    step,
)

MBPS = 1e6


def run(state: StuckFlow, goodput_mbps: float, seconds: float, *, from_s: float = 0.0, least: float | None = 2 * MBPS) -> RestartStep:
    """Stretches of 3 s, up to the first of which anything follows."""
    at_s, found = from_s, RestartStep(state)
    while at_s < from_s + seconds:
        at_s += 3.0
        found = step(found.state, at_s, 3.0, goodput_mbps * MBPS, least)
        if found.why or found.goodput_ratio is not None:
            return found
    return found


@pytest.mark.parametrize(
    ("capacity_bps", "rtt_s", "streams", "least"),
    [
        (40e6, 0.1, 1, 2e6),
        (40e6, None, 4, 2e6),
        (None, 0.2, 1, 12 * 1448 * 8 / 0.2),
        (None, 0.2, 4, 4 * 12 * 1448 * 8 / 0.2),
        (None, None, 1, None),
        (None, 0.0, 1, None),
    ],
    ids=["a twentieth of the path", "whatever the streams", "packets a round trip", "of every stream", "nothing known", "no RTT"],
)
def test_next_to_nothing_is_little_of_the_path_or_few_packets_a_round_trip(
    capacity_bps: float | None, rtt_s: float | None, streams: int, least: float | None
) -> None:
    assert least_bps(capacity_bps, rtt_s, streams) == (None if least is None else pytest.approx(least))


def test_a_flow_that_is_stuck_for_two_minutes_is_set_anew() -> None:
    assert not run(StuckFlow(), 0.4, STUCK_S - 6).why
    assert run(StuckFlow(), 0.4, STUCK_S).why == "it has had 0.4 Mb/s for 120 s beside others: BBR is set anew"


@pytest.mark.parametrize(("goodput_mbps", "least"), [(2.0, 2 * MBPS), (0.1, None)], ids=["has enough", "not BBR's doing"])
def test_one_stretch_that_is_not_stuck_begins_the_count_anew(goodput_mbps: float, least: float | None) -> None:
    state = run(StuckFlow(), 0.4, STUCK_S - 6).state
    state = run(state, goodput_mbps, 3, least=least).state
    assert not run(state, 0.4, STUCK_S - 6).why
    assert run(state, 0.4, STUCK_S).why


@pytest.mark.parametrize(("after_mbps", "pause_s"), [(8.0, FIRST_PAUSE_S), (0.6, FIRST_PAUSE_S), (0.5, 2 * FIRST_PAUSE_S)])
def test_a_restart_that_does_not_pay_is_repeated_ever_more_rarely(after_mbps: float, pause_s: float) -> None:
    stuck = run(StuckFlow(), 0.4, STUCK_S).state
    # What comes in before the new estimate has settled does not count.
    settling = run(restarted(stuck, 200.0), 30.0, TRIAL_SETTLE_S - 2, from_s=200.0)
    proved = run(settling.state, after_mbps, TRIAL_S + 6, from_s=203.0)
    assert proved.goodput_ratio == pytest.approx(after_mbps / 0.4)
    assert (proved.state.not_before_s, proved.state.pause_s) == (200.0 + pause_s, pause_s)
    again = run(proved.state, 0.4, 10_000, from_s=230.0)
    assert again.why
    assert again.state.stuck_s >= max(STUCK_S, 200.0 + pause_s - 230.0 - 3)


def test_the_pause_has_a_longest() -> None:
    state = StuckFlow()
    for _ in range(10):
        state = failed(state, 0.0)
    assert state.pause_s == LONGEST_PAUSE_S


def test_nothing_at_all_before_is_no_division_by_zero() -> None:
    stuck = run(StuckFlow(), 0.0, STUCK_S).state
    proved = run(restarted(stuck, 0.0), 5.0, 60)
    assert proved.goodput_ratio is not None
    assert proved.goodput_ratio > 100
