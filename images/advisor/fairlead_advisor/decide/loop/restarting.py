"""Sets a flow with BBR anew that is stuck beside others: to CUBIC and back on the live sockets, on trial."""

from dataclasses import replace

from fairlead_advisor.decide import restart
from fairlead_advisor.decide.loop import monitoring
from fairlead_advisor.decide.loop.messages import (
    Action,
    ReportSwitch,
    ReportVerdict,
    SetTransport,
    Tick,
    TransportAnswer,
    TransportApplied,
    Warn,
)
from fairlead_advisor.decide.loop.state import AwaitsRestart, LoopStage, LoopState, Turn
from fairlead_advisor.decide.model import DEFAULT_CONGESTION_CONTROL, DecisionReason
from fairlead_advisor.decide.monitor.caps import at_cap
from fairlead_advisor.decide.switching import ControlSwitch, SwitchVerdict
from fairlead_advisor.decide.transfer import TransportSettings

STUCK_CONTROL = "bbr"
TWO_OTHERS = ("B1-B1", "B1-C1")
"""Beside these a third flow with BBR was seen to stay at next to nothing."""


def watch(state: LoopState, tick: Tick) -> Turn:
    """Takes a sample in, and sets BBR anew where that is due; not while anything else is being tried."""
    seen = tick.seen
    if state.search is not None and state.search.trial is not None and state.monitor.stuck.trial is None:
        # Neither counted nor forgotten: what another stream count has says nothing of BBR.
        return Turn(state, (), LoopStage.DONE)
    step = restart.step(state.monitor.stuck, seen.at_s, seen.seconds, seen.goodput_bps, _least_bps(state, tick))
    state = monitoring.with_stuck(state, step.state)
    reports: tuple[Action, ...] = ()
    if step.goodput_ratio is not None:
        reports = (ReportVerdict(SwitchVerdict(STUCK_CONTROL, STUCK_CONTROL, step.goodput_ratio, kept=True)),)
    if not step.why:
        return Turn(state, reports, LoopStage.DONE)
    pending = AwaitsRestart(tick, step.why, back=False)
    return Turn(replace(state, pending=pending), (SetTransport(TransportSettings(DEFAULT_CONGESTION_CONTROL, None)),), LoopStage.WAITING)


def answered(state: LoopState, pending: AwaitsRestart, event: TransportAnswer, now_s: float) -> Turn:
    """The mover's answer to either half."""
    tick = pending.tick
    if not isinstance(event, TransportApplied):
        return _not_answered(state, pending, event.message, now_s)
    if not pending.back:
        report = ReportSwitch(STUCK_CONTROL, ControlSwitch(DEFAULT_CONGESTION_CONTROL, undo=False, why=pending.why))
        wanted = SetTransport(TransportSettings(STUCK_CONTROL, None))
        return Turn(replace(state, pending=AwaitsRestart(tick, pending.why, back=True)), (report, wanted), LoopStage.WAITING)
    report = ReportSwitch(DEFAULT_CONGESTION_CONTROL, ControlSwitch(STUCK_CONTROL, undo=False, why="it starts up again"))
    state = monitoring.with_stuck(state, restart.restarted(state.monitor.stuck, now_s))
    return Turn(monitoring.begin_anew(monitoring.doubted(state), now_s), (report,), LoopStage.INTERRUPTED)


def _not_answered(state: LoopState, pending: AwaitsRestart, message: str, now_s: float) -> Turn:
    state = monitoring.with_stuck(state, restart.failed(state.monitor.stuck, now_s))
    if not pending.back:
        return Turn(state, (Warn(f"BBR is not set anew: {message}"),), LoopStage.DONE)
    warning = Warn(f"the congestion control stays {DEFAULT_CONGESTION_CONTROL} after a restart of {STUCK_CONTROL}: {message}")
    state, publication = monitoring.left_with(state, DEFAULT_CONGESTION_CONTROL, now_s, f"the mover did not take {STUCK_CONTROL} again")
    return Turn(monitoring.begin_anew(state, now_s), (warning, publication), LoopStage.INTERRUPTED)


def _least_bps(state: LoopState, tick: Tick) -> float | None:
    """Below it the transfer is stuck; None where it is not BBR beside two others that keeps it there."""
    monitor, seen, background = state.monitor, tick.seen, state.decision.background
    if monitor.in_force != STUCK_CONTROL or monitor.switching.trial is not None or state.limits.congestion_control is not None:
        return None
    if background is None or state.decision.reason is not DecisionReason.CLASSIFIED or background.likeliest[0] not in TWO_OTHERS:
        return None
    if tick.held is None or tick.held.lacks_data or at_cap(seen.goodput_bps, monitor.cap_bps):
        return None
    rtts_s = tick.stats.rtts_s
    # The goodput is that of all paths together.
    return restart.least_bps(state.history.capacity_bps, max(rtts_s, default=None), len(tick.stats.streams))
