"""The background monitor: classifies while data flow, detects changes, probes in a pause where that is worth it, and switches."""

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

from fairlead_advisor.decide.background import Background, pool
from fairlead_advisor.decide.loop import alone, loaded
from fairlead_advisor.decide.loop.messages import (
    Action,
    Classified,
    Classify,
    ProbeFinished,
    ProbePaused,
    Publish,
    ReportProbe,
    ReportSwitch,
    ReportVerdict,
    SetTransport,
    Tick,
    TransportAnswer,
    TransportApplied,
    TransportFailed,
    Warn,
)
from fairlead_advisor.decide.loop.observe import has_queue, rtt_floor
from fairlead_advisor.decide.loop.state import (
    AwaitsDenial,
    AwaitsLoaded,
    AwaitsProbe,
    AwaitsReturn,
    AwaitsSwitch,
    LoopStage,
    LoopState,
    ProbeJudgement,
    Turn,
    doubt,
    is_alone,
    poolable,
)
from fairlead_advisor.decide.model import (
    DEFAULT_CONGESTION_CONTROL,
    Decision,
    DecisionReason,
    MeasuredGain,
    PathMeasurement,
    TriedControl,
)
from fairlead_advisor.decide.monitor import caps, change_detector, loaded_answers, probe_budget
from fairlead_advisor.decide.monitor.caps import CapRange
from fairlead_advisor.decide.monitor.change_detector import PathChange
from fairlead_advisor.decide.monitor.probe_budget import ProbeReason
from fairlead_advisor.decide.optimizer import FLOWING_BPS, CountTrial, Observation
from fairlead_advisor.decide.restart import StuckFlow
from fairlead_advisor.decide.rule import decide, instead
from fairlead_advisor.decide.streams import has_company
from fairlead_advisor.decide.switching import SwitchState, SwitchStep, SwitchVerdict, answer, prove
from fairlead_advisor.decide.transfer import TransportSettings

# The echo must answer now: a paused probe without answers would cost its time for nothing.
_LEAST_ANSWERED_RATIO = 0.5

# More streams may bring more goodput, more queue and more loss; less goodput is somebody else's doing.
_LESS_IN_SPITE_OF_MORE = 0.8

# Beyond it a trial shows that there was next to nothing before, and not how much better it is.
_MOST_RATIO = 4.0

# Flows with BBR take as long to settle beside one another, so that one that leaves need not show as a step.
_HIDDEN_AFTER_S = 60.0

# As long as a window: all of it is from after the step.
_DENIED_S = 10.0

# In one message, of what came to be in force and why: a path may be probed once, and proved and restarted for days.
_MOST_NOTES = 4

_ANYTHING = PathChange(probe_budget.OVERWHELMING, 1.0, "")


def await_data(state: LoopState, now_s: float) -> LoopState:
    """No data flow yet: listing and comparing files may take hours after the path was measured."""
    age = timedelta(seconds=now_s - state.answered_s)
    return begin_anew(_with(state, budget=replace(state.monitor.budget, began_s=now_s, doubt=doubt(state.decision, age))), now_s)


def follow(state: LoopState, tick: Tick) -> Turn:
    """Takes a sample in, and classifies beside the data when that is due."""
    state = _recapped(state, tick)
    if _is_hidden(state, tick) and tick.seen.at_s >= (state.monitor.switching.since_s or 0.0) + _HIDDEN_AFTER_S:
        # Whoever BBR was chosen for may have left, and our own jobs hide that.
        state = _with(state, budget=probe_budget.unanswered(state.monitor.budget))
    detector = change_detector.add_sample(state.monitor.detector, tick.sample)
    denied_from_s = math.inf if detector.change is None else state.monitor.denied_from_s
    state = _with(state, detector=detector, alert=False, left_alone=False, denied_from_s=denied_from_s)
    if not _can_act_on_loaded(state, tick) or state.monitor.loaded is None:
        return _weigh(state, tick, "")
    classification, due = loaded.due(state.monitor.loaded, tick.seen.at_s, tick.seen.streams)
    state = _with(state, loaded=classification)
    if due:
        return Turn(replace(state, pending=AwaitsLoaded(tick)), (Classify(classification.window_s),), LoopStage.WAITING)
    return _weigh(state, tick, loaded.contradiction(classification, state.decision.background))


def classified(state: LoopState, tick: Tick, event: Classified) -> Turn:
    """The answer of the periodic loaded classification."""
    assert state.monitor.loaded is not None
    classification = loaded.answered(state.monitor.loaded, tick.seen.at_s, event.background, failed=event.failed)
    state = _with(state, loaded=classification)
    if loaded_answers.hears_nobody(classification.answers):
        # Whoever BBR was chosen for may have left before anything could show it.
        state = _with(state, budget=probe_budget.unanswered(state.monitor.budget))
    return _weigh(state, tick, loaded.contradiction(classification, state.decision.background))


def _can_act_on_loaded(state: LoopState, tick: Tick) -> bool:
    """Whether a paused probe could follow from loaded classification."""
    return state.equipment.monitored and tick.stats.quiet_s is not None and state.limits.congestion_control is None


def _recapped(state: LoopState, tick: Tick) -> LoopState:
    """Begins anew where another cap makes another transfer of it; a cap that is rewritten to no effect must not blind the detector."""
    monitor, cap_bps = state.monitor, tick.stats.cap_bps
    if cap_bps == monitor.cap_bps:
        return state
    span = caps.moved(monitor.caps, monitor.cap_bps, cap_bps, monitor.detector.goodput_bps or tick.seen.goodput_bps)
    if not span.wide:
        return _with(state, caps=span, cap_bps=cap_bps)
    return _with(doubted(state), caps=CapRange(), cap_bps=cap_bps, recapped=True, detector=_new_detector(state, tick.seen.at_s))


def _weigh(state: LoopState, tick: Tick, contradicted: str) -> Turn:
    """Whether to end a switch's trial, or to probe; `contradicted` says what loaded classification contradicts."""
    if _has_all(state):
        contradicted = ""
    if state.monitor.switching.trial is not None:
        return _prove(state, tick)
    if state.monitor.on_trial:
        return Turn(state, (), LoopStage.BUFFERS)
    able, actions = _can_probe(state, tick)
    if actions:
        state = _with(state, warned=True)
    if not able:
        return Turn(state, actions, LoopStage.BUFFERS)
    change = state.monitor.detector.change
    if _joins(state, tick):
        return _probe_if(state, tick, ProbeReason.CALLED, change, contradicted)
    if state.monitor.tries_more_streams and not _is_in_spite_of_more(change):
        return Turn(state, (), LoopStage.BUFFERS)
    hidden = _is_hidden(state, tick)
    why = probe_budget.due(state.monitor.budget, tick.seen.at_s, change, contradicted=bool(contradicted), hidden=hidden)
    if why is not ProbeReason.CHANGED or change is None:
        return _probe_if(state, tick, why, change, contradicted)
    classification = state.monitor.loaded
    if classification is not None and loaded.may_deny(classification, tick.seen.at_s, tick.seen.streams):
        return Turn(
            replace(state, pending=AwaitsDenial(tick, contradicted, change)), (Classify(classification.shortest_s),), LoopStage.WAITING
        )
    return _probe_if(_with(state, denied_from_s=math.inf), tick, why, change, contradicted)


def _has_all(state: LoopState) -> bool:
    """Whether CUBIC still has what it was shown to have of the path alone, so that no BBR flow has come."""
    monitor = state.monitor
    # None while a stream count is tried and right after it: what is lacking then is our own doing.
    goodput_bps = monitor.detector.goodput_bps or monitor.alone_bps
    return monitor.in_force == DEFAULT_CONGESTION_CONTROL and alone.is_held(monitor.alone_bps, goodput_bps)


def can_join(state: LoopState) -> bool:
    """Whether this job takes paused probes, and so may pause when another one of ours does, which would take its flows for somebody's."""
    return state.equipment.monitored and state.equipment.windows_s is not None and state.limits.congestion_control is None


def called(state: LoopState, *, now: bool) -> LoopState:
    """What is owed after a sample: one with BBR makes up for a call that it cannot follow at once, or the others never know who it is."""
    return _with(state, owes_pause=has_own_bbr(state) and (state.monitor.owes_pause or now))


def _joins(state: LoopState, tick: Tick) -> bool:
    """Whether to pause with the others now. One with CUBIC that cannot is left out: its flow is seldom taken for a reason to keep BBR."""
    monitor, holds_others = state.monitor, has_own_bbr(state)
    if not tick.called and not monitor.owes_pause:
        return False
    # What a switch from CUBIC is compared with is no window that still grows.
    ready = holds_others or monitor.detector.settled
    return ready and probe_budget.joins(monitor.budget, tick.seen.at_s, on_credit=holds_others and tick.called)


def has_own_bbr(state: LoopState) -> bool:
    """Whether this job has BBR that a paused probe may take away: while it flows, other jobs of ours keep theirs for it."""
    return can_join(state) and state.monitor.in_force == "bbr"


def _is_hidden(state: LoopState, tick: Tick) -> bool:
    """Whether other jobs of ours hide who else is there: their BBR and this one's look like somebody's."""
    return tick.beside_own_bbr and has_own_bbr(state)


def _is_in_spite_of_more(change: PathChange | None) -> bool:
    """Whether more streams of our own do not explain the change."""
    return change is not None and change.goodput_ratio <= _LESS_IN_SPITE_OF_MORE


def _can_probe(state: LoopState, tick: Tick) -> tuple[bool, tuple[Action, ...]]:
    """Whether a paused probe is possible, with a warning the first time that only the mover prevents it."""
    if not can_join(state):
        return False, ()
    if tick.stats.quiet_s is None:
        warning = Warn("the mover cannot hold its data back: what was chosen before the data stays")
        return False, () if state.monitor.warned else (warning,)
    answers = tick.answered_ratio >= _LEAST_ANSWERED_RATIO
    return answers and tick.stats.quiet_s == 0 and tick.seen.at_s >= state.monitor.switching.stays_until_s, ()


def denial_classified(state: LoopState, pending: AwaitsDenial, event: Classified) -> Turn:
    """Whether loaded classification contradicts a detected change; a change that is denied for long becomes the usual."""
    assert state.monitor.loaded is not None
    tick, at_s = pending.tick, pending.tick.seen.at_s
    classification, denied = loaded.denied(state.monitor.loaded, at_s, tick.seen.streams, event.background, failed=event.failed)
    state = _with(state, loaded=classification)
    if not denied or _is_hidden(state, tick):
        # The BBR that is there may be that of another job of ours, which pauses too.
        return _probe_if(_with(state, denied_from_s=math.inf), tick, ProbeReason.CHANGED, pending.change, pending.contradicted)
    denied_from_s = min(state.monitor.denied_from_s, at_s)
    state = _with(state, denied_from_s=denied_from_s)
    if at_s - denied_from_s >= _DENIED_S:
        state = _with(state, denied_from_s=math.inf, detector=change_detector.resume(state.monitor.detector, at_s, state.floor_s))
    why = probe_budget.due(state.monitor.budget, at_s, None, contradicted=bool(pending.contradicted))
    return _probe_if(state, tick, why, None, pending.contradicted, denied=True)


def _probe_if(
    state: LoopState, tick: Tick, why: ProbeReason | None, change: PathChange | None, contradicted: str, *, denied: bool = False
) -> Turn:
    detector = state.monitor.detector
    if why is ProbeReason.OLD and not detector.settled:
        # A switch is compared with what there was before it: not with windows that still grow.
        return Turn(state, (), LoopStage.BUFFERS)
    if why is None:
        # A single sample that stands out may be the beginning of what would be worth a probe.
        alert = detector.hint and probe_budget.due(state.monitor.budget, tick.seen.at_s, _ANYTHING) is not None
        return Turn(_with(state, alert=alert, left_alone=denied or change is not None), (), LoopStage.BUFFERS)
    story = contradicted if why is ProbeReason.CONTRADICTED else change.description if change else str(why)
    pending = AwaitsProbe(tick, why, story, _had_bps(detector, change, tick.seen))
    # Whoever called pauses now: what is made up for later needs a pause of theirs again.
    probe = ProbePaused(calls=not tick.called)
    return Turn(replace(_with(state, unanswered=False, owes_pause=False), pending=pending), (probe,), LoopStage.WAITING)


def probed(state: LoopState, pending: AwaitsProbe, event: ProbeFinished, now_s: float) -> Turn:
    """Judges a paused probe, and switches if its answer chooses another congestion control."""
    state, background = _pooled(state, pending.why, event)
    decision: Decision | None = None
    step = SwitchStep(state.monitor.switching)
    if background is not None and event.path is not None:
        path = event.path
        # What follows from it sets the congestion control alone: larger buffers are asked for by what the transfer has.
        decision = decide(path, state.limits, background, state.history, sets_buffers=False)
        state = _with_floor(state, path, alone=decision.reason is DecisionReason.CLASSIFIED and not has_company(background, state.history))
        if decision.reason is DecisionReason.CLASSIFIED:
            because = f"a quiet look, since {pending.why}{f': {pending.story}' if pending.story != pending.why else ''}"
            step = answer(state.monitor.switching, now_s, decision.congestion_control, pending.goodput_bps, because)
            state = replace(state, path=path)
    judgement = ProbeJudgement(
        pending.tick, pending.why, pending.story, event, now_s, state.monitor.detector.change, background, decision, step
    )
    if step.switch is None:
        return _conclude(state, judgement, (), news=False)
    wanted = TransportSettings(step.switch.to, None)
    return Turn(replace(state, pending=AwaitsSwitch(judgement)), (SetTransport(wanted),), LoopStage.WAITING)


def _with_floor(state: LoopState, path: PathMeasurement, *, alone: bool) -> LoopState:
    """The least RTT after a paused probe: `alone` there is no queue in what it found, so that more than before is another route."""
    floor_s, found_s = state.floor_s, path.rtt_minimum_s
    if alone and floor_s is not None and found_s is not None and has_queue(found_s, floor_s):
        # The kernel keeps the minimum of the old route for minutes.
        return replace(state, floor_s=found_s, floor_by_echo=True)
    return replace(state, floor_s=rtt_floor([floor_s, found_s], (), ()))


def switch_answered(state: LoopState, pending: AwaitsSwitch, event: TransportAnswer) -> Turn:
    """The mover's answer to the switch that followed from a paused probe."""
    state, actions, news = switched(state, pending.judgement.step, event)
    return _conclude(state, pending.judgement, actions, news=news)


def _pooled(state: LoopState, why: ProbeReason, event: ProbeFinished) -> tuple[LoopState, Background | None]:
    """The answer, pooled with earlier unsure ones for the same background: the second step for a path that one window cannot tell."""
    found = event.background
    if found is None:
        return state, None
    # Loaded classification is of the same background, which the last answer was wrong or unsure of.
    earlier = state.monitor.unsure if why in (ProbeReason.UNSURE, ProbeReason.CONTRADICTED) else ()
    together = pool((*earlier, found))
    return _with(state, unsure=(*earlier, *poolable(found))[-2:] if together.abstained else ()), together


def _conclude(state: LoopState, judgement: ProbeJudgement, reports: tuple[Action, ...], *, news: bool) -> Turn:
    """Pays for the probe, reports it, and publishes what follows from it."""
    decision, at_s, finished = judgement.decision, judgement.at_s, judgement.finished
    sure = None if decision is None else decision.reason is DecisionReason.CLASSIFIED
    cost_s = probe_budget.price_s(finished.paused_s, judgement.change)
    # A sure answer that could not be followed is asked for again: no step may ever come that shows it.
    barred_until_s = None if decision is None else _barred_until_s(state, decision.congestion_control, at_s)
    budget = probe_budget.probed(state.monitor.budget, judgement.why, at_s, cost_s, news=news, sure=sure, barred_until_s=barred_until_s)
    state = _with(state, budget=budget)
    report = ReportProbe(str(judgement.why), judgement.story, finished.paused_s, judgement.background, bool(sure), news, finished.failure)
    actions: tuple[Action, ...] = (*reports, report)
    in_force = state.monitor.in_force
    if decision is not None and sure:
        other, switch = decision.congestion_control, judgement.step.switch
        stays = "it stays" if other == in_force else f"it stays for now instead of {other}"
        because = switch.why if news and switch else f"{stays} after a quiet look"
        state, publication = _published(state, decision, because=because, why_not=_why_not(state, other, at_s))
        actions += (publication,)
    elif decision is not None and finished.path is not None and state.decision.reason is DecisionReason.KNOWN:
        # Doubt of our own about what an earlier transfer was sure of: the next transfer must not be given the latter.
        state = replace(state, path=finished.path)
        because = "it stays after a quiet look that left doubt"
        state, publication = _published(state, decision, because=because, why_not="an unsure answer alters nothing")
        actions += (publication,)
    return Turn(begin_anew(state, at_s) if news else _resumed(state, at_s), actions, LoopStage.INTERRUPTED)


def switched(state: LoopState, step: SwitchStep, event: TransportAnswer) -> tuple[LoopState, tuple[Action, ...], bool]:
    """The mover's answer to a switch: what it refuses or does not answer is as if it had not been decided."""
    before, switch = state.monitor.in_force, step.switch
    assert switch is not None
    if not isinstance(event, TransportApplied):
        unanswered = isinstance(event, TransportFailed) and event.retryable
        return _with(state, unanswered=unanswered), (Warn(f"the congestion control stays {before}: {event.message}"),), False
    return _with(state, switching=step.state, recapped=False, alone_bps=0.0), (ReportSwitch(before, switch),), True


def _prove(state: LoopState, tick: Tick) -> Turn:
    """Takes a stretch of a switch's trial in."""
    seen = tick.seen
    step = prove(state.monitor.switching, seen.at_s, seen.seconds, seen.goodput_bps, caps.reachable_bps(state.monitor.cap_bps))
    if step.switch is not None:
        wanted = TransportSettings(step.switch.to, None)
        return Turn(replace(state, pending=AwaitsReturn(tick, step)), (SetTransport(wanted),), LoopStage.WAITING)
    recapped, trial = state.monitor.recapped, state.monitor.switching.trial
    state, actions = _judged(_with(state, switching=step.state), step.verdict, recapped=recapped)
    if step.verdict is not None and trial is not None and trial.is_proof:
        objection = f"{step.verdict.congestion_control} had {step.verdict.goodput_ratio:.0%} of its goodput, so that the others are no BBR"
        state = _asked_again(_with(state, objections={**state.monitor.objections, trial.before: objection}), trial.before)
    return Turn(state, actions, LoopStage.BUFFERS)


def return_answered(state: LoopState, pending: AwaitsReturn, event: TransportAnswer) -> Turn:
    """The mover's answer to the switch that ends a trial."""
    recapped, ended, switch = state.monitor.recapped, state.monitor.switching.trial, pending.step.switch
    taken_back = state.monitor.in_force
    assert ended is not None and switch is not None
    state, reports, done = switched(state, pending.step, event)
    if not done:
        # The trial goes on, and is judged again with the next stretch.
        return Turn(state, reports, LoopStage.BUFFERS)
    state, judged = _judged(state, pending.step.verdict, recapped=recapped)
    # What the classifier answered stands beside what was measured against it.
    objections = {**state.monitor.objections, state.decision.congestion_control: switch.why}
    state = _with(state, objections=objections)
    if is_alone(state.decision):
        state = with_loses_alone(state, switch.to != DEFAULT_CONGESTION_CONTROL)
    if ended.taken_back:
        state = _followed(state)
    elif not (ended.is_proof or ended.is_try_out):
        state = _asked_again(state, taken_back)
    state, publication = now_with(state, switch.why)
    return Turn(begin_anew(state, pending.tick.seen.at_s), (*reports, *judged, publication), LoopStage.INTERRUPTED)


def _asked_again(state: LoopState, barred: str) -> LoopState:
    """The last answer was for what a trial has just `barred`: no step may ever come that shows it, so it is asked for when the bar ends."""
    budget = state.monitor.budget
    if budget.doubt is not None:
        # An older doubt waits for less.
        return state
    return _with(state, budget=replace(budget, doubt=ProbeReason.BARRED, doubts_from_s=state.monitor.switching.barred[barred]))


def _followed(state: LoopState) -> LoopState:
    """What a trial had taken back is in force again, as the last answer has it."""
    budget = state.monitor.budget
    return _with(state, budget=replace(budget, doubt=None)) if budget.doubt is ProbeReason.BARRED else state


def _judged(state: LoopState, verdict: SwitchVerdict | None, *, recapped: bool) -> tuple[LoopState, tuple[Action, ...]]:
    """Remembers what a switch was worth, unless another cap made another transfer of it meanwhile."""
    if verdict is None:
        return state, ()
    return state if recapped else _remembered(state, verdict), (ReportVerdict(verdict),)


def _remembered(state: LoopState, verdict: SwitchVerdict) -> LoopState:
    background, history = state.decision.background, state.history
    # A switch back to the safe default may give share away on purpose: it does not measure what the other one is worth.
    # What it has alone says nothing of what it leaves to whoever comes.
    if verdict.before != DEFAULT_CONGESTION_CONTROL or background is None or is_alone(state.decision):
        return state
    tried = TriedControl(verdict.congestion_control, background.has_bbr)
    old = history.measured.get(tried, MeasuredGain(0, 1.0))
    mean = (old.count * old.goodput_ratio + min(verdict.goodput_ratio, _MOST_RATIO)) / (old.count + 1)
    return replace(state, history=replace(history, measured={**history.measured, tried: MeasuredGain(old.count + 1, mean)}))


def _barred_until_s(state: LoopState, wanted: str, now_s: float) -> float | None:
    """Until when an answer for `wanted` is not followed; None if it is, or if the mover has refused it for good."""
    if wanted == state.monitor.in_force:
        return None
    barred_until_s = state.monitor.switching.barred.get(wanted, 0.0)
    return barred_until_s if barred_until_s > now_s else now_s if state.monitor.unanswered else None


def _why_not(state: LoopState, wanted: str, now_s: float) -> str:
    """Why a sure answer for `wanted` is not followed."""
    if state.monitor.switching.barred.get(wanted, 0.0) > now_s:
        return f"barred for a while: {state.monitor.objections.get(wanted, 'it was worse when it was tried')}"
    return "the mover did not take it"


def _published(state: LoopState, decision: Decision, *, because: str, why_not: str, measured: bool = True) -> tuple[LoopState, Action]:
    """A new decision: `decision` with the congestion control that is in force, whatever it chose."""
    in_force = state.monitor.in_force
    note = f"; {in_force}: {because}"
    notes = (note,) if measured else (*state.notes, note)
    message = decision.message + note
    for old in notes[:-_MOST_NOTES]:
        message = message.replace(old, "", 1)
    # Without a known capacity a paused probe knows no need: what the transfer itself measured stays.
    needed = decision.socket_buffer_needed_bytes or state.published.socket_buffer_needed_bytes
    stands = instead(decision, in_force, why_not)
    stands = replace(stands, streams=state.published.streams, socket_buffer_needed_bytes=needed, message=message)
    state = replace(state, decision=stands, published=stands, why_streams="", notes=notes[-_MOST_NOTES:])
    return state, Publish(state.path, stands, state.applied, anew=True, measured=measured)


def begin_anew(state: LoopState, now_s: float) -> LoopState:
    """Another transport is in force: neither the earlier samples nor the earlier answers are of any use."""
    classification = state.monitor.loaded
    if classification is not None:
        classification = loaded.begin_anew(classification, now_s, state.monitor.in_force)
    return _with(state, detector=_new_detector(state, now_s), loaded=classification)


def streams_moved(state: LoopState, now_s: float, trial: CountTrial) -> LoopState:
    """Another stream count stands than before, by its `trial`: the samples before it are no reference any more.

    Fewer streams with CUBIC that have what there was before are no step that is awaited: who comes next is compared with that.
    """
    state = _with(doubted(state), alone_bps=alone.shown_bps(trial, state.monitor.cap_bps) or state.monitor.alone_bps)
    fewer = trial.kept < trial.base.streams and state.monitor.in_force == DEFAULT_CONGESTION_CONTROL
    if fewer and change_detector.is_usual(state.monitor.detector, trial.tried.goodput_bps):
        return state
    return begin_anew(_with(state, tries_more_streams=False), now_s)


def streams_tried(state: LoopState, now_s: float, more: int) -> LoopState:
    """So many `more` streams than stand are being tried, or fewer; 0 when none are."""
    if more < 0 or (state.monitor.tries_more_streams and more == 0):
        state = doubted(state)
        # Streams that leave take their windows along, which looks like somebody who came; and so does the queue that more of them left.
        state = _with(state, detector=change_detector.pause(state.monitor.detector, now_s))
    return _with(state, tries_more_streams=more > 0)


def doubted(state: LoopState) -> LoopState:
    """Leaves a doubt for a change that is about to be forgotten unprobed, unless it is being denied or may be our own doing."""
    monitor = state.monitor
    change = monitor.detector.change
    is_ours = monitor.tries_more_streams and not _is_in_spite_of_more(change)
    if change is None or is_ours or monitor.denied_from_s < math.inf:
        return state
    return _with(state, budget=probe_budget.unanswered(monitor.budget))


def with_proof(state: LoopState, from_s: float) -> LoopState:
    """The same with BBR put to the proof not before `from_s`."""
    return _with(state, proof_from_s=from_s)


def tries_out(state: LoopState) -> bool:
    """Whether a switch that no answer chose is on trial."""
    trial = state.monitor.switching.trial
    return trial is not None and trial.is_try_out


def with_loses_alone(state: LoopState, loses_alone: bool) -> LoopState:
    """The same with what own losses say of the path when nobody else is there."""
    return replace(state, history=replace(state.history, loses_alone=loses_alone))


def with_stuck(state: LoopState, stuck: StuckFlow) -> LoopState:
    """The same with another account of a flow that has next to nothing."""
    return _with(state, stuck=stuck)


def now_with(state: LoopState, why: str) -> tuple[LoopState, Action]:
    """What is in force stands in place of what was decided, by what was measured before."""
    return _published(state, state.decision, because=why, why_not=why, measured=False)


def left_with(state: LoopState, in_force: str, now_s: float, why: str) -> tuple[LoopState, Action]:
    """`in_force` is what the sockets were left with; the path is probed again once that has been earned."""
    if tries_out(state):
        state = with_loses_alone(state, False)
    switching = SwitchState(in_force, now_s, barred=state.monitor.switching.barred)
    budget = replace(state.monitor.budget, doubt=ProbeReason.BARRED, doubts_from_s=now_s)
    state = _with(state, switching=switching, budget=state.monitor.budget if state.limits.congestion_control is not None else budget)
    return now_with(state, why)


def follow_sockets(state: LoopState, tick: Tick) -> tuple[LoopState, tuple[Action, ...]]:
    """Publishes what the sockets have if that is twice in a row not what was set.

    A protocol that did not get through took its congestion control along, or the mover switched and its answer was lost. QUIC switches with
    the next packet, so that only samples with data tell.
    """
    if tick.seen.goodput_bps < FLOWING_BPS:
        return state, ()
    in_force, controls = state.monitor.in_force, tick.stats.congestion_controls
    found = max(controls, key=controls.__getitem__, default=in_force)
    if controls[found] <= controls[in_force]:
        return _with(state, strayed_to=""), ()
    if found != state.monitor.strayed_to:
        return _with(state, strayed_to=found), ()
    state = _with(state, strayed_to="", stuck=replace(state.monitor.stuck, trial=None))
    state, publication = left_with(state, found, tick.seen.at_s, f"the sockets have it instead of {in_force}")
    return begin_anew(state, tick.seen.at_s), (publication,)


def _resumed(state: LoopState, now_s: float) -> LoopState:
    classification = state.monitor.loaded
    known = replace(state.monitor.detector, awaited=_awaited(state))
    return _with(
        state,
        detector=change_detector.resume(known, now_s, state.floor_s),
        loaded=None if classification is None else loaded.resume(classification, now_s),
    )


def _new_detector(state: LoopState, now_s: float) -> change_detector.ChangeDetector:
    return change_detector.begin(now_s, state.floor_s, _awaited(state))


def _awaited(state: LoopState) -> frozenset[change_detector.Step]:
    """Where packets are lost without a queue BBR is for a path that is empty: nobody can leave that, and who comes alters the choice.

    Beside others, with CUBIC, both do.
    """
    in_force = state.monitor.in_force
    if not (state.history.loses_alone and state.limits.spares_others):
        return probe_budget.awaited(in_force)
    if in_force == "bbr" and is_alone(state.decision):
        return probe_budget.awaited(DEFAULT_CONGESTION_CONTROL)
    return probe_budget.awaited(in_force, either_way=in_force == DEFAULT_CONGESTION_CONTROL)


def _with(state: LoopState, **changes: Any) -> LoopState:
    return replace(state, monitor=replace(state.monitor, **changes))


def _had_bps(known: change_detector.ChangeDetector, change: PathChange | None, seen: Observation) -> float:
    """What a switch is compared with: while somebody pushes in, the mean of the last seconds is of a time that is over."""
    mean_bps = known.goodput_bps or seen.goodput_bps
    falls = change is not None and change.goodput_ratio < 1 and seen.goodput_bps >= FLOWING_BPS
    return min(mean_bps, seen.goodput_bps) if falls else mean_bps
