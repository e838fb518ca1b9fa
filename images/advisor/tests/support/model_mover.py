"""A model of a mover, of the path beside it, and a clock that only the loop moves."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import BufferLimits
from fairlead_advisor.decide.transfer import MoverStats, StreamStats, TransportSettings
from fairlead_advisor.errors import AdvisorError, MoverUnavailableError
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.probe.session import Counters
from fairlead_advisor.probe.socket import Enough, ProbeResult
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.record.board import DecisionBoard
from fairlead_advisor.record.journal import read_record
from fairlead_advisor.steer.effects import News
from fairlead_advisor.steer.mover import Peer
from tests.support.traces import steady, trace_of

PEER = Peer("198.18.0.2", "198.18.0.1", 24000, bytes(16))


class TimeIsOverError(Exception):
    """The time of the test is over."""


@dataclass
class ModelMover:
    """Streams of a transfer whose goodput is a function of their number and congestion control."""

    clock: "Clock"
    goodput_bps: Callable[[int, str], float] = lambda streams, _control: min(96e6, 24e6 * streams)
    stage: str = "Transferring"
    streams: int = 4
    control: str = "cubic"
    failure: AdvisorError | None = None
    refusal: AdvisorError | None = None
    switch_refusal: AdvisorError | None = None
    """Of another congestion control alone."""
    opens_at_most: int = 64
    patches: list[tuple[float, TransportSettings]] = field(default_factory=list)
    can_hold: bool = True
    deaf: bool = False
    drains: bool = True
    cap_bps: Callable[[float], float | None] = lambda _now_s: None
    """By the time; a cap counts headers too, so that a little less than it is goodput."""
    buffers: BufferLimits | None = None
    """None: a mover that leaves its send buffers as they are."""
    held_back_ratio: float = 0.0
    held_until_s: float = 0.0
    holds: list[tuple[float, float]] = field(default_factory=list)
    _bytes: dict[int, float] = field(default_factory=dict)
    _moved_s: float = 0.0

    @property
    def is_held(self) -> bool:
        return self.clock.now_s < self.held_until_s

    async def peer(self) -> Peer:
        raise MoverUnavailableError("not asked for")

    async def stats(self) -> MoverStats:
        if self.failure is not None:
            raise self.failure
        self._move()
        told = self.buffers is not None
        busy_s, held_s = (self.clock.now_s, self.held_back_ratio * self.clock.now_s) if told else (None, None)
        streams = tuple(
            StreamStats(n, int(self._bytes.get(n, 0.0)), 0, 0.061, 0.06, self.control, busy_s, held_s, 0.0 if told else None)
            for n in range(self.streams)
        )
        quiet_s = max(0.0, self.held_until_s - self.clock.now_s) if self.can_hold else None
        offered, cap_bps = frozenset({"reno", "cubic", "bbr"}), self.cap_bps(self.clock.now_s)
        return MoverStats(self.stage, offered, streams, cap_bps, quiet_s=quiet_s, buffers=self.buffers)

    async def set_transport(self, wanted: TransportSettings) -> TransportSettings:
        self.patches.append((self.clock.now_s, wanted))
        if self.refusal is not None:
            raise self.refusal
        if wanted.congestion_control is not None and self.switch_refusal is not None:
            raise self.switch_refusal
        if self.deaf:
            raise MoverUnavailableError("no answer in time")
        self._move()
        self.streams = min(wanted.streams or self.streams, self.opens_at_most)
        self.control = wanted.congestion_control or self.control
        if wanted.socket_buffer_bytes is not None and self.buffers is not None:
            self.buffers = replace(self.buffers, set_bytes=wanted.socket_buffer_bytes)
        return TransportSettings(self.control, self.streams, self.buffers.set_bytes if self.buffers else None)

    async def hold_data(self, seconds: float) -> None:
        self._move()
        self.holds.append((self.clock.now_s, seconds))
        if self.refusal is not None:
            raise self.refusal
        self.held_until_s = self.clock.now_s + seconds

    def _move(self) -> None:
        if self.clock.now_s <= self.held_until_s and self.drains:
            self._moved_s = self.clock.now_s
            return
        cap_bps = self.cap_bps(self.clock.now_s)
        goodput_bps = min(self.goodput_bps(self.streams, self.control), math.inf if cap_bps is None else 0.95 * cap_bps)
        share = goodput_bps / 8 * (self.clock.now_s - self._moved_s) / self.streams
        self._bytes = {number: self._bytes.get(number, 0.0) + share for number in range(self.streams)}
        self._moved_s = self.clock.now_s


class MetMover(ModelMover):
    """The same once its peer is authenticated."""

    async def peer(self) -> Peer:
        return PEER


@dataclass
class Clock:
    """Time passes only when somebody sleeps; `events` happen when their time has come, the last one ends the test."""

    ends_s: float
    events: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    each_second: Callable[[], None] = lambda: None
    now_s: float = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.each_second()
        for at_s, event in list(self.events):
            if at_s <= self.now_s:
                self.events.remove((at_s, event))
                event()
        if self.now_s >= self.ends_s:
            raise TimeIsOverError


@dataclass
class StillPath:
    trace: Trace = field(default_factory=steady)
    asked_s: list[float] = field(default_factory=list)

    async def run(self) -> None:
        await asyncio.Event().wait()

    def recent(self, seconds: float) -> Trace:
        self.asked_s.append(seconds)
        return self.trace

    def replied(self, _after_s: float, _until_s: float) -> list[float]:
        return self.trace.answered_rtts_ms()

    def samples(self) -> list[tuple[float, float | None]]:
        return list(self.trace.rows())


@dataclass
class FarPath:
    """A path whose echo is asked ten times a second and replies after `rtt_s`."""

    clock: Clock
    rtt_s: float

    async def run(self) -> None:
        await asyncio.Event().wait()

    def recent(self, seconds: float) -> Trace:
        now_s = self.clock.now_s
        return trace_of(
            (sent_s, self.rtt_s * 1000) for sent_s in self._sent_s() if sent_s >= now_s - seconds and sent_s + self.rtt_s <= now_s
        )

    def replied(self, after_s: float, until_s: float) -> list[float]:
        return [self.rtt_s * 1000 for sent_s in self._sent_s() if after_s < sent_s + self.rtt_s <= until_s]

    def samples(self) -> list[tuple[float, float | None]]:
        return list(self.recent(60.0).rows())

    def _sent_s(self) -> list[float]:
        return [tenth / 10 for tenth in range(round(self.clock.now_s * 10))]


@dataclass
class CallingJob:
    """Another job of ours with BBR on the same path, which calls at `calls_s`."""

    clock: "Clock"
    calls_s: float = math.inf
    called: int = 0
    """How often it was called."""
    knows_bbr: bool = False
    _said: bool = False

    def heard(self) -> News:
        calls = self.clock.now_s >= self.calls_s and not self._said
        self._said = self._said or calls
        return News(called=calls, has_bbr=True)

    def call(self) -> None:
        self.called += 1

    def have_bbr(self) -> None:
        self.knows_bbr = True

    async def rest(self, seconds: float) -> None:
        until_s = self.calls_s if self.clock.now_s < self.calls_s else math.inf
        await self.clock.sleep(min(seconds, until_s - self.clock.now_s))


@dataclass
class QuietPath:
    """What a look samples; `asked_s` are the lengths asked for."""

    clock: Clock
    asked_s: list[float] = field(default_factory=list)

    async def probe(self, _peer: Peer, seconds: float, enough: Enough | None) -> ProbeResult:
        self.asked_s.append(seconds)
        began_s, trace = self.clock.now_s, steady(round(50 * seconds), 0.02)
        if enough is None or not await enough(lambda: trace):
            await self.clock.sleep(seconds - (self.clock.now_s - began_s))
        return ProbeResult(trace, Counters())


@dataclass
class Watched:
    clock: Clock
    mover: ModelMover
    board: DecisionBoard
    record: Path
    path: QuietPath

    def entries(self, kind: str) -> list[dict[str, object]]:
        return [dict(entry) for entry in read_record(self.record) if entry["kind"] == kind]


def seen(name: str, confidence: float = 0.97, *, abstained: bool = False) -> Background:
    other = "B0-C0" if name.startswith("B1") else "B1-C0"
    probabilities = {each: confidence if each == name else 1 - confidence if each == other else 0.0 for each in CLASSES}
    any_bbr = confidence if name.startswith("B1") else 1 - confidence
    return Background(probabilities, any_bbr, confidence, abstained, "test-1", sure_from=0.8)
