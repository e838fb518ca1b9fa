"""The sidecar's life: wait for the peer, probe, decide, apply, publish, and keep watching."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from fairlead_advisor.decide.model import Decision, Limits, PathMeasurement
from fairlead_advisor.decide.rule import decide
from fairlead_advisor.errors import AdvisorError, MoverAnswerError, MoverUnavailableError, OutputError, TransportRefusedError
from fairlead_advisor.probe.socket import ProbeResult
from fairlead_advisor.probe.summary import Summary, summarize
from fairlead_advisor.probe.trace import write_trace
from fairlead_advisor.serve.metrics import Metrics
from fairlead_advisor.serve.mover import Peer, Stats, Transport
from fairlead_advisor.serve.record import Published

WATCH_PERIOD_S = 3.0

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0

_log = logging.getLogger(__name__)


class MoverClient(Protocol):
    """What the sidecar asks of the mover."""

    async def peer(self) -> Peer: ...

    async def stats(self) -> Stats: ...

    async def set_transport(self, wanted: Transport) -> Transport: ...


@dataclass(frozen=True, slots=True)
class Effects:
    """The outside world as the sidecar sees it. `probe` measures the path to a peer; `sleep` takes seconds."""

    probe: Callable[[Peer], Awaitable[ProbeResult]]
    now: Callable[[], datetime]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Sidecar:
    """One job's advisor. `published` is what stands now."""

    def __init__(self, mover: MoverClient, effects: Effects, metrics: Metrics, limits: Limits, trace_path: Path) -> None:
        self._mover = mover
        self._effects = effects
        self._metrics = metrics
        self._limits = limits
        self._trace_path = trace_path
        self.published: Published | None = None

    async def run(self) -> None:
        """Runs until it is cancelled: what goes wrong is told in the decision, and the transfer goes on with the safe default."""
        path = await self._measure()
        await self._apply(path)
        await self._watch()

    async def _measure(self) -> PathMeasurement:
        try:
            peer = await self._await_peer()
            result = await self._effects.probe(peer)
        except AdvisorError as error:
            _log.warning("the path could not be probed: %s", error)
            return PathMeasurement(rtt_s=None, rtt_minimum_s=None, loss_ratio=None, samples=0)
        summary = summarize(result.trace)
        self._metrics.probed(summary, result.counters)
        try:
            write_trace(self._trace_path, result.trace)
        except OutputError as error:
            _log.warning("the trace is lost, the decision goes on: %s", error)
        return measurement(summary)

    async def _await_peer(self) -> Peer:
        for pause_s in _pauses():
            try:
                return await self._mover.peer()
            except MoverUnavailableError:
                await self._effects.sleep(pause_s)
        raise AssertionError("the pauses never end")

    async def _apply(self, path: PathMeasurement) -> None:
        """Publishes a decision and gets it into force.

        A refused congestion control falls back to one that the kernel offers; a refused stream count is left as the mover has it.
        """
        refused: set[str] = set()
        leave_streams = False
        story = ""
        decision = decide(path, self._limits)
        self._publish(path, decision, applied=False)
        while decision.congestion_control not in refused:
            try:
                in_force = await self._set_transport(decision.congestion_control, None if leave_streams else decision.streams)
            except TransportRefusedError as refusal:
                story += f"; the mover refused {refusal.field} ({refusal.reason}: {refusal})"
                if refusal.field == "streams" and not leave_streams:
                    leave_streams = True
                else:
                    refused.add(decision.congestion_control)
                    decision = decide(path, await self._limits_without(refused))
            except MoverAnswerError as error:
                story += f"; the mover's answer was not understood ({error})"
                break
            else:
                self._publish_in_force(path, decision, in_force, story)
                return
        self._publish(path, replace(decision, message=decision.message + story), applied=False)

    async def _set_transport(self, congestion_control: str, streams: int | None) -> Transport:
        for pause_s in _pauses():
            try:
                return await self._mover.set_transport(Transport(congestion_control, streams))
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

    def _publish_in_force(self, path: PathMeasurement, decision: Decision, in_force: Transport, story: str) -> None:
        streams = decision.streams if in_force.streams is None else in_force.streams
        if (in_force.congestion_control, streams) != (decision.congestion_control, decision.streams):
            story += f"; the mover has {in_force.congestion_control} with {streams} stream(s) in force"
        told = replace(decision, congestion_control=in_force.congestion_control, streams=streams, message=decision.message + story)
        self._publish(path, told, applied=True)

    def _publish(self, path: PathMeasurement, decision: Decision, *, applied: bool) -> None:
        decided_at = self.published.decided_at if self.published else self._effects.now()
        self.published = Published(path, decision, decided_at, applied)
        self._metrics.decided(self.published)
        _log.info("%s; applied: %s", decision.message, "yes" if applied else "no")

    async def _watch(self) -> None:
        while True:
            try:
                self._metrics.transfer(await self._mover.stats())
            except AdvisorError:
                self._metrics.transfer(None)
            await self._effects.sleep(WATCH_PERIOD_S)


def measurement(summary: Summary) -> PathMeasurement:
    """What a decision needs of a probe's summary, in seconds."""
    return PathMeasurement(
        rtt_s=None if summary.rtt_median_ms is None else summary.rtt_median_ms / 1000,
        rtt_minimum_s=None if summary.rtt_minimum_ms is None else summary.rtt_minimum_ms / 1000,
        loss_ratio=summary.loss_ratio,
        samples=summary.samples,
    )


def _pauses() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
