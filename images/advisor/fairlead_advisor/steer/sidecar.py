"""The sidecar's life: wait for the peer, probe, decide, apply, publish, and keep watching."""

import asyncio
import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import Decision, History, Limits, PathMeasurement
from fairlead_advisor.decide.rule import decide
from fairlead_advisor.errors import AdvisorError, MoverAnswerError, MoverUnavailableError, OutputError, TransportRefusedError
from fairlead_advisor.probe.summary import summarize
from fairlead_advisor.probe.trace import write_trace
from fairlead_advisor.record.board import Board
from fairlead_advisor.record.journal import Journal
from fairlead_advisor.steer.background.survey import survey
from fairlead_advisor.steer.effects import Effects, MoverClient
from fairlead_advisor.steer.known import GLANCE_S, KnownPath, still_holds
from fairlead_advisor.steer.mover import Peer, Stats, Transport
from fairlead_advisor.steer.observe import limits_now, measurement
from fairlead_advisor.steer.takeover import is_under_way, what_stands
from fairlead_advisor.steer.watch import Watch

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_STATS_ATTEMPTS = 8
_MAY_BE_LEFT = frozenset({"streams", "socket_buffer_bytes"})

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Files:
    """What the sidecar leaves: the trace of the idle path, and the record."""

    trace: Path
    journal: Journal


class Sidecar:
    """One job's advisor; `board` has what stands."""

    def __init__(
        self,
        mover: MoverClient,
        effects: Effects,
        board: Board,
        limits: Limits,
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
        """Runs until it is cancelled: what goes wrong is told in the decision, and the transfer goes on with the safe default."""
        peer = await self._peer()
        record = self._files.journal.resume()
        stats = await self._stats()
        if stats is not None and is_under_way(stats):
            path, decision = what_stands(stats, record)
            self._board.stand(path, decision, applied=True)
        else:
            if stats is not None:
                self._limits = limits_now(self._limits, stats)
            await self._apply(*await self._measure(peer))
        self._board.record()
        await self._watch(peer)

    async def _peer(self) -> Peer | None:
        try:
            return await self._await_peer()
        except AdvisorError as error:
            _log.warning("the path cannot be probed: %s", error)
            return None

    async def _stats(self) -> Stats | None:
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
        return path, known.background

    async def _await_peer(self) -> Peer:
        for pause_s in _pauses():
            try:
                return await self._mover.peer()
            except MoverUnavailableError:
                await self._effects.sleep(pause_s)
        raise AssertionError("the pauses never end")

    async def _apply(self, path: PathMeasurement, background: Background | None, story: str) -> None:
        """Publishes a decision and gets it into force.

        A refused congestion control falls back to one that the kernel offers; any other refused setting is left as the mover has it.
        """
        refused: set[str] = set()
        left: set[str] = set()
        decision = decide(path, self._limits, background, self._history)
        self._board.stand(path, decision, applied=False)
        while decision.congestion_control not in refused:
            try:
                in_force = await self._set_transport(self._wanted(decision, left))
            except TransportRefusedError as refusal:
                story += f"; the mover refused {refusal.field} ({refusal.reason}: {refusal})"
                if refusal.field in _MAY_BE_LEFT - left:
                    left.add(refusal.field)
                else:
                    refused.add(decision.congestion_control)
                    decision = decide(path, await self._limits_without(refused), background, self._history)
            except MoverAnswerError as error:
                story += f"; the mover's answer was not understood ({error})"
                break
            else:
                self._stand_in_force(path, decision, in_force, story)
                return
        self._board.stand(path, replace(decision, message=decision.message + story), applied=False)

    def _wanted(self, decision: Decision, left: set[str]) -> Transport:
        host, asked = self._limits.buffers, decision.socket_buffer_bytes
        stands = host is None or asked == host.set_bytes or "socket_buffer_bytes" in left
        return Transport(decision.congestion_control, None if "streams" in left else decision.streams, None if stands else asked)

    async def _set_transport(self, wanted: Transport) -> Transport:
        for pause_s in _pauses():
            try:
                return await self._mover.set_transport(wanted)
            except MoverUnavailableError as error:
                _log.warning("the decision is not applied yet: %s", error)
                await self._effects.sleep(pause_s)
        raise AssertionError("the pauses never end")

    async def _limits_without(self, refused: set[str]) -> Limits:
        """The limits with what the kernel offers except `refused`, and without the user's choice, which is among them."""
        try:
            offered = (await self._mover.stats()).available_congestion_controls
        except AdvisorError as error:
            _log.warning("what the kernel offers is not known: %s", error)
            offered = frozenset()
        return replace(self._limits, congestion_control=None, available=offered - refused)

    def _stand_in_force(self, path: PathMeasurement, decision: Decision, in_force: Transport, story: str) -> None:
        control = in_force.congestion_control or decision.congestion_control
        streams = decision.streams if in_force.streams is None else in_force.streams
        if (control, streams) != (decision.congestion_control, decision.streams):
            story += f"; the mover has {control} with {streams} stream(s) in force"
        told = replace(
            decision,
            congestion_control=control,
            streams=streams,
            socket_buffer_bytes=in_force.socket_buffer_bytes,
            message=decision.message + story,
        )
        self._board.stand(path, told, applied=True)

    async def _watch(self, peer: Peer | None) -> None:
        monitor = self._effects.monitor(peer) if peer is not None else None
        watch = Watch(self._mover, self._effects, self._board, self._limits, history=self._history, peer=peer, monitor=monitor)
        async with asyncio.TaskGroup() as tasks:
            if monitor is not None:
                tasks.create_task(monitor.run())
            tasks.create_task(watch.run())


def _pauses() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
