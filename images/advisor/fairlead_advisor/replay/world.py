"""The world of an event log on a virtual clock: answers the sidecar's calls with what was answered at that time."""

import asyncio
import gzip
import json
import math
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.transfer import MoverStats, TransportSettings
from fairlead_advisor.errors import AdvisorError, ClassifierAnswerError, ProbeError, RecordError
from fairlead_advisor.probe.monitor import HISTORY_S
from fairlead_advisor.probe.session import REPLY_TIMEOUT_NS, Counters
from fairlead_advisor.probe.socket import Enough, ProbeResult
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.replay import codec
from fairlead_advisor.replay.recorder import GIVEN_UP, LARGEST_BYTES, VERSION, EventKind
from fairlead_advisor.steer.effects import BackgroundClassifier, News, PathMonitor, SidecarEffects
from fairlead_advisor.steer.mover import Peer

Event = Mapping[str, Any]
Sample = tuple[float, float | None]
"""When a request was sent (s of the log) and its RTT in ms, None for a lost one."""

_REPLY_TIMEOUT_S = REPLY_TIMEOUT_NS / 1e9
_SAME_CALL_S = 1.0
"""A call of the present code within this time of a logged one gets its answer."""
_SAME_MOMENT_S = 0.5
_NO_SUCH_CALL = "the event log has no such call at this time"


REMEDY = "an event log is what `fairlead-advisor run` writes with --event-log"


class EventsEndError(Exception):
    """The log holds no more statistics."""


def read_events(path: Path) -> list[Event]:
    """The events in `path` in the order of their times. RecordError names the line of what is none."""
    events: list[Event] = []
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            text = file.read(LARGEST_BYTES)
    except EOFError:
        raise RecordError(f"{path}: ends early: its writer was killed") from None
    except (OSError, ValueError, zlib.error) as error:
        raise RecordError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}: {REMEDY}") from None
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            raise RecordError(f"{path}: line {number}: not JSON: {REMEDY}") from None
        if not isinstance(event, dict) or not isinstance(event.get("at_s"), int | float):
            raise RecordError(f"{path}: line {number}: no event: {REMEDY}")
        events.append(event)
    if not events or events[0].get("kind") != EventKind.START or events[0].get("version") != VERSION:
        raise RecordError(f"{path}: does not begin with a start of version {VERSION}: {REMEDY}")
    return events


@dataclass(frozen=True, slots=True)
class MoverRequest:
    """A change that the sidecar asked of the mover, at so many seconds of the log."""

    at_s: float
    what: str
    wanted: codec.Json


@dataclass(slots=True)
class _Calls:
    """The logged calls of one kind, used up in order."""

    events: list[Event] = field(default_factory=list)
    next: int = 0

    def take_from(self, at_s: float) -> Event | None:
        """The first call that has not been used and was answered at `at_s` or later."""
        while self.next < len(self.events) and self.events[self.next]["at_s"] < at_s:
            self.next += 1
        if self.next == len(self.events):
            return None
        self.next += 1
        return self.events[self.next - 1]

    def take_near(self, at_s: float, fits: Callable[[Event], bool]) -> Event | None:
        """The first call from the next one on that began about `at_s` and `fits`."""
        for index in range(self.next, len(self.events)):
            event = self.events[index]
            if event["asked_s"] > at_s + _SAME_CALL_S:
                return None
            if event["asked_s"] >= at_s - _SAME_CALL_S and fits(event):
                self.next = index + 1
                return event
        return None


class World:
    """Mover, path monitor, probe, classifier and clocks of one event log. The clock moves only in calls that took time."""

    def __init__(self, events: Iterable[Event]) -> None:
        start, *rest = events
        self.start = start
        self._calls = {str(kind): _Calls() for kind in EventKind}
        self._batches: list[tuple[float, list[Sample]]] = []
        for event in rest:
            if event["kind"] == EventKind.SAMPLES:
                self._batches.append((event["at_s"], list(zip(event["sent_s"], event["rtts_ms"], strict=True))))
            elif event["kind"] in self._calls:
                self._calls[event["kind"]].events.append(event)
        answered = ((sent_s + rtt_ms / 1000, rtt_ms) for _, batch in self._batches for sent_s, rtt_ms in batch if rtt_ms is not None)
        self._replies: list[tuple[float, float]] = sorted(answered)
        """When each reply came (s of the log), and its RTT in ms."""
        self._began_at = datetime.fromisoformat(start["began_at"])
        self._last_switch: Event | None = None
        """Empty for one that the log does not have."""
        self.now_s = 0.0
        self.requests: list[MoverRequest] = []
        self.missing: list[str] = []
        """Calls that the log has no answer to."""

    # The mover.

    async def peer(self) -> Peer:
        answered = next((event for event in self._calls[EventKind.PEER].events if "peer" in event), None)
        if answered is None:
            raise EventsEndError
        self._pass_to(answered["at_s"])
        return codec.read_peer(answered["peer"])

    async def stats(self) -> MoverStats:
        event = self._calls[EventKind.STATS].take_from(self.now_s)
        if event is None:
            raise EventsEndError
        self._pass_to(event["at_s"])
        _raise(event)
        stats = codec.read_stats(event["stats"])
        if self._switched_as_logged():
            return stats
        return replace(stats, streams=tuple(replace(stream, congestion_control=None) for stream in stats.streams))

    def _switched_as_logged(self) -> bool:
        """Whether the last switch of the log was asked for here as well: otherwise its sockets do not have what they would have here."""
        logged = (event for event in self._calls[EventKind.TRANSPORT].events if _is_switch(event) and event["at_s"] < self.now_s)
        return max(logged, key=lambda event: float(event["at_s"]), default=None) is self._last_switch

    async def set_transport(self, wanted: TransportSettings) -> TransportSettings:
        body = codec.transport_json(wanted)
        self.requests.append(MoverRequest(self.now_s, "transport", {name: value for name, value in body.items() if value is not None}))
        event = self._calls[EventKind.TRANSPORT].take_near(self.now_s, lambda event: bool(event["wanted"] == body))
        if wanted.congestion_control is not None:
            self._last_switch = event or {}
        if event is None:
            self._miss(f"transport {body}")
            return wanted
        self._pass_to(event["at_s"])
        _raise(event)
        return codec.read_transport(event["in_force"])

    async def hold_data(self, seconds: float) -> None:
        self.requests.append(MoverRequest(self.now_s, "hold", {"seconds": seconds}))
        event = self._calls[EventKind.HOLD].take_near(self.now_s, lambda event: bool(event["seconds"] == seconds))
        if event is None:
            self._miss(f"hold {seconds:g} s")
            return
        self._pass_to(event["at_s"])
        _raise(event)

    # The effects.

    def effects(self) -> SidecarEffects:
        """What the sidecar needs beside the mover."""
        windows_s = self.start["windows_s"]
        return SidecarEffects(
            self._probe,
            self._monitor,
            lambda: self._began_at + timedelta(seconds=self.now_s),
            classifier=None if windows_s is None else BackgroundClassifier(self._classify, tuple(windows_s)),
            no_classifier=self.start["no_classifier"],
            monotonic_s=lambda: self.now_s,
            sleep=self._sleep,
            neighbours=lambda _peer: nullcontext(self),
        )

    async def _sleep(self, seconds: float) -> None:
        self.now_s += seconds
        await asyncio.sleep(0)

    # The neighbours.

    def call(self) -> None:
        pass

    def have_bbr(self) -> None:
        pass

    def heard(self) -> News:
        event = self._calls[EventKind.NEIGHBOURS].take_near(self.now_s, lambda _event: True)
        return News() if event is None else News(event["called"], event["has_bbr"])

    async def rest(self, seconds: float) -> None:
        events = self._calls[EventKind.NEIGHBOURS].events
        calls = (event["asked_s"] for event in events if event["called"] and event["asked_s"] > self.now_s)
        await self._sleep(min(seconds, min(calls, default=math.inf) - self.now_s))

    async def _probe(self, _peer: Peer, seconds: float, enough: Enough | None) -> ProbeResult:
        event = self._calls[EventKind.PROBE].take_near(self.now_s, lambda _event: True)
        if event is None:
            self._miss(f"probe {seconds:g} s")
            raise ProbeError(_NO_SUCH_CALL)
        if "error" in event:
            self._pass_to(event["at_s"])
        _raise(event)
        samples = list(zip(event["sent_s"], event["rtts_ms"], strict=True))
        result = ProbeResult(codec.trace_of(samples), Counters(**event["counters"]))
        if enough is not None and await enough(lambda: self._known(samples)):
            # As logged: the last samples came while the classifier was being asked.
            self._pass_to(event["at_s"])
            return result
        self._pass_to(event["at_s"])
        return result

    async def _classify(self, _trace: Trace, window_s: float) -> Background:
        event = self._calls[EventKind.ANSWER].take_near(self.now_s, lambda event: bool(event["window_s"] == window_s))
        if event is None:
            self._miss(f"answer from {window_s:g} s")
            raise ClassifierAnswerError(_NO_SUCH_CALL)
        if event.get(GIVEN_UP):
            self._pass_to(event["at_s"])
        _raise(event)
        return codec.read_background(event["background"])

    def _monitor(self, _peer: Peer) -> PathMonitor:
        return _Monitor(self._recent, self._replied)

    def _replied(self, after_s: float, until_s: float) -> list[float]:
        """The RTTs as they were handed in."""
        if not self.start.get("by_reply"):
            return self._recent(until_s - after_s).answered_rtts_ms()
        first, end = (bisect_right(self._replies, at_s, key=lambda reply: reply[0]) for at_s in (after_s, until_s))
        return [rtt_ms for _, rtt_ms in self._replies[first:end]]

    def _recent(self, seconds: float) -> Trace:
        """The monitor's samples as they were known when it was asked, which was a moment after the clock of the replay."""
        end = bisect_left(self._batches, self.now_s, key=lambda batch: batch[0])
        now_s = self.now_s
        if end < len(self._batches) and self._batches[end][0] - now_s <= _SAME_MOMENT_S:
            now_s = self._batches[end][0]
            end += 1
        since_s = now_s - min(seconds, HISTORY_S)
        recent: list[Sample] = []
        for at_s, samples in reversed(self._batches[:end]):
            if at_s < since_s:
                break
            recent += (sample for sample in samples if sample[0] >= since_s)
        return codec.trace_of(sorted(recent, key=lambda sample: sample[0]))

    def _known(self, samples: list[Sample]) -> Trace:
        """Of a probe under way: what has been answered by now, or counts as lost."""
        now_s = self.now_s
        return codec.trace_of(
            [
                (sent_s, rtt_ms)
                for sent_s, rtt_ms in samples
                if (now_s - sent_s > _REPLY_TIMEOUT_S if rtt_ms is None else sent_s + rtt_ms / 1000 <= now_s)
            ]
        )

    def _pass_to(self, at_s: float) -> None:
        self.now_s = max(self.now_s, at_s)

    def _miss(self, what: str) -> None:
        self.missing.append(f"{self.now_s:.1f} s: {what}")


@dataclass(frozen=True, slots=True)
class _Monitor:
    known: Callable[[float], Trace]
    replies: Callable[[float, float], list[float]]

    async def run(self) -> None:
        await asyncio.Event().wait()

    def recent(self, seconds: float) -> Trace:
        return self.known(seconds)

    def replied(self, after_s: float, until_s: float) -> list[float]:
        return self.replies(after_s, until_s)

    def samples(self) -> list[tuple[float, float | None]]:
        return []


def _is_switch(event: Event) -> bool:
    return bool(event["wanted"]["congestion_control"])


def _raise(event: Event) -> None:
    if "error" in event:
        error: AdvisorError = codec.read_error(event)
        raise error
