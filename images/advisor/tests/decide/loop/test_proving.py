"""BBR on a fast path, put to the proof in the machine."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fairlead_advisor.decide.loop.messages import Publish, ReportSwitch, SetTransport, TransportApplied, TransportRefused
from fairlead_advisor.decide.loop.proving import FAST_BPS
from fairlead_advisor.decide.loop.state import Equipment, begin
from fairlead_advisor.decide.model import Decision, DecisionReason, History, PathMeasurement, TransportLimits
from fairlead_advisor.decide.monitor.probe_budget import ProbeReason
from fairlead_advisor.decide.switching import PROVEN_S
from fairlead_advisor.decide.transfer import TransportSettings
from tests.support.loop import Loop
from tests.support.model_mover import seen

PATH = PathMeasurement(rtt_s=0.06, rtt_minimum_s=0.06, loss_ratio=0.0, samples=200)
ONE = TransportLimits(1, 1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLASSIFIED = Decision("bbr", 1, abstained=False, reason=DecisionReason.CLASSIFIED, message="as told", background=seen("B1-C0", 0.8))


def fast(decision: Decision = CLASSIFIED, limits: TransportLimits = ONE, goodput_bps: float = 150e6) -> Loop:
    # Without a monitor, so that no paused probe is in the way.
    state = begin(PATH, decision, limits, History(), Equipment(), applied=True, now_s=0.0, now=NOW)
    return Loop(state, goodput_bps=goodput_bps, streams=1)


def on_trial() -> Loop:
    loop = fast()
    assert loop.asked(10) == [SetTransport(TransportSettings("cubic", None))]
    loop.hand_in(TransportApplied(TransportSettings("cubic", 1)))
    return loop


def test_what_cubic_has_its_part_beside_was_no_bbr_and_cubic_stays() -> None:
    loop = on_trial()
    assert loop.now_s <= 8
    switch, publication = (next(each for each in loop.actions if isinstance(each, kind)) for kind in (ReportSwitch, Publish))
    assert isinstance(switch, ReportSwitch)
    assert (switch.before, switch.switch.to) == ("bbr", "cubic")
    assert isinstance(publication, Publish)
    assert publication.decision.congestion_control == "cubic"
    assert "put to the proof" in publication.decision.message
    loop.goodput_bps = 120e6
    verdict = loop.verdict(30)
    assert verdict.kept
    assert loop.state.monitor.in_force == "cubic"
    assert loop.state.monitor.switching.barred["bbr"] == pytest.approx(loop.now_s + PROVEN_S, abs=2)
    assert "so that the others are no BBR" in loop.state.monitor.objections["bbr"]
    budget = loop.state.monitor.budget
    assert (budget.doubt, budget.doubts_from_s) == (ProbeReason.BARRED, loop.state.monitor.switching.barred["bbr"])


def test_what_leaves_cubic_next_to_nothing_is_bbr_which_is_back_and_proven_for_long() -> None:
    loop = on_trial()
    loop.goodput_bps = 20e6
    assert loop.asked(30) == [SetTransport(TransportSettings("bbr", None))]
    loop.hand_in(TransportApplied(TransportSettings("bbr", 1)))
    loop.goodput_bps = 150e6
    assert loop.state.monitor.in_force == "bbr"
    assert loop.state.monitor.budget.doubt is None, "the answer is followed"
    assert loop.state.monitor.switching.barred == {}, "the others may leave, and CUBIC is right then"
    assert loop.asked(600) == []
    loop.now_s = PROVEN_S + 20
    assert loop.asked(60) == [SetTransport(TransportSettings("cubic", None))]


@pytest.mark.parametrize(
    ("decision", "limits", "goodput_bps"),
    [
        pytest.param({}, {}, FAST_BPS / 1.01, id="as slow as the paths that the classifier was trained on"),
        pytest.param({"congestion_control": "cubic"}, {}, 150e6, id="CUBIC"),
        pytest.param({"background": seen("B1-C0")}, {}, 150e6, id="an answer beyond doubt"),
        pytest.param({"background": seen("B0-C1", 0.8)}, {}, 150e6, id="BBR that stands although the answer is CUBIC"),
        pytest.param({"reason": DecisionReason.IN_FORCE}, {}, 150e6, id="what stood after a restart of the advisor"),
        pytest.param({"reason": DecisionReason.USER_CHOICE}, {"congestion_control": "bbr"}, 150e6, id="the user's choice"),
        pytest.param({}, {"others_weight": 0.0}, 150e6, id="others need not be spared"),
    ],
)
def test_nothing_else_is_put_to_the_proof(decision: dict[str, Any], limits: dict[str, Any], goodput_bps: float) -> None:
    loop = fast(replace(CLASSIFIED, **decision), replace(ONE, **limits), goodput_bps)
    assert loop.asked(60) == []


def test_a_mover_that_refuses_is_not_asked_again() -> None:
    loop = fast()
    assert loop.asked(10)
    loop.hand_in(TransportRefused("congestion_control", "NotAllowed", "cubic is not among them"))
    assert loop.state.monitor.in_force == "bbr"
    assert loop.asked(60) == []
