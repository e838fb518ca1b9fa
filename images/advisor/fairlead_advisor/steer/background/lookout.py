"""Watches for a changed background, looks at the path in quiet when that is worth it, and switches on a sure answer."""

import logging
import math
from dataclasses import replace
from datetime import datetime, timedelta

from fairlead_advisor.decide.background import Background, pool
from fairlead_advisor.decide.looking import caps, policy, scene
from fairlead_advisor.decide.looking.caps import Span
from fairlead_advisor.decide.looking.policy import Account, Why
from fairlead_advisor.decide.looking.scene import Change
from fairlead_advisor.decide.model import DEFAULT_CONGESTION_CONTROL, Decision, Measured, PathMeasurement, Reason, Tried
from fairlead_advisor.decide.optimizer import FLOWING_BPS, Observation
from fairlead_advisor.decide.rule import decide, instead
from fairlead_advisor.decide.switching import SwitchState, SwitchStep, Verdict, answer, prove
from fairlead_advisor.errors import AdvisorError
from fairlead_advisor.probe.summary import summarize
from fairlead_advisor.record.board import Board, Look
from fairlead_advisor.steer.background.listening import Listener
from fairlead_advisor.steer.background.quiet import Looked, quiet_look
from fairlead_advisor.steer.course import Course
from fairlead_advisor.steer.effects import Effects, MoverClient, PathMonitor
from fairlead_advisor.steer.mover import Peer, Stats, Transport
from fairlead_advisor.steer.observe import measurement, sight

# The echo must answer now: a look without answers would cost its time for nothing.
_ANSWERS_WITHIN_S = 10.0
_LEAST_ANSWERED_RATIO = 0.5

# More streams may bring more goodput, more queue and more loss; less goodput is somebody else's doing.
_LESS_IN_SPITE_OF_MORE = 0.8

OLD = timedelta(minutes=5)
"""From here on what an earlier transfer saw is no sure answer any more: whoever came since then came before the first second to compare."""

# Beyond it a trial says that there was next to nothing before, and not how much better it is.
_MOST_RATIO = 4.0

# As long as a window: all of it is from after the step.
_DENIED_S = 10.0

_ANYTHING = Change(policy.OVERWHELMING, 1.0, "")

_log = logging.getLogger(__name__)


class Lookout:
    """One transfer's. Without a peer or a monitor, or beside a mover that cannot hold data back, it never looks."""

    def __init__(
        self, mover: MoverClient, effects: Effects, board: Board, course: Course, *, peer: Peer | None, monitor: PathMonitor | None
    ) -> None:
        self._mover = mover
        self._effects = effects
        self._board = board
        self._course = course
        self._peer = peer
        self._monitor = monitor
        now_s = effects.monotonic_s()
        self._account = Account(now_s, _doubt(course.decision, effects.now()))
        self._switching = SwitchState(course.decision.congestion_control)
        classifier = effects.classifier
        self._listener: Listener | None = None
        if classifier is not None and monitor is not None:
            self._listener = Listener(classifier, monitor, now_s, self.in_force)
        self._scene = self._new_scene(now_s)
        self._unsure: tuple[Background, ...] = _unsure(course.decision.background)
        self._cap_bps = course.limits.cap_bps
        self._span = Span()
        self._recapped = False
        self._measured: dict[str, str] = {}
        self._denied_from_s = math.inf
        self._alert = self._told = self._trying_more = self._unheard = False

    @property
    def in_force(self) -> str:
        """The congestion control that was chosen last."""
        return self._switching.in_force

    @property
    def on_trial(self) -> bool:
        """Whether a switch has still to prove itself: nothing else is tried meanwhile."""
        return self._switching.trial is not None

    @property
    def alert(self) -> bool:
        """Whether something may have changed: worth looking closer, and no moment to try something."""
        return self._alert

    def own_change(self, now_s: float) -> None:
        """Another stream count stands: what follows is our own doing, and not known yet."""
        self._begin(now_s)

    def own_trial(self, now_s: float, more: int) -> None:
        """So many `more` streams than stand are being tried, or fewer; 0 when none are."""
        self._trying_more = more > 0
        if more < 0:
            # The streams that leave take their windows along: that looks like somebody who came.
            self._scene = scene.pause(self._scene, now_s)

    async def follow(self, stats: Stats, seen: Observation, rtts_ms: list[float]) -> bool:
        """Takes a second or so of the transfer in; True if the data stood still, or the congestion control was changed."""
        self._recap(stats.cap_bps, seen)
        self._scene = scene.see(self._scene, sight(seen, rtts_ms))
        self._alert = False
        if self._scene.change is None:
            self._denied_from_s = math.inf
        heard = await self._listen(stats, seen)
        if self.on_trial:
            return await self._prove(seen)
        if self._peer is None or not self._can_look(stats, seen.at_s):
            return False
        change = self._scene.change
        if self._trying_more and (change is None or change.goodput_ratio > _LESS_IN_SPITE_OF_MORE):
            return False
        why = policy.due(self._account, seen.at_s, change, heard=bool(heard))
        if why is Why.CHANGED and await self._denies(seen):
            change, why = None, policy.due(self._account, seen.at_s, None, heard=bool(heard))
        if why is Why.OLD and not self._scene.settled:
            # A switch is compared with what there was before it: not with windows that still grow.
            return False
        if why is not None:
            story = heard if why is Why.HEARD else change.told if change else str(why)
            await self._look(why, story, self._peer, _had_bps(self._scene, change, seen))
            return True
        # A single sight that stands out may be the beginning of what would be worth a look.
        self._alert = self._scene.hint and policy.due(self._account, seen.at_s, _ANYTHING) is not None
        return False

    def _recap(self, cap_bps: float | None, seen: Observation) -> None:
        """Begins anew where another cap makes another transfer of it; a cap that is rewritten to no effect must not blind us."""
        if cap_bps == self._cap_bps:
            return
        self._span = caps.moved(self._span, self._cap_bps, cap_bps, self._scene.goodput_bps or seen.goodput_bps)
        self._cap_bps = cap_bps
        if self._span.wide:
            self._span, self._recapped = Span(), True
            self._scene = self._new_scene(seen.at_s)

    async def _denies(self, seen: Observation) -> bool:
        """Whether what is heard now speaks against a look for what is seen; what is denied for long becomes the usual."""
        if self._listener is None or not await self._listener.denies(seen.at_s, seen.streams):
            self._denied_from_s = math.inf
            return False
        self._denied_from_s = min(self._denied_from_s, seen.at_s)
        if seen.at_s - self._denied_from_s >= _DENIED_S:
            self._denied_from_s = math.inf
            self._scene = scene.resume(self._scene, seen.at_s, self._course.floor_s)
        return True

    async def _listen(self, stats: Stats, seen: Observation) -> str:
        """What is heard beside the data against what stands, in words; empty if nothing, or if no look can follow from it."""
        can_look = self._peer is not None and stats.quiet_s is not None and self._course.limits.congestion_control is None
        if self._listener is None or not can_look:
            return ""
        return await self._listener.listen(seen.at_s, seen.streams, self._course.decision.background)

    def _can_look(self, stats: Stats, now_s: float) -> bool:
        if self._effects.classifier is None or self._course.limits.congestion_control is not None or self._monitor is None:
            return False
        if stats.quiet_s is None:
            self._tell_once("the mover cannot hold its data back: what was chosen before the data stays")
            return False
        recent = self._monitor.recent(_ANSWERS_WITHIN_S)
        answers = bool(recent) and len(recent.answered_rtts_ms()) >= _LEAST_ANSWERED_RATIO * len(recent)
        return answers and stats.quiet_s == 0 and now_s >= self._switching.stays_until_s

    async def _look(self, why: Why, story: str, peer: Peer, goodput_bps: float) -> None:
        change, self._unheard = self._scene.change, False
        looked = await quiet_look(self._mover, self._effects, peer)
        now_s = self._effects.monotonic_s()
        background = self._judged(why, looked)
        path: PathMeasurement | None = None
        decision: Decision | None = None
        step = SwitchStep(self._switching)
        if background is not None and looked.survey is not None:
            path = measurement(summarize(looked.survey.result.trace))
            self._course.floor_s = min((s for s in (self._course.floor_s, path.rtt_minimum_s) if s is not None), default=None)
            decision = decide(path, self._course.limits, background, self._course.history)
            if decision.reason is Reason.CLASSIFIED:
                told = f"a quiet look, since {why}{f': {story}' if story != why else ''}"
                step = answer(self._switching, now_s, decision.congestion_control, goodput_bps, told)
                self._course.path = path
        sure = None if decision is None else decision.reason is Reason.CLASSIFIED
        news = step.switch is not None and await self._switch(step)
        cost_s = policy.price_s(looked.quiet_s, change)
        # What a sure answer spoke for and could not have is asked for again: no step may ever come that tells of it.
        barred_until_s = None if decision is None else self._barred_until_s(decision.congestion_control, now_s)
        self._account = policy.looked(self._account, why, now_s, cost_s, news=news, sure=sure, barred_until_s=barred_until_s)
        failure = looked.failure or (looked.survey.failure if looked.survey else "")
        if looked.survey is not None:
            self._board.surveyed(looked.survey.result.trace)
        self._board.looked(Look(str(why), story, looked.quiet_s, background, sure=bool(sure), news=news, failure=failure))
        if decision is not None and sure:
            other = decision.congestion_control
            stays = "it stays" if other == self.in_force else f"it stays for now instead of {other}"
            told = step.switch.why if news and step.switch else f"{stays} after a quiet look"
            self._stand(decision, told=told, why_not=self._why_not(other, now_s))
        elif decision is not None and path is not None and self._course.decision.reason is Reason.KNOWN:
            # Doubt of our own about what an earlier transfer was sure of: the next transfer must not be told the latter.
            self._course.path = path
            self._stand(decision, told="it stays after a quiet look that left doubt", why_not="an unsure answer alters nothing")
        if news:
            self._begin(now_s)
        else:
            self._resume(now_s)

    def _judged(self, why: Why, looked: Looked) -> Background | None:
        """The answer, together with earlier unsure ones of the same scene: the second step for a path that one window cannot tell."""
        found = looked.survey.background if looked.survey else None
        if found is None:
            return None
        # What is heard is of the same scene, which the last answer was wrong or unsure of.
        earlier = self._unsure if why in (Why.UNSURE, Why.HEARD) else ()
        together = pool((*earlier, found))
        self._unsure = (*earlier, *_unsure(found))[-2:] if together.abstained else ()
        return together

    def _new_scene(self, now_s: float) -> scene.Scene:
        return scene.begin(now_s, self._course.floor_s, policy.awaited(self.in_force))

    def _begin(self, now_s: float) -> None:
        """Another transport is in force: neither what was seen nor what was heard is of any use."""
        self._scene = self._new_scene(now_s)
        if self._listener is not None:
            self._listener.begin(now_s, self.in_force)

    def _resume(self, now_s: float) -> None:
        self._scene = scene.resume(self._scene, now_s, self._course.floor_s)
        if self._listener is not None:
            self._listener.resume(now_s)

    async def _switch(self, step: SwitchStep) -> bool:
        """Gets a switch into force; what the mover refuses or does not hear is as if it had not been decided."""
        before, switch = self._switching, step.switch
        if switch is None:
            self._switching = step.state
            return False
        try:
            await self._mover.set_transport(Transport(switch.to, None))
        except AdvisorError as error:
            self._unheard = error.retryable
            _log.warning("the congestion control stays %s: %s", before.in_force, error)
            return False
        self._switching = step.state
        self._recapped = False
        self._board.switched(before.in_force, switch)
        return True

    async def _prove(self, seen: Observation) -> bool:
        step = prove(self._switching, seen.at_s, seen.seconds, seen.goodput_bps, caps.reachable_bps(self._cap_bps))
        recapped = self._recapped
        if step.switch is None:
            self._switching = step.state
        elif not await self._switch(step):
            # The trial goes on, and is judged again with the next stretch.
            return False
        if step.verdict is not None:
            self._board.proved(step.verdict)
            if not recapped:
                self._remember(step.verdict)
        if step.switch is None:
            return False
        # What the classifier said stands beside what was measured against it.
        self._measured[self._course.decision.congestion_control] = step.switch.why
        self._stand(self._course.decision, told=step.switch.why, why_not=step.switch.why)
        self._begin(seen.at_s)
        return True

    def _remember(self, verdict: Verdict) -> None:
        # A switch back to the safe default may give share away on purpose: it does not measure what the other one is worth.
        if verdict.before != DEFAULT_CONGESTION_CONTROL:
            return
        history, background = self._course.history, self._course.decision.background
        if background is None:
            return
        tried = Tried(verdict.congestion_control, background.has_bbr)
        old = history.measured.get(tried, Measured(0, 1.0))
        mean = (old.count * old.goodput_ratio + min(verdict.goodput_ratio, _MOST_RATIO)) / (old.count + 1)
        measured = {**history.measured, tried: Measured(old.count + 1, mean)}
        self._course.history = replace(history, measured=measured)

    def _barred_until_s(self, wanted: str, now_s: float) -> float | None:
        """Until when an answer for `wanted` is not followed; None if it is, or if the mover has refused it for good."""
        if wanted == self.in_force:
            return None
        barred_until_s = self._switching.barred.get(wanted, 0.0)
        return barred_until_s if barred_until_s > now_s else now_s if self._unheard else None

    def _why_not(self, wanted: str, now_s: float) -> str:
        """Why a sure answer for `wanted` is not followed."""
        if self._switching.barred.get(wanted, 0.0) > now_s:
            return f"barred for a while: {self._measured.get(wanted, 'it was worse when it was tried')}"
        return "the mover did not take it"

    def _stand(self, decision: Decision, *, told: str, why_not: str) -> None:
        published = self._board.published
        streams = published.decision.streams if published else decision.streams
        self._course.why_streams = ""
        message = f"{decision.message}; {self.in_force}: {told}"
        self._course.decision = replace(instead(decision, self.in_force, why_not), streams=streams, message=message)
        applied = published is None or published.applied
        self._board.stand(self._course.path, self._course.decision, applied=applied, decided_at=self._effects.now())
        self._board.record()

    def _tell_once(self, what: str) -> None:
        if not self._told:
            _log.warning("%s", what)
        self._told = True


def _had_bps(known: scene.Scene, change: Change | None, seen: Observation) -> float:
    """What a switch is compared with: while somebody pushes in, the mean of the last seconds is of a time that is over."""
    mean_bps = known.goodput_bps or seen.goodput_bps
    falls = change is not None and change.goodput_ratio < 1 and seen.goodput_bps >= FLOWING_BPS
    return min(mean_bps, seen.goodput_bps) if falls else mean_bps


def _doubt(decision: Decision, now: datetime) -> Why | None:
    background = decision.background
    if background is None:
        return Why.UNKNOWN
    if background.measured_at is not None and now - background.measured_at > OLD:
        return Why.OLD
    return Why.UNSURE if decision.abstained else None


def _unsure(background: Background | None) -> tuple[Background, ...]:
    # What saw a path unlike any it knows would make every later answer abstain.
    return (background,) if background is not None and background.abstained and not background.novel else ()
