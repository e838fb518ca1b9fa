"""The transfer's own settings: keeps send buffers from bounding it, searches its stream count, and publishes that."""

import statistics
from dataclasses import replace

from fairlead_advisor.decide import buffers, optimizer
from fairlead_advisor.decide.buffers import BufferChoice
from fairlead_advisor.decide.loop import losses, monitoring
from fairlead_advisor.decide.loop.messages import (
    Action,
    Publish,
    ReportBuffers,
    ReportStreams,
    SetTransport,
    Tick,
    TransportAnswer,
    TransportApplied,
    TransportRefused,
    Warn,
)
from fairlead_advisor.decide.loop.state import AwaitsBuffers, AwaitsStreams, BufferRequests, LoopStage, LoopState, Turn, is_alone
from fairlead_advisor.decide.model import DEFAULT_CONGESTION_CONTROL, DEFAULT_STREAMS, Decision
from fairlead_advisor.decide.rule import counted
from fairlead_advisor.decide.streams import has_company
from fairlead_advisor.decide.transfer import TransportSettings

BUFFER_PERIOD_S = 10.0
"""Between two requests for send buffers; one that failed is not repeated for REFUSED_S."""
REFUSED_S = 300.0
HELD_BACK_RATIO = 0.1
"""Of the time under way: from here on a buffer that is too small is worth a word."""
STREAMS_PERIOD_S = 10.0
"""Between two publications of a stream count."""
SEARCH_PERIOD_S = 60.0
"""Between two publications while a search goes on."""


def adapt_buffers(state: LoopState, tick: Tick) -> Turn:
    """Asks for larger send buffers if that is of use. What is needed follows from the goodput and the RTT under load, both measured."""
    host, rtts_s, seen = tick.stats.buffers, tick.stats.rtts_s, tick.seen
    requests = state.buffers
    if state.monitor.on_trial or host is None or not rtts_s or not seen.streams or seen.at_s < requests.not_before_s:
        return Turn(state, (), LoopStage.LOSSES)
    # The goodput is that of all paths together.
    choice = buffers.choose(buffers.needed_bytes(seen.goodput_bps, statistics.fmean(rtts_s), len(tick.stats.streams)), host)
    wanted = choice.in_force_bytes
    if wanted is not None and wanted != host.set_bytes:
        pending = AwaitsBuffers(tick, choice, host.set_bytes, wanted)
        return Turn(replace(state, pending=pending), (SetTransport(TransportSettings(None, None, wanted)),), LoopStage.WAITING)
    holds_back = tick.held is not None and tick.held.send_buffer_ratio >= HELD_BACK_RATIO
    if not choice.short or requests.warned or not holds_back:
        return Turn(state, (), LoopStage.LOSSES)
    state, publication = _with_buffers(replace(state, buffers=replace(requests, warned=True)), choice)
    return Turn(state, (Warn(choice.message), publication), LoopStage.LOSSES)


def buffers_answered(state: LoopState, pending: AwaitsBuffers, event: TransportAnswer) -> Turn:
    """The mover's answer to a request for other send buffers."""
    at_s = pending.tick.seen.at_s
    if not isinstance(event, TransportApplied):
        requests = BufferRequests(at_s + REFUSED_S, state.buffers.warned)
        return Turn(replace(state, buffers=requests), (Warn(f"the send buffers stay as they are: {event.message}"),), LoopStage.LOSSES)
    state = replace(state, buffers=BufferRequests(at_s + BUFFER_PERIOD_S, state.buffers.warned))
    choice = pending.choice
    report = ReportBuffers(pending.before, pending.after, choice.needed_bytes or pending.after, choice.message)
    state, publication = _with_buffers(state, choice)
    return Turn(state, (report, publication), LoopStage.LOSSES)


def _with_buffers(state: LoopState, choice: BufferChoice) -> tuple[LoopState, Action]:
    def with_choice(decision: Decision) -> Decision:
        return replace(
            decision,
            socket_buffer_bytes=choice.in_force_bytes,
            socket_buffer_needed_bytes=choice.needed_bytes,
            message=f"{decision.message}; {choice.message}",
        )

    state = replace(state, decision=with_choice(state.decision), published=with_choice(state.published))
    return state, Publish(state.path, state.published, state.applied)


def search_streams(state: LoopState, tick: Tick) -> Turn:
    """Takes a sample into the stream search. One thing at a time: the goodput must show which it was, but a trial comes to its end."""
    search = state.search
    if search is None:
        search = _search_from(state, state.decision.streams if state.applied else tick.seen.streams, tick.seen.at_s)
        state = replace(state, search=search)
    # A step that is left alone may stay for as long as the next paused probe must wait: the count answers to it meanwhile.
    waits = (state.monitor.alert and not state.monitor.left_alone) or losses.hold_search(state)
    if state.monitor.on_trial or (waits and search.trial is None):
        return Turn(state, (), LoopStage.PUBLICATION)
    step = optimizer.step(search, tick.seen)
    state, outcome = replace(state, search=step.state), step.outcome
    moved = outcome if outcome is not None and outcome.kept != outcome.base.streams else None
    if moved is not None:
        state = replace(state, why_streams=moved.why)
    reports = () if outcome is None else (ReportStreams(outcome),)
    if step.change is None:
        return Turn(_with_trial(state, tick, moved=moved), reports, LoopStage.PUBLICATION)
    pending = AwaitsStreams(tick, step.change, moved, LoopStage.PUBLICATION)
    return Turn(replace(state, pending=pending), (*reports, _set_streams(step.change)), LoopStage.WAITING)


def interrupt_streams(state: LoopState, tick: Tick, now_s: float) -> Turn:
    """Data were held back, or another congestion control is in force: what was being measured is measured anew."""
    state = replace(state, interrupted_s=now_s)
    if state.search is None:
        return Turn(state, (), LoopStage.DONE)
    company = has_company(state.decision.background, state.history)
    step = optimizer.resumed(optimizer.beside(state.search, now_s, company=company, shares=_shares(state)), now_s)
    state = replace(state, search=_search_from(state, step.state.streams, now_s) if state.monitor.on_trial else step.state)
    if step.change is None:
        return Turn(state, (), LoopStage.DONE)
    return Turn(
        replace(state, pending=AwaitsStreams(tick, step.change, None, LoopStage.DONE)), (_set_streams(step.change),), LoopStage.WAITING
    )


def streams_answered(state: LoopState, pending: AwaitsStreams, event: TransportAnswer) -> Turn:
    """The mover's answer to another stream count."""
    tick = pending.tick
    actions: tuple[Action, ...] = ()
    match event:
        case TransportApplied():
            pass
        case TransportRefused():
            open_now = tick.seen.streams
            actions = (Warn(f"the mover refused {pending.change.streams} streams, {open_now} stay: {event.message}"),)
            low = min(state.limits.streams_minimum, open_now)
            state = replace(state, limits=replace(state.limits, streams_minimum=low, streams_maximum=open_now))
            state = replace(state, search=_search_from(state, open_now, tick.seen.at_s))
        case _:
            # The count did not change, so that the search gives the trial up in its own time.
            actions = (Warn(f"the stream count is not changed: {event.message}"),)
    if pending.then is LoopStage.PUBLICATION:
        state = _with_trial(state, tick, moved=pending.moved)
    return Turn(state, actions, pending.then)


def _with_trial(state: LoopState, tick: Tick, *, moved: optimizer.CountTrial | None) -> LoopState:
    """Keeps our own changes from being taken for a change of the path."""
    search = state.search
    assert search is not None
    if moved is not None:
        state = monitoring.streams_moved(state, tick.seen.at_s, moved)
    return monitoring.streams_tried(state, tick.seen.at_s, search.wanted - search.streams)


def publish_streams(state: LoopState, tick: Tick) -> Turn:
    """Publishes the count that was kept last: each publication becomes a write to the cluster's API, so that a search under way has few."""
    search, now_s = state.search, tick.seen.at_s
    if search is None or not state.applied or search.streams == state.published.streams:
        return Turn(state, (), LoopStage.PROOF)
    period_s = STREAMS_PERIOD_S if search.phase is optimizer.SearchPhase.REST else SEARCH_PERIOD_S
    if now_s - state.published_s < period_s:
        return Turn(state, (), LoopStage.PROOF)
    why = f": {state.why_streams}" if state.why_streams else ""
    message = f"{state.decision.message}; now {counted(search.streams)}{why}"
    published = replace(state.decision, streams=search.streams, message=message)
    return Turn(replace(state, published=published, published_s=now_s), (Publish(state.path, published, applied=True),), LoopStage.PROOF)


def _set_streams(change: optimizer.CountChange) -> SetTransport:
    return SetTransport(TransportSettings(None, change.streams))


def _search_from(state: LoopState, streams: int, now_s: float) -> optimizer.StreamSearch:
    limits = state.limits
    company = has_company(state.decision.background, state.history)
    bounds = limits.streams_minimum, limits.streams_maximum
    return optimizer.start(streams, *bounds, now_s, state.floor_s, shares=_shares(state), company=company)


def _shares(state: LoopState) -> int | None:
    """How many streams are kept on a full path. BBR that losses called for where nobody is would leave no more with fewer."""
    fair = state.limits.fair_streams
    called_for = state.monitor.in_force != DEFAULT_CONGESTION_CONTROL and is_alone(state.decision)
    return fair if fair is None or not called_for else max(fair, DEFAULT_STREAMS)
