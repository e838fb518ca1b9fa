"""The machine: takes an event, returns the next state and what is to be done."""

from dataclasses import replace

from fairlead_advisor.decide.loop import losses, monitoring, proving, restarting, sending
from fairlead_advisor.decide.loop.messages import (
    Action,
    Classified,
    Event,
    ProbeFinished,
    Publish,
    ReportObservation,
    Sampled,
    SamplingFailed,
    Tick,
    TransportApplied,
    TransportFailed,
    TransportRefused,
)
from fairlead_advisor.decide.loop.observe import HeldBack, StatsReading, held_back, limits_now, observe, path_sample, rtt_floor
from fairlead_advisor.decide.loop.state import (
    AwaitsBuffers,
    AwaitsDenial,
    AwaitsLoaded,
    AwaitsProbe,
    AwaitsProof,
    AwaitsRestart,
    AwaitsReturn,
    AwaitsStreams,
    AwaitsSwitch,
    LoopStage,
    LoopState,
    Totals,
    Turn,
)
from fairlead_advisor.decide.model import Decision, TransferSummary
from fairlead_advisor.decide.monitor.caps import at_cap
from fairlead_advisor.decide.optimizer import Observation
from fairlead_advisor.decide.streams import Optimum, fit_coefficient

PERIOD_S = 1.0
REST_PERIOD_S = 3.0
"""Between two samples: while something is tried or may have changed, and while nothing does."""

TRANSFERRING = "Transferring"


def handle(state: LoopState, event: Event, now_s: float) -> tuple[LoopState, tuple[Action, ...]]:
    """The next state, and the actions in their order. Raises ValueError for an event that is not the awaited one."""
    pending = state.pending
    state = replace(state, pending=None)
    match pending, event:
        case None, SamplingFailed():
            return replace(state, before=None), ()
        case None, Sampled():
            return _sampled(state, event, now_s)
        case AwaitsLoaded(), Classified():
            turn = monitoring.classified(state, pending.tick, event)
        case AwaitsDenial(), Classified():
            turn = monitoring.denial_classified(state, pending, event)
        case AwaitsProbe(), ProbeFinished():
            turn = monitoring.probed(state, pending, event, now_s)
        case AwaitsSwitch(), TransportApplied() | TransportRefused() | TransportFailed():
            turn = monitoring.switch_answered(state, pending, event)
        case AwaitsReturn(), TransportApplied() | TransportRefused() | TransportFailed():
            turn = monitoring.return_answered(state, pending, event)
        case AwaitsBuffers(), TransportApplied() | TransportRefused() | TransportFailed():
            turn = sending.buffers_answered(state, pending, event)
        case AwaitsStreams(), TransportApplied() | TransportRefused() | TransportFailed():
            turn = sending.streams_answered(state, pending, event)
        case AwaitsProof(), TransportApplied() | TransportRefused() | TransportFailed():
            turn = proving.answered(state, pending, event)
        case AwaitsRestart(), TransportApplied() | TransportRefused() | TransportFailed():
            turn = restarting.answered(state, pending, event, now_s)
        case _:
            raise ValueError(f"{type(event).__name__} does not answer {type(pending).__name__}")
    return _through_stages(turn, pending.tick, now_s)


def _sampled(state: LoopState, event: Sampled, now_s: float) -> tuple[LoopState, tuple[Action, ...]]:
    stats = event.stats
    if stats.stage != TRANSFERRING or not stats.streams:
        return replace(state if state.flows else monitoring.await_data(state, now_s), before=None), ()
    sample, before = StatsReading(now_s, stats), state.before
    state = replace(state, flows=True, before=sample, limits=limits_now(state.limits, stats))
    if before is None or sample.at_s <= before.at_s:
        return state, ()
    # The echo is of one path, and which of several that is nobody says.
    by_echo = state.floor_by_echo or (bool(event.rtts_ms) and stats.has_several_paths)
    state = replace(state, floor_s=rtt_floor([state.floor_s], () if by_echo else stats.streams, event.rtts_ms), floor_by_echo=by_echo)
    seen = observe(before, sample, event.rtts_ms, state.floor_s, allocated=state.limits.allocated)
    held = held_back(before, sample)
    state = replace(state, totals=_with_interval(state.totals, seen, held, stats.cap_bps))
    state, news = _of_protocol(state)
    state = monitoring.called(state, now=event.called)
    report = (ReportObservation(seen, held), *news)
    if before.at_s < state.interrupted_s or before.stats.is_quiet or stats.is_quiet:
        # Counted, but nothing to learn from: for a part of it data stood still.
        return state, report
    tick = Tick(stats, seen, held, path_sample(seen, event.rtts_ms), event.answered_ratio, event.called, event.beside_own_bbr)
    state, found = monitoring.follow_sockets(state, tick)
    return _through_stages(Turn(state, (*report, *found), LoopStage.INTERRUPTED if found else LoopStage.MONITOR), tick, now_s)


def _of_protocol(state: LoopState) -> tuple[LoopState, tuple[Action, ...]]:
    """Publishes that another protocol carries the data than was decided for: the one that was asked for does not get through."""
    protocol, before = state.limits.protocol, state.published.protocol
    if protocol == before:
        return state, ()

    def now(decision: Decision) -> Decision:
        message = f"{decision.message}; the data go over {protocol}, as {before} does not get through"
        return replace(decision, protocol=protocol, message=message)

    state = replace(state, decision=now(state.decision), published=now(state.published))
    return state, (Publish(state.path, state.published, state.applied),)


def _with_interval(totals: Totals, seen: Observation, held: HeldBack | None, cap_bps: float | None) -> Totals:
    return Totals(
        totals.bits + seen.goodput_bps * seen.seconds,
        totals.seconds + seen.seconds,
        totals.held if held is None else held if totals.held is None else totals.held + held,
        totals.capped_s + (seen.seconds if at_cap(seen.goodput_bps, cap_bps) else 0.0),
    )


def _through_stages(turn: Turn, tick: Tick, now_s: float) -> tuple[LoopState, tuple[Action, ...]]:
    state, actions, stage = turn
    while stage not in (LoopStage.WAITING, LoopStage.DONE):
        state, more, stage = _stage(stage, state, tick, now_s)
        actions += more
    return state, actions


def _stage(stage: LoopStage, state: LoopState, tick: Tick, now_s: float) -> Turn:
    match stage:
        case LoopStage.MONITOR:
            return monitoring.follow(state, tick)
        case LoopStage.BUFFERS:
            return sending.adapt_buffers(state, tick)
        case LoopStage.LOSSES:
            return losses.watch(state, tick)
        case LoopStage.STREAMS:
            return sending.search_streams(state, tick)
        case LoopStage.PUBLICATION:
            return sending.publish_streams(state, tick)
        case LoopStage.PROOF:
            return proving.watch(state, tick)
        case LoopStage.RESTART:
            return restarting.watch(state, tick)
        case LoopStage.INTERRUPTED:
            return sending.interrupt_streams(state, tick, now_s)
        case _:
            raise AssertionError(f"{stage} is no stage to pass")


def sampling_period_s(state: LoopState) -> float:
    """Until the next sample."""
    monitor = state.monitor
    rests = state.search is not None and state.search.rests and not monitor.alert and not monitor.on_trial
    # Until there is something to compare with, whoever comes becomes a part of it.
    return REST_PERIOD_S if rests and monitor.detector.knows_usual else PERIOD_S


def joins_others(state: LoopState) -> bool:
    """Whether this job pauses when another one of ours does; without data it does not."""
    return state.before is not None and monitoring.can_join(state)


def has_own_bbr(state: LoopState) -> bool:
    """Whether this job may be what keeps another one of ours in BBR; without data it is not."""
    return state.before is not None and monitoring.has_own_bbr(state)


def summary(state: LoopState) -> TransferSummary:
    """The transfer so far as a whole."""
    totals, search, floor_s = state.totals, state.search, state.floor_s
    goodput_bps = totals.bits / totals.seconds if totals.seconds else None
    coefficient = None
    if search is not None and search.settled and goodput_bps and floor_s:
        coefficient = fit_coefficient([Optimum(search.streams, goodput_bps, floor_s)])
    held = totals.held
    return TransferSummary(
        state.monitor.in_force,
        search.streams if search else state.decision.streams,
        goodput_bps,
        totals.seconds,
        coefficient,
        send_buffer_limited_ratio=None if held is None else held.send_buffer_ratio,
        receive_window_limited_ratio=None if held is None else held.receive_window_ratio,
        source_limited_ratio=None if held is None else held.idle_ratio,
        cap_limited_ratio=totals.capped_s / totals.seconds if totals.seconds else None,
    )
