"""Puts BBR to the proof on fast paths, where the classifier takes CUBIC for BBR more often than it says: CUBIC on trial.

Beside BBR CUBIC has next to nothing, and BBR is back after the trial. Beside CUBIC it has its part, and stays.
"""

from dataclasses import replace

from fairlead_advisor.decide import switching
from fairlead_advisor.decide.loop import monitoring
from fairlead_advisor.decide.loop.messages import SetTransport, Tick, TransportAnswer
from fairlead_advisor.decide.loop.state import AwaitsProof, LoopStage, LoopState, Turn
from fairlead_advisor.decide.model import DecisionReason
from fairlead_advisor.decide.transfer import TransportSettings

FAST_BPS = 80e6
"""Nine in ten of the recordings that the classifier was trained on are of slower paths."""
BEYOND_DOUBT = 0.97
"""An answer for BBR that is as sure as that is followed there too: 20 s with CUBIC cost much where it is right."""
AFTER_S = 5.0
"""Of data: what BBR has must show first."""
_PROVEN = "bbr"
_BY_CLASSIFIER = (DecisionReason.CLASSIFIED, DecisionReason.KNOWN)


def watch(state: LoopState, tick: Tick) -> Turn:
    """Begins a proof where one is due; not while anything else is being tried."""
    goodput_bps = _goodput_bps(state)
    if not _is_due(state, tick, goodput_bps):
        return Turn(state, (), LoopStage.RESTART)
    why = f"{_PROVEN} is put to the proof: the classifier is less sure above {FAST_BPS / 1e6:.0f} Mb/s than it says"
    step = switching.put_to_proof(state.monitor.switching, tick.seen.at_s, goodput_bps, why)
    assert step.switch is not None
    wanted = TransportSettings(step.switch.to, None)
    state = monitoring.with_proof(state, tick.seen.at_s + switching.PROVEN_S)
    return Turn(replace(state, pending=AwaitsProof(tick, step, LoopStage.RESTART)), (SetTransport(wanted),), LoopStage.WAITING)


def answered(state: LoopState, pending: AwaitsProof, event: TransportAnswer) -> Turn:
    """The mover's answer to a switch that no answer of the classifier chose."""
    assert pending.step.switch is not None
    state, actions, done = monitoring.switched(state, pending.step, event)
    if not done:
        return Turn(state, actions, pending.then)
    if monitoring.tries_out(state):
        state = monitoring.with_loses_alone(state, True)
    state, publication = monitoring.now_with(state, pending.step.switch.why)
    return Turn(monitoring.begin_anew(state, pending.tick.seen.at_s), (*actions, publication), LoopStage.INTERRUPTED)


def _is_due(state: LoopState, tick: Tick, goodput_bps: float) -> bool:
    monitor, limits, background = state.monitor, state.limits, state.decision.background
    return (
        monitor.in_force == _PROVEN
        and limits.congestion_control is None
        and limits.spares_others
        and state.decision.reason in _BY_CLASSIFIER
        and background is not None
        and background.has_bbr
        and background.any_bbr < BEYOND_DOUBT
        and not monitor.on_trial
        and (state.search is None or state.search.trial is None)
        and tick.seen.at_s >= max(monitor.proof_from_s, monitor.switching.stays_until_s)
        and state.totals.seconds >= AFTER_S
        and min(goodput_bps, tick.seen.goodput_bps) >= FAST_BPS
    )


def _goodput_bps(state: LoopState) -> float:
    """What it has had lately, as far as that is known."""
    lately_bps, totals = state.monitor.detector.goodput_bps, state.totals
    return totals.bits / totals.seconds if lately_bps is None else lately_bps
