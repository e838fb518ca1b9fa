"""Jobs of ours beside one another: each takes the others' flows for somebody else's, unless they pause together."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from fairlead_advisor.decide.loop import machine
from fairlead_advisor.decide.loop.messages import ProbeFinished, ProbePaused, SetTransport
from fairlead_advisor.decide.loop.state import AwaitsProbe, Equipment, begin
from fairlead_advisor.decide.model import Decision, DecisionReason, History, PathMeasurement, TransportLimits
from fairlead_advisor.decide.monitor.probe_budget import EXPECTED_S, SHARE, ProbeReason
from fairlead_advisor.decide.switching import DWELL_S, SwitchState, answer
from fairlead_advisor.decide.transfer import TransportSettings
from tests.support.loop import Loop
from tests.support.model_mover import seen

PATH = PathMeasurement(rtt_s=0.06, rtt_minimum_s=0.06, loss_ratio=0.0, samples=200)
ONE = TransportLimits(1, 1)
NOBODY, BBR, TWO = seen("B0-C0"), seen("B1-C0"), seen("B1-B1")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def with_bbr(limits: TransportLimits = ONE, in_force: str = "bbr") -> Loop:
    """A job with one stream, half a minute after it has begun beside others."""
    decision = Decision(in_force, 1, abstained=False, reason=DecisionReason.CLASSIFIED, message="as told", background=BBR)
    equipment = Equipment((5.0, 10.0), monitored=True)
    loop = Loop(begin(PATH, decision, limits, History(), equipment, applied=True, now_s=0.0, now=NOW), streams=1, goodput_bps=30e6)
    for _ in range(30):
        loop.sample_answered(TWO)
    assert loop.state.pending is None
    return loop


def pauses(loop: Loop, seconds: int) -> tuple[ProbeReason, ProbePaused] | None:
    """Why it pauses within so many seconds, and how."""
    for _ in range(seconds):
        actions = loop.sample_answered(TWO)
        if isinstance(loop.state.pending, AwaitsProbe):
            assert isinstance(actions[-1], ProbePaused)
            return loop.state.pending.why, actions[-1]
    return None


@pytest.mark.parametrize(
    ("beside_own_bbr", "found"),
    [
        pytest.param(False, None, id="the BBR that is heard is somebody else's"),
        pytest.param(True, (ProbeReason.CHANGED, ProbePaused(calls=True)), id="it may be another job's, which is called"),
    ],
)
def test_a_step_beside_bbr_of_our_own_is_probed_for_together(beside_own_bbr: bool, found: object) -> None:
    loop = with_bbr()
    loop.beside_own_bbr = beside_own_bbr
    loop.goodput_bps = 60e6
    assert pauses(loop, 20) == found


def test_a_job_that_is_called_pauses_at_once_calls_nobody_and_follows_its_own_answer() -> None:
    loop = with_bbr()
    loop.called = True
    assert pauses(loop, 1) == (ProbeReason.CALLED, ProbePaused(calls=False))
    loop.now_s += 7.0
    assert loop.hand_in(ProbeFinished(7.0, PATH, NOBODY)) == (SetTransport(TransportSettings("cubic", None)),)


def test_calls_are_followed_as_often_as_the_budget_allows_and_delay_no_probe_of_its_own() -> None:
    loop = with_bbr()
    loop.called = True
    called_s, free = [], []
    for _ in range(4):
        assert pauses(loop, 1000) == (ProbeReason.CALLED, ProbePaused(calls=False))
        called_s.append(loop.now_s)
        loop.now_s += 7.0
        loop.hand_in(ProbeFinished(7.0, PATH, BBR))
        free.append(loop.state.monitor.budget.free)
    assert called_s[2] - called_s[0] < 30, "two on credit, and the free one"
    assert called_s[3] >= EXPECTED_S / SHARE
    assert (free, loop.state.monitor.budget.not_before_s) == ([True, True, False, False], 0.0)


def test_a_job_in_debt_whose_free_probe_is_left_pauses_with_those_who_call_it() -> None:
    loop = with_bbr()
    budget = replace(loop.state.monitor.budget, spent_s=30.0)
    loop.state = replace(loop.state, monitor=replace(loop.state.monitor, budget=budget))
    loop.called = True
    assert pauses(loop, 1) == (ProbeReason.CALLED, ProbePaused(calls=False))
    loop.now_s += 7.0
    loop.hand_in(ProbeFinished(7.0, PATH, NOBODY))
    assert loop.state.pending is not None, "it is switched"


def test_a_job_with_cubic_pauses_with_the_others_but_keeps_none_of_them_in_bbr() -> None:
    loop = with_bbr(in_force="cubic")
    assert (machine.joins_others(loop.state), machine.has_own_bbr(loop.state)) == (True, False)
    loop.called = True
    assert pauses(loop, 1) == (ProbeReason.CALLED, ProbePaused(calls=False))


def test_a_job_with_cubic_follows_no_call_on_credit_and_makes_up_for_none() -> None:
    loop = with_bbr(in_force="cubic")
    budget = replace(loop.state.monitor.budget, spent_s=1.0)
    loop.state = replace(loop.state, monitor=replace(loop.state.monitor, budget=budget))
    loop.called = True
    assert pauses(loop, 1) is None
    loop.called = False
    assert pauses(loop, 100) is None


def test_a_job_with_cubic_is_left_in_peace_while_it_begins() -> None:
    decision = Decision("cubic", 1, abstained=False, reason=DecisionReason.CLASSIFIED, message="as told", background=NOBODY)
    equipment = Equipment((5.0, 10.0), monitored=True)
    loop = Loop(begin(PATH, decision, ONE, History(), equipment, applied=True, now_s=0.0, now=NOW), streams=1, goodput_bps=30e6)
    loop.called = True
    assert pauses(loop, 3) is None


def test_a_call_during_a_pause_of_its_own_is_made_up_for() -> None:
    loop = with_bbr()
    loop.state = replace(loop.state, interrupted_s=loop.now_s + 1.5)
    loop.called = True
    assert pauses(loop, 1) is None
    loop.called = False
    assert pauses(loop, 3) == (ProbeReason.CALLED, ProbePaused(calls=True))


def test_a_job_with_cubic_that_probes_calls_the_others() -> None:
    loop = with_bbr(in_force="cubic")
    loop.goodput_bps = 3e6
    assert pauses(loop, 20) == (ProbeReason.CHANGED, ProbePaused(calls=True))


def test_a_job_whose_congestion_control_the_user_chose_neither_calls_nor_is_called() -> None:
    loop = with_bbr(replace(ONE, congestion_control="bbr"))
    assert not machine.joins_others(loop.state) and not machine.has_own_bbr(loop.state)
    loop.called = True
    assert pauses(loop, 1) is None


def test_a_job_with_bbr_is_known_to_others_once_its_data_flow() -> None:
    decision = Decision("bbr", 1, abstained=False, reason=DecisionReason.CLASSIFIED, message="as told", background=BBR)
    equipment = Equipment((5.0, 10.0), monitored=True)
    before = begin(PATH, decision, ONE, History(), equipment, applied=True, now_s=0.0, now=NOW)
    assert not machine.joins_others(before) and not machine.has_own_bbr(before)
    assert machine.joins_others(with_bbr().state) and machine.has_own_bbr(with_bbr().state)


def test_jobs_that_no_step_shows_anything_pause_together_after_a_minute_and_then_within_their_budget() -> None:
    loop = with_bbr()
    loop.beside_own_bbr = True
    assert pauses(loop, 28) is None
    assert pauses(loop, 6) == (ProbeReason.UNANSWERED, ProbePaused(calls=True))
    loop.now_s += 7.0
    loop.hand_in(ProbeFinished(7.0, PATH, BBR))
    assert pauses(loop, int(EXPECTED_S / SHARE) - 80) is None
    assert pauses(loop, 20) == (ProbeReason.UNANSWERED, ProbePaused(calls=True))


def test_a_call_that_comes_during_a_trial_is_made_up_for_once_the_dwell_is_over_and_calls_in_turn() -> None:
    loop = with_bbr()
    switching = answer(SwitchState("cubic"), loop.now_s, "bbr", 10e6, "a look").state
    loop.state = replace(loop.state, monitor=replace(loop.state.monitor, switching=switching))
    loop.called = True
    assert pauses(loop, 1) is None
    loop.called = False
    assert pauses(loop, int(DWELL_S) - 2) is None
    assert pauses(loop, 3) == (ProbeReason.CALLED, ProbePaused(calls=True))


def test_a_call_that_comes_in_debt_is_made_up_for_once_that_is_paid() -> None:
    loop = with_bbr()
    budget = replace(loop.state.monitor.budget, spent_s=EXPECTED_S + 1.0, free=False)
    loop.state = replace(loop.state, monitor=replace(loop.state.monitor, budget=budget))
    loop.called = True
    assert pauses(loop, 1) is None
    loop.called = False
    assert pauses(loop, int((EXPECTED_S + 1.0) / SHARE) - 32) is None
    assert pauses(loop, 3) == (ProbeReason.CALLED, ProbePaused(calls=True))
