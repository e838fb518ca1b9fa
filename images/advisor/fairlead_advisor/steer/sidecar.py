"""The sidecar's life: wait for the peer, probe, decide, apply, publish, and keep watching."""

import asyncio
import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.loop import opening
from fairlead_advisor.decide.loop.messages import Publish, SetTransport, TransportAnswer, TransportFailed
from fairlead_advisor.decide.loop.observe import limits_now
from fairlead_advisor.decide.loop.opening import AskOffered, Offered, OpeningEvent
from fairlead_advisor.decide.model import History, PathMeasurement, TransportLimits
from fairlead_advisor.decide.transfer import MoverStats, TransportSettings
from fairlead_advisor.errors import AdvisorError, MoverUnavailableError, OutputError
from fairlead_advisor.probe.summary import summarize
from fairlead_advisor.probe.trace import write_trace
from fairlead_advisor.record.board import DecisionBoard
from fairlead_advisor.record.journal import Journal
from fairlead_advisor.steer.driver import Driver, set_transport
from fairlead_advisor.steer.effects import MoverClient, Neighbours, PathMonitor, SidecarEffects
from fairlead_advisor.steer.known import GLANCE_S, KnownPath, still_holds, without_own_queue
from fairlead_advisor.steer.mover import Peer
from fairlead_advisor.steer.survey import measurement, survey
from fairlead_advisor.steer.takeover import is_under_way, what_stands

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_STATS_ATTEMPTS = 8

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Files:
    """What the sidecar leaves: the trace of the idle path, and the record."""

    trace: Path
    journal: Journal


class Sidecar:
    """One job's advisor; `board` has the current decision."""

    def __init__(
        self,
        mover: MoverClient,
        effects: SidecarEffects,
        board: DecisionBoard,
        limits: TransportLimits,
        *,
        history: History,
        files: Files,
        probe_s: float,
        known: KnownPath | None = None,
    ) -> None:
        """`probe_s` is the longest that the data wait for the path to be sampled, apart from the last replies."""
        self._mover = mover
        self._probe_s = probe_s
        self._effects = effects
        self._board = board
        self._limits = limits
        self._history = history
        self._files = files
        self._known = known

    async def run(self) -> None:
        """Runs until it is cancelled: what goes wrong is part of the decision's message, and the transfer goes on with the safe default."""
        peer = await self._peer()
        record = self._files.journal.resume()
        stats = await self._stats()
        if stats is not None and is_under_way(stats):
            path, decision = what_stands(stats, record)
            self._board.publish(path, decision, applied=True)
        else:
            if stats is not None:
                self._limits = limits_now(self._limits, stats)
            await self._apply(*await self._measure(peer))
        self._board.record()
        await self._follow(peer)

    async def _peer(self) -> Peer | None:
        try:
            return await self._await_peer()
        except AdvisorError as error:
            _log.warning("the path cannot be probed: %s", error)
            return None

    async def _stats(self) -> MoverStats | None:
        """How far the mover is: worth asking several times, because a transfer under way must not be taken for an idle path."""
        for pause_s in itertools.islice(_pauses(), _STATS_ATTEMPTS):
            try:
                return await self._mover.stats()
            except MoverUnavailableError:
                await self._effects.sleep(pause_s)
            except AdvisorError as error:
                _log.warning("how far the mover is, and what its kernel offers, is not known: %s", error)
                return None
        return None

    async def _measure(self, peer: Peer | None) -> tuple[PathMeasurement, Background | None, str]:
        """The path, what else is on it, and what went wrong meanwhile."""
        unknown = PathMeasurement(rtt_s=None, rtt_minimum_s=None, loss_ratio=None, samples=0)
        if peer is None:
            return unknown, None, ""
        if self._known is not None and (recalled := await self._recall(peer, self._known)) is not None:
            return *recalled, ""
        try:
            found = await survey(self._effects, peer, self._probe_s)
        except AdvisorError as error:
            _log.warning("the path could not be probed: %s", error)
            return unknown, None, ""
        result = found.result
        summary = summarize(result.trace)
        self._board.metrics.probed(summary, result.counters)
        self._board.surveyed(result.trace)
        try:
            write_trace(self._files.trace, result.trace)
        except OutputError as error:
            _log.warning("the trace is lost, the decision goes on: %s", error)
        story = f" ({found.failure})" if found.failure and summary.answered and self._limits.congestion_control is None else ""
        return measurement(summary), found.background, story

    async def _recall(self, peer: Peer, known: KnownPath) -> tuple[PathMeasurement, Background | None] | None:
        """The path by a glance at its RTT and what an earlier transfer knew; None if it is not that path any more."""
        try:
            result = await self._effects.probe(peer, GLANCE_S, None)
        except AdvisorError as error:
            _log.warning("the known path could not be looked at: %s", error)
            return None
        summary = summarize(result.trace)
        self._board.metrics.probed(summary, result.counters)
        path = replace(measurement(summary), whole=False)
        if not still_holds(known, path):
            _log.info("the RTT is not the one that was known: the path is measured anew")
            return None
        self._history = replace(self._history, beside_own=known.beside_own)
        return without_own_queue(known, path), known.background

    async def _await_peer(self) -> Peer:
        for pause_s in _pauses():
            try:
                return await self._mover.peer()
            except MoverUnavailableError:
                await self._effects.sleep(pause_s)
        raise AssertionError("the pauses never end")

    async def _apply(self, path: PathMeasurement, background: Background | None, story: str) -> None:
        """Publishes the first decision and gets it into force."""
        state, actions = opening.begin(path, background, self._limits, self._history, story)
        while True:
            event: OpeningEvent | None = None
            for action in actions:
                match action:
                    case Publish(measured, decision, applied):
                        self._board.publish(measured, decision, applied=applied)
                    case SetTransport(wanted):
                        event = await self._set_transport(wanted)
                    case AskOffered():
                        event = await self._offered()
            if event is None:
                return
            state, actions = opening.handle(state, event)

    async def _set_transport(self, wanted: TransportSettings) -> TransportAnswer:
        """The mover's answer, however long it takes to give one."""
        for pause_s in _pauses():
            answer = await set_transport(self._mover, wanted)
            if not (isinstance(answer, TransportFailed) and answer.retryable):
                return answer
            _log.warning("the decision is not applied yet: %s", answer.message)
            await self._effects.sleep(pause_s)
        raise AssertionError("the pauses never end")

    async def _offered(self) -> Offered:
        try:
            return Offered((await self._mover.stats()).available_congestion_controls)
        except AdvisorError as error:
            _log.warning("what the kernel offers is not known: %s", error)
            return Offered(frozenset())

    async def _follow(self, peer: Peer | None) -> None:
        if peer is None:
            await self._driver(None, None, None).run()
            return
        monitor = self._effects.monitor(peer)
        async with self._effects.neighbours(peer) as neighbours, asyncio.TaskGroup() as tasks:
            tasks.create_task(monitor.run())
            tasks.create_task(self._driver(peer, monitor, neighbours).run())

    def _driver(self, peer: Peer | None, monitor: PathMonitor | None, neighbours: Neighbours | None) -> Driver:
        made_of = (self._mover, self._effects, self._board, self._limits)
        return Driver(*made_of, history=self._history, peer=peer, monitor=monitor, neighbours=neighbours)


def _pauses() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
