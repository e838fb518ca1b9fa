"""Drives the loop's machine beside one transfer: samples the mover and the path, carries out the machine's actions, hands answers in."""

import logging
from collections import deque

from fairlead_advisor.decide.loop import machine
from fairlead_advisor.decide.loop.messages import (
    ANSWERED_WITHIN_S,
    Action,
    Classified,
    Classify,
    Event,
    ProbeFinished,
    ProbePaused,
    Publish,
    ReportBuffers,
    ReportObservation,
    ReportProbe,
    ReportStreams,
    ReportSwitch,
    ReportVerdict,
    Sampled,
    SamplingFailed,
    SetTransport,
    TransportAnswer,
    TransportApplied,
    TransportFailed,
    TransportRefused,
    Warn,
)
from fairlead_advisor.decide.loop.state import Equipment, LoopState, begin
from fairlead_advisor.decide.model import History, TransportLimits
from fairlead_advisor.decide.monitor.loaded_answers import UNANSWERED_S
from fairlead_advisor.decide.transfer import TransportSettings
from fairlead_advisor.errors import AdvisorError, TraceError, TransportRefusedError
from fairlead_advisor.probe.summary import summarize
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.record.board import DecisionBoard
from fairlead_advisor.steer.effects import MoverClient, Neighbours, News, PathMonitor, SidecarEffects
from fairlead_advisor.steer.mover import Peer
from fairlead_advisor.steer.paused_probe import probe_paused
from fairlead_advisor.steer.survey import answer_within, measurement

_log = logging.getLogger(__name__)


class Driver:
    """One transfer under way, from the decision that is published when it begins; without a monitor RTTs come from the sockets."""

    def __init__(
        self,
        mover: MoverClient,
        effects: SidecarEffects,
        board: DecisionBoard,
        limits: TransportLimits,
        *,
        history: History,
        peer: Peer | None,
        monitor: PathMonitor | None,
        neighbours: Neighbours | None = None,
    ) -> None:
        if board.published is None:
            raise ValueError("the loop begins with a published decision")
        self._mover = mover
        self._effects = effects
        self._board = board
        self._peer = peer
        self._monitor = monitor
        self._neighbours = neighbours
        self._sampled_s: float | None = None
        self._news = News()
        self._probed: Trace | None = None
        classifier, stands = effects.classifier, board.published
        equipment = Equipment(None if classifier is None else classifier.windows_s, peer is not None and monitor is not None)
        now_s, now = effects.monotonic_s(), effects.now()
        self._state: LoopState = begin(
            stands.path,
            stands.decision,
            limits,
            history,
            equipment,
            applied=stands.applied,
            now_s=now_s,
            now=now,
            decided_at=stands.decided_at,
        )

    async def run(self) -> None:
        """Runs until cancelled. A mover that does not answer, or not as the contract has it, is asked again and nothing is changed."""
        try:
            while True:
                await self._handle(await self._sample())
                await self._rest(machine.sampling_period_s(self._state))
        finally:
            self._board.ended(machine.summary(self._state))

    async def _rest(self, seconds: float) -> None:
        if self._neighbours is not None and machine.joins_others(self._state):
            await self._neighbours.rest(seconds)
        else:
            await self._effects.sleep(seconds)

    async def _handle(self, event: Event) -> None:
        now_s = self._sampled_s
        events = deque([event])
        while events:
            if now_s is None:
                now_s = self._effects.monotonic_s()
            self._state, actions = machine.handle(self._state, events.popleft(), now_s)
            now_s = None
            for action in actions:
                answer = await self._perform(action)
                if answer is not None:
                    events.append(answer)

    async def _sample(self) -> Event:
        before_s, self._sampled_s = self._sampled_s, None
        self._news = news = self._hear()
        try:
            stats = await self._mover.stats()
        except AdvisorError:
            self._board.metrics.transfer(None)
            return SamplingFailed()
        self._board.metrics.transfer(len(stats.streams), stats.rtts_s)
        self._sampled_s = self._effects.monotonic_s()
        if self._monitor is None:
            return Sampled(stats)
        # By when the reply came: one that is on its way at one sample was sent before it, and would be too old for the next.
        rtts_ms = () if before_s is None else tuple(self._monitor.replied(before_s, self._sampled_s))
        recent = self._monitor.recent(ANSWERED_WITHIN_S)
        answered_ratio = len(recent.answered_rtts_ms()) / len(recent) if len(recent) else 0.0
        return Sampled(stats, rtts_ms, answered_ratio, called=news.called, beside_own_bbr=news.has_bbr)

    def _hear(self) -> News:
        if self._neighbours is None:
            return News()
        if machine.has_own_bbr(self._state):
            self._neighbours.have_bbr()
        return self._neighbours.heard()

    async def _perform(self, action: Action) -> Event | None:
        """Carries an action out; the answer if it is a request."""
        match action:
            case SetTransport(wanted):
                return await set_transport(self._mover, wanted)
            case Classify(window_s):
                return await self._classify(window_s)
            case ProbePaused(calls):
                if calls and self._neighbours is not None:
                    self._neighbours.call()
                # Without BBR of ours no answer hangs on who else is still in the window.
                return await self._probe_paused(together=self._news.has_bbr)
            case _:
                self._report(action)
                return None

    def _report(self, action: Action) -> None:
        board = self._board
        match action:
            case Publish(path, decision, applied, anew, measured):
                board.publish(path, decision, applied=applied, decided_at=self._effects.now() if measured else None)
                if anew:
                    board.record()
            case ReportObservation(seen, held):
                board.metrics.observed(seen)
                if held is not None:
                    board.metrics.held_back(held.send_buffer_ratio, held.receive_window_ratio)
            case ReportStreams(outcome):
                board.tried(outcome)
            case ReportSwitch(before, switch):
                board.switched(before, switch)
            case ReportVerdict(verdict):
                board.proved(verdict)
            case ReportProbe():
                if self._probed is not None:
                    board.surveyed(self._probed)
                board.probed(action)
            case ReportBuffers(before, after, needed, why):
                board.buffered(before, after, needed, why)
            case Warn(message):
                _log.warning("%s", message)

    async def _classify(self, window_s: float) -> Classified:
        classifier, monitor = self._effects.classifier, self._monitor
        assert classifier is not None and monitor is not None
        try:
            return Classified(await answer_within(classifier, monitor.recent(window_s + UNANSWERED_S), window_s))
        except TraceError:
            # Too few of the latest requests were answered: the next window may be whole again.
            return Classified(None)
        except AdvisorError as error:
            _log.info("nothing can be heard beside the data: %s", error)
            return Classified(None, failed=True)

    async def _probe_paused(self, *, together: bool) -> ProbeFinished:
        assert self._peer is not None
        probed = await probe_paused(self._mover, self._effects, self._peer, together=together)
        survey = probed.survey
        if survey is None:
            self._probed = None
            return ProbeFinished(probed.paused_s, None, None, probed.failure)
        self._probed = survey.result.trace
        return ProbeFinished(probed.paused_s, measurement(summarize(self._probed)), survey.background, probed.failure or survey.failure)


async def set_transport(mover: MoverClient, wanted: TransportSettings) -> TransportAnswer:
    """Asks the mover for other settings; its answer."""
    try:
        return TransportApplied(await mover.set_transport(wanted))
    except TransportRefusedError as refusal:
        return TransportRefused(refusal.field, refusal.reason, str(refusal))
    except AdvisorError as error:
        return TransportFailed(str(error), error.retryable)
