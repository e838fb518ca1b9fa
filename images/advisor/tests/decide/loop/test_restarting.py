"""A flow with BBR that is stuck beside two others, in the machine."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.loop.messages import (
    Action,
    Classified,
    Classify,
    Event,
    ProbePaused,
    Publish,
    ReportSwitch,
    SetTransport,
    TransportApplied,
    TransportFailed,
    TransportRefused,
    Warn,
)
from fairlead_advisor.decide.loop.state import Equipment, begin
from fairlead_advisor.decide.model import Decision, DecisionReason, History, PathMeasurement, TransportLimits
from fairlead_advisor.decide.monitor.change_detector import PathChange
from fairlead_advisor.decide.monitor.probe_budget import ProbeReason
from fairlead_advisor.decide.transfer import TransportSettings
from tests.support.loop import Loop
from tests.support.model_mover import seen

PATH = PathMeasurement(rtt_s=0.06, rtt_minimum_s=0.06, loss_ratio=0.0, samples=200)
TWO_BBR = seen("B1-B1")
ONE = TransportLimits(1, 1)
KNOWN = History(capacity_bps=40e6)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def stuck(
    background: Background = TWO_BBR,
    limits: TransportLimits = ONE,
    history: History = KNOWN,
    control: str = "bbr",
    reason: DecisionReason = DecisionReason.CLASSIFIED,
    goodput_bps: float = 0.4e6,
) -> Loop:
    decision = Decision(control, 1, abstained=False, reason=reason, message="as told", background=background)
    # Without a monitor, so that no paused probe is in the way.
    state = begin(PATH, decision, limits, history, Equipment(), applied=True, now_s=0.0, now=NOW)
    return Loop(state, goodput_bps=goodput_bps, streams=1)


def applied(control: str) -> TransportApplied:
    return TransportApplied(TransportSettings(control, 1))


def of_kind(actions: tuple[Action, ...], kind: type) -> list[Action]:
    return [action for action in actions if isinstance(action, kind)]


def test_it_is_set_to_cubic_and_back_and_told_what_that_brought() -> None:
    loop = stuck()
    assert loop.asked(200) == [SetTransport(TransportSettings("cubic", None))]
    assert 115 <= loop.now_s <= 130
    actions = loop.hand_in(applied("cubic"))
    assert of_kind(actions, SetTransport) == [SetTransport(TransportSettings("bbr", None))]
    loop.hand_in(applied("bbr"))
    switches = [(action.before, action.switch.to) for action in loop.actions if isinstance(action, ReportSwitch)]
    assert switches == [("bbr", "cubic"), ("cubic", "bbr")]
    assert loop.state.monitor.in_force == "bbr"
    loop.goodput_bps = 12e6
    verdict = loop.verdict(40)
    assert verdict.goodput_ratio == pytest.approx(30, rel=0.1)
    assert verdict.kept
    assert not loop.asked(600), "it is not stuck any more"


@pytest.mark.parametrize(
    "loop",
    [
        stuck(goodput_bps=2.5e6),
        stuck(control="cubic"),
        stuck(background=seen("B1-C0")),
        stuck(background=seen("B1-B1", 0.6, abstained=True), reason=DecisionReason.UNSURE),
        stuck(limits=TransportLimits(1, 1, congestion_control="bbr")),
        stuck(history=History(), goodput_bps=3e6),
    ],
    ids=["a share", "CUBIC", "beside one other", "beside who knows whom", "the job asks for BBR", "no capacity, many packets a round trip"],
)
def test_nothing_is_set_anew_otherwise(loop: Loop) -> None:
    assert loop.asked(300) == []


def test_a_cap_or_a_slow_source_is_no_reason() -> None:
    capped = stuck()
    capped.cap_bps = 0.42e6
    idle = stuck()
    idle.busy_ratio = 0.1
    assert capped.asked(300) == idle.asked(300) == []


def test_nothing_is_probed_or_tried_while_it_proves_itself() -> None:
    loop = stuck(limits=TransportLimits(1, 8))
    asked = loop.asked(400)
    while asked and asked[0].wanted.congestion_control is None:
        loop.hand_in(TransportApplied(TransportSettings(None, asked[0].wanted.streams)))
        loop.streams = asked[0].wanted.streams or loop.streams
        asked = loop.asked(400)
    assert [one.wanted.congestion_control for one in asked] == ["cubic"]
    loop.hand_in(applied("cubic"))
    loop.hand_in(applied("bbr"))
    for _ in range(20):
        assert not of_kind(loop.sample(), SetTransport)


def test_a_change_that_waits_for_its_probe_is_not_forgotten_over_it() -> None:
    loop = stuck()
    loop.asked(200)
    assert loop.state.monitor.budget.doubt is None
    detector = replace(loop.state.monitor.detector, change=PathChange(1.0, 0.5, "half the goodput"))
    loop.state = replace(loop.state, monitor=replace(loop.state.monitor, detector=detector))
    loop.hand_in(applied("cubic"))
    loop.hand_in(applied("bbr"))
    assert loop.state.monitor.detector.change is None
    assert loop.state.monitor.budget.doubt is ProbeReason.UNANSWERED


def test_a_trial_of_another_stream_count_does_not_begin_the_two_minutes_anew() -> None:
    loop = stuck(limits=TransportLimits(1, 8))
    counted_s, trials = 0.0, 0
    for _ in range(100):
        for action in loop.sample():
            if isinstance(action, SetTransport):
                loop.hand_in(TransportApplied(TransportSettings(None, action.wanted.streams)))
        search = loop.state.search
        trials += search is not None and search.trial is not None
        assert loop.state.monitor.stuck.stuck_s >= counted_s
        counted_s = loop.state.monitor.stuck.stuck_s
    assert trials
    assert counted_s > 0


@pytest.mark.parametrize(
    "refusal", [TransportRefused("congestion_control", "NotAvailable", "no"), TransportFailed("no answer", retryable=True)]
)
def test_a_mover_that_does_not_set_it_is_asked_again_after_a_pause(refusal: Event) -> None:
    loop = stuck()
    loop.asked(200)
    assert of_kind(loop.hand_in(refusal), Warn)
    first_s = loop.now_s
    assert loop.state.monitor.in_force == "bbr"
    assert loop.asked(600)
    assert loop.now_s - first_s >= 240


def test_what_the_sockets_are_left_with_is_published_and_probed_again() -> None:
    decision = Decision("bbr", 1, abstained=False, reason=DecisionReason.CLASSIFIED, message="as told", background=TWO_BBR)
    equipment = Equipment((5.0, 10.0), monitored=True)
    loop = Loop(begin(PATH, decision, ONE, KNOWN, equipment, applied=True, now_s=0.0, now=NOW), goodput_bps=0.4e6, streams=1)
    for _ in range(200):
        actions = loop.sample()
        if of_kind(actions, Classify):
            actions = loop.hand_in(Classified(TWO_BBR))
        if of_kind(actions, SetTransport):
            break
    loop.hand_in(applied("cubic"))
    actions = loop.hand_in(TransportFailed("no answer", retryable=True))
    (publication,) = of_kind(actions, Publish)
    assert isinstance(publication, Publish)
    assert (publication.decision.congestion_control, publication.decision.rejected[0].congestion_control) == ("cubic", "bbr")
    for _ in range(900):
        actions = loop.sample()
        if of_kind(actions, Classify):
            actions = loop.hand_in(Classified(TWO_BBR))
        if of_kind(actions, ProbePaused):
            return
    raise AssertionError("what was left in force is never looked at again")


def test_over_several_paths_what_is_next_to_nothing_counts_the_streams_of_all() -> None:
    # Above twelve packets a round trip for one stream, below that for two.
    loop = stuck(history=History(), goodput_bps=3.0e6)
    assert loop.asked(200) == []
    loop = stuck(history=History(), goodput_bps=3.0e6)
    loop.paths = 2
    assert loop.asked(200) == [SetTransport(TransportSettings("cubic", None))]
