"""Writes the event log: wraps the sidecar's mover client and effects, and passes every call on unchanged."""

import asyncio
import gzip
import itertools
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import History, TransportLimits
from fairlead_advisor.decide.transfer import MoverStats, TransportSettings
from fairlead_advisor.errors import AdvisorError, ClassifierAnswerError, MoverUnavailableError, OutputError
from fairlead_advisor.probe.socket import Enough, ProbeResult
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.record.journal import Entry, EntryKind
from fairlead_advisor.replay import codec
from fairlead_advisor.replay.codec import Json
from fairlead_advisor.steer.effects import BackgroundClassifier, MoverClient, Neighbours, News, PathMonitor, SidecarEffects
from fairlead_advisor.steer.known import KnownPath
from fairlead_advisor.steer.mover import Peer

VERSION = 1
LARGEST_BYTES = 64 * 1024 * 1024
"""Of uncompressed text; beyond it nothing more is logged."""

GIVEN_UP = "given_up"
"""Marks a call whose answer nobody waited for any longer: until then time passed."""

_log = logging.getLogger(__name__)


class EventKind(StrEnum):
    """What a line of the event log holds."""

    START = "start"
    PEER = "peer"
    STATS = "stats"
    TRANSPORT = "transport"
    HOLD = "hold"
    PROBE = "probe"
    SAMPLES = "samples"
    ANSWER = "answer"
    NEIGHBOURS = "neighbours"


class EventLog:
    """Gzipped JSON lines; times are seconds on the monotonic clock since the log was opened. Use as a context manager.

    A file that exists is of a sidecar before this one, and is left as it is: `FILE.gz` is followed by `FILE.2.gz`.
    """

    def __init__(self, path: Path, effects: SidecarEffects) -> None:
        self._file = _opened_new(path)
        self._monotonic_s = effects.monotonic_s
        self._began_s = effects.monotonic_s()
        self._began_at: datetime = effects.now()
        self._left_bytes = LARGEST_BYTES

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._file.close()
        except OSError as closing:
            _log.warning("the last events are not in the log: %s", closing.strerror)

    def at_s(self) -> float:
        """Now."""
        return round(self._monotonic_s() - self._began_s, 6)

    def since_opened_s(self, monotonic_s: float) -> float:
        """A time of the monotonic clock as the log counts it."""
        return monotonic_s - self._began_s

    def start(
        self,
        limits: TransportLimits,
        history: History,
        known: KnownPath | None,
        probe_s: float,
        effects: SidecarEffects,
        *,
        record: Sequence[Entry] = (),
    ) -> None:
        """The first line: everything that the sidecar was started with, and the `record` that a process before it left.

        `by_reply`: RTTs were handed in with the first statistics after the reply; earlier logs have them by when the request was sent.
        """
        classifier = effects.classifier
        self.write(
            EventKind.START,
            {
                "version": VERSION,
                "began_at": self._began_at.isoformat(),
                "limits": codec.limits_json(limits),
                "history": codec.history_json(history),
                "known": codec.known_json(known),
                "probe_s": probe_s,
                "windows_s": None if classifier is None else list(classifier.windows_s),
                "no_classifier": effects.no_classifier,
                "by_reply": True,
                # What was sampled is not taken over from the record.
                "record": [entry for entry in record if entry.get("kind") != EntryKind.SURVEY],
            },
        )

    def write(self, kind: EventKind, body: Json) -> None:
        """One event, at the time in `body` or now."""
        line = json.dumps({"kind": kind, "at_s": self.at_s(), **body}, separators=(",", ":")) + "\n"
        self._left_bytes -= len(line)
        if self._left_bytes < 0:
            return
        try:
            self._file.write(line)
        except OSError as error:
            _log.warning("events are not logged any more: %s", error.strerror)
            self._left_bytes = 0

    @contextmanager
    def call(self, kind: EventKind, asked: Json) -> Iterator[Json]:
        """A call: the caller adds the answer to the dictionary; a failure is logged and goes on. `asked_s` is when it began."""
        body: Json = {"asked_s": self.at_s(), **asked}
        try:
            yield body
        except AdvisorError as error:
            self.write(kind, body | codec.error_json(error))
            raise
        except asyncio.CancelledError:
            self.write(kind, body | codec.error_json(_given_up(kind)) | {GIVEN_UP: True})
            raise
        self.write(kind, body)


def _opened_new(path: Path) -> TextIO:
    for number in itertools.count(1):
        file = path if number == 1 else path.with_suffix(f".{number}{path.suffix}")
        try:
            return gzip.open(file, "xt", encoding="utf-8")
        except FileExistsError:
            continue
        except OSError as error:
            raise OutputError(f"{file}: cannot be written: {error.strerror}") from None
    raise AssertionError("the numbers never end")


def _given_up(kind: EventKind) -> AdvisorError:
    message = "no answer in time"
    return ClassifierAnswerError(message) if kind is EventKind.ANSWER else MoverUnavailableError(message)


@dataclass(frozen=True, slots=True)
class RecordedMover:
    """The mover's client, with every answer logged."""

    mover: MoverClient
    log: EventLog

    async def peer(self) -> Peer:
        with self.log.call(EventKind.PEER, {}) as body:
            peer = await self.mover.peer()
            body["peer"] = codec.peer_json(peer)
        return peer

    async def stats(self) -> MoverStats:
        with self.log.call(EventKind.STATS, {}) as body:
            stats = await self.mover.stats()
            body["stats"] = codec.stats_json(stats)
        return stats

    async def set_transport(self, wanted: TransportSettings) -> TransportSettings:
        with self.log.call(EventKind.TRANSPORT, {"wanted": codec.transport_json(wanted)}) as body:
            in_force = await self.mover.set_transport(wanted)
            body["in_force"] = codec.transport_json(in_force)
        return in_force

    async def hold_data(self, seconds: float) -> None:
        with self.log.call(EventKind.HOLD, {"seconds": seconds}):
            await self.mover.hold_data(seconds)


class RecordedMonitor:
    """The path monitor, with each of its samples logged once."""

    def __init__(self, monitor: PathMonitor, log: EventLog) -> None:
        self._monitor = monitor
        self._log = log
        self._logged_to_s: dict[float, None] = {}

    async def run(self) -> None:
        await self._monitor.run()

    def recent(self, seconds: float) -> Trace:
        self._write_new()
        return self._monitor.recent(seconds)

    def replied(self, after_s: float, until_s: float) -> list[float]:
        self._write_new()
        return self._monitor.replied(after_s, until_s)

    def samples(self) -> list[tuple[float, float | None]]:
        return self._monitor.samples()

    def _write_new(self) -> None:
        samples = self._monitor.samples()
        new = [(sent_s, rtt_ms) for sent_s, rtt_ms in samples if sent_s not in self._logged_to_s]
        self._logged_to_s = dict.fromkeys(sent_s for sent_s, _ in samples)
        if new:
            body = {
                "sent_s": [round(self._log.since_opened_s(sent_s), 6) for sent_s, _ in new],
                "rtts_ms": [codec.rtt_json(rtt_ms) for _, rtt_ms in new],
            }
            self._log.write(EventKind.SAMPLES, body)


class RecordedNeighbours:
    """The neighbours, with what was heard of them logged."""

    def __init__(self, neighbours: Neighbours, log: EventLog) -> None:
        self._neighbours = neighbours
        self._log = log

    def heard(self) -> News:
        news = self._neighbours.heard()
        self._log.write(EventKind.NEIGHBOURS, {"asked_s": self._log.at_s(), **asdict(news)})
        return news

    def call(self) -> None:
        self._neighbours.call()

    def have_bbr(self) -> None:
        self._neighbours.have_bbr()

    async def rest(self, seconds: float) -> None:
        await self._neighbours.rest(seconds)


def recorded(effects: SidecarEffects, log: EventLog) -> SidecarEffects:
    """`effects` with every answer logged."""

    async def probe(peer: Peer, seconds: float, enough: Enough | None) -> ProbeResult:
        with log.call(EventKind.PROBE, {"seconds": seconds}) as body:
            result = await effects.probe(peer, seconds, enough)
            body.update(codec.trace_json(result.trace, body["asked_s"]), counters=asdict(result.counters))
        return result

    def monitor(peer: Peer) -> RecordedMonitor:
        return RecordedMonitor(effects.monitor(peer), log)

    @asynccontextmanager
    async def neighbours(peer: Peer) -> AsyncIterator[Neighbours | None]:
        async with effects.neighbours(peer) as heard:
            yield None if heard is None else RecordedNeighbours(heard, log)

    classifier = effects.classifier
    if classifier is not None:
        classifier = replace(classifier, classify=_recorded_classify(classifier, log))
    return replace(effects, probe=probe, monitor=monitor, classifier=classifier, neighbours=neighbours)


def _recorded_classify(classifier: BackgroundClassifier, log: EventLog) -> Callable[[Trace, float], Awaitable[Background]]:
    async def classify(trace: Trace, window_s: float) -> Background:
        with log.call(EventKind.ANSWER, {"window_s": window_s}) as body:
            background = await classifier.classify(trace, window_s)
            body["background"] = codec.background_json(background)
        return background

    return classify
