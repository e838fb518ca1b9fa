"""BBR that is tried where own packets are lost without a queue, and nobody else is there."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fairlead_advisor.decide.loop.losses import AGAIN_S, HOLDS_S, LONGEST_WINDOW_S
from fairlead_advisor.decide.loop.messages import (
    ProbeFinished,
    ProbePaused,
    Publish,
    SetTransport,
    TransportApplied,
    TransportRefused,
)
from fairlead_advisor.decide.loop.state import Equipment, begin
from fairlead_advisor.decide.model import Decision, DecisionReason, History, PathMeasurement, TransportLimits
from fairlead_advisor.decide.transfer import TransportSettings
from tests.support.loop import Loop
from tests.support.model_mover import seen

PATH = PathMeasurement(rtt_s=0.06, rtt_minimum_s=0.06, loss_ratio=0.0, samples=200)
FOUR = TransportLimits(4, 4)
NOBODY, ONE_CUBIC = seen("B0-C0"), seen("B0-C1")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ALONE = Decision("cubic", 4, abstained=False, reason=DecisionReason.CLASSIFIED, message="as told", background=NOBODY)
TO_BBR, TO_CUBIC = (SetTransport(TransportSettings(control, None)) for control in ("bbr", "cubic"))
ALL_SEEN = Equipment((5.0, 10.0), monitored=True)


def losing(
    decision: Decision = ALONE,
    limits: TransportLimits = FOUR,
    history: History = History(),  # noqa: B008 - frozen
    equipment: Equipment = Equipment(),  # noqa: B008 - frozen
    **transfer: Any,
) -> Loop:
    """A transfer that loses two packets in a thousand; without a monitor, so that no paused probe is in the way."""
    state = begin(PATH, decision, limits, history, equipment, applied=True, now_s=0.0, now=NOW)
    return Loop(state, **{"goodput_bps": 40e6, "loss_ratio": 2e-3, "rtt_ms": 60.5, **transfer})


def on_trial(limits: TransportLimits = FOUR) -> Loop:
    loop = losing(limits=limits)
    assert loop.asked(12) == [TO_BBR]
    loop.hand_in(TransportApplied(TransportSettings("bbr", 4)))
    return loop


@pytest.mark.parametrize("limits", [FOUR, TransportLimits(1, 32)])
def test_bbr_that_loss_does_not_hold_back_stays_and_the_decision_tells_why(limits: TransportLimits) -> None:
    loop = on_trial(limits)
    publication = next(action for action in loop.actions if isinstance(action, Publish))
    assert publication.decision.congestion_control == "bbr"
    assert "0.20% of the packets are lost without a queue while nobody else is there" in publication.decision.message
    loop.goodput_bps = 90e6
    verdict = loop.verdict(30)
    assert verdict.kept
    assert loop.state.monitor.in_force == "bbr"
    assert loop.state.history.loses_alone, "a paused probe is to choose it again"
    assert loop.state.history.measured == {}, "what it has alone says nothing of what it leaves to others"


def test_bbr_that_brings_nothing_is_taken_back_and_tried_again_after_long() -> None:
    loop = on_trial()
    assert loop.asked(30) == [TO_CUBIC]
    loop.hand_in(TransportApplied(TransportSettings("cubic", 4)))
    assert loop.state.monitor.switching.barred == {}, "BBR may come at any time"
    assert loop.state.monitor.budget.doubt is None, "no answer was for it"
    assert not loop.state.history.loses_alone
    assert loop.asked(300) == []
    loop.now_s = AGAIN_S
    assert loop.asked(60) == [TO_BBR]


def test_cubic_that_comes_beside_it_has_its_part() -> None:
    loop = losing(equipment=ALL_SEEN)
    while loop.state.monitor.in_force != "bbr":
        assert loop.now_s < 20, "BBR is not tried"
        loop.sample_answered(NOBODY)
    loop.goodput_bps = 160e6
    for _ in range(50):
        loop.sample_answered(NOBODY)
    assert not loop.state.monitor.on_trial
    assert loop.state.monitor.in_force == "bbr"
    loop.goodput_bps, loop.rtt_ms = 90e6, 75.0
    came_s = loop.now_s
    while not isinstance(loop.sample_answered(ONE_CUBIC)[-1], ProbePaused):
        assert loop.now_s < came_s + 12, "no paused probe"
    loop.now_s += 7.0
    assert loop.hand_in(ProbeFinished(7.0, PATH, ONE_CUBIC)) == (TO_CUBIC,)


def test_a_paused_probe_that_finds_nobody_leaves_it_in_force() -> None:
    loop = losing(equipment=ALL_SEEN)
    while loop.state.monitor.in_force != "bbr":
        loop.sample_answered(NOBODY)
    loop.goodput_bps = 160e6
    while not isinstance(loop.sample_answered(NOBODY)[-1], ProbePaused):
        assert loop.now_s < 1000, "no paused probe"
    loop.now_s += 7.0
    assert not any(isinstance(action, SetTransport) for action in loop.hand_in(ProbeFinished(7.0, PATH, NOBODY)))


def test_few_losses_are_counted_for_longer() -> None:
    loop = losing(goodput_bps=6e6)
    assert loop.asked(12) == []
    assert loop.asked(int(LONGEST_WINDOW_S)) == [TO_BBR]


@pytest.mark.parametrize(
    ("decision", "limits", "transfer"),
    [
        pytest.param({"background": ONE_CUBIC}, {}, {}, id="somebody else is there"),
        pytest.param({"background": seen("B0-C0", 0.8)}, {}, {}, id="somebody else may be there"),
        pytest.param({"reason": DecisionReason.KNOWN}, {}, {}, id="nobody was there some time ago"),
        pytest.param({}, {"congestion_control": "cubic"}, {}, id="the user chose CUBIC"),
        pytest.param({}, {}, {"rtt_ms": 66.5}, id="a queue stands, which overflows"),
        pytest.param({}, {}, {"rtt_ms": 66.5, "echo_ms": 60.5}, id="a queue stands that the echo does not share"),
        pytest.param({}, {}, {"loss_ratio": 2e-4}, id="too few are lost"),
        pytest.param({}, {}, {"busy_ratio": 0.5}, id="the source is what holds it back"),
        pytest.param({}, {}, {"cap_bps": 48e6}, id="its cap leaves no room"),
        pytest.param({}, {}, {"paths": 2}, id="it has several paths, which are not told apart"),
    ],
)
def test_nothing_is_tried_where_losses_are_not_what_holds_cubic_back(
    decision: dict[str, Any], limits: dict[str, Any], transfer: dict[str, Any]
) -> None:
    assert losing(replace(ALONE, **decision), replace(FOUR, **limits), **transfer).asked(60) == []


def test_other_jobs_of_ours_are_somebody_too() -> None:
    assert losing(history=History(beside_own=True)).asked(60) == []
    assert losing(beside_own_bbr=True).asked(60) == []


def test_what_slow_start_loses_is_not_counted_nor_what_is_lost_at_once() -> None:
    loop = losing()
    for second in range(40):
        loop.loss_ratio = 0.05 if second in (1, 2, 3, 6) else 0.0
        assert loop.asked(1) == []


def test_a_mover_that_refuses_is_not_asked_again() -> None:
    loop = losing()
    assert loop.asked(12) == [TO_BBR]
    loop.hand_in(TransportRefused("congestion_control", "NotAllowed", "bbr is not among them"))
    assert loop.state.monitor.in_force == "cubic"
    assert not loop.state.history.loses_alone
    assert loop.asked(60) == []


def test_while_losses_may_tell_no_other_stream_count_is_tried() -> None:
    loop = losing(limits=TransportLimits(1, 32))
    loop.rtt_ms = 66.5
    assert loop.asked(8) == [], "slow start has filled the queue"
    loop.rtt_ms = 60.5
    assert loop.asked(8) == [TO_BBR]


def test_losses_that_never_tell_hold_no_stream_count_up_after_the_beginning() -> None:
    loop = losing(limits=TransportLimits(1, 32), loss_ratio=2e-4)
    assert loop.asked(int(HOLDS_S)) == []
    assert loop.asked(5) == [SetTransport(TransportSettings(None, 8))]


def test_without_losses_no_stream_count_is_held_up() -> None:
    loop = losing(limits=TransportLimits(1, 32), loss_ratio=0.0)
    assert loop.asked(12) == [SetTransport(TransportSettings(None, 8))]


def test_bbr_keeps_its_streams_on_the_full_path_until_somebody_comes() -> None:
    loop = losing(limits=TransportLimits(1, 32), equipment=ALL_SEEN)
    while loop.state.monitor.in_force != "bbr":
        loop.sample_answered(NOBODY)
    loop.goodput_bps, loop.rtt_ms = 160e6, 75.0
    for _ in range(100):
        loop.sample_answered(NOBODY)
    assert (loop.state.monitor.in_force, loop.streams) == ("bbr", 4)
    loop.goodput_bps, loop.rtt_ms = 90e6, 95.0
    while not isinstance(loop.sample_answered(ONE_CUBIC)[-1], ProbePaused):
        assert loop.now_s < 150, "no paused probe"
    loop.now_s += 7.0
    assert loop.hand_in(ProbeFinished(7.0, PATH, ONE_CUBIC)) == (TO_CUBIC,)
    loop.hand_in(TransportApplied(TransportSettings("cubic", 4)))
    for _ in range(60):
        loop.sample_answered(ONE_CUBIC)
    assert loop.streams == 1
