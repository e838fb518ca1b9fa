"""What the transfer was like between two samples of the mover's statistics."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fairlead_advisor.decide.model import TransportLimits
from fairlead_advisor.decide.monitor.caps import at_cap, leaves_room
from fairlead_advisor.decide.monitor.change_detector import PathSample
from fairlead_advisor.decide.optimizer import Observation
from fairlead_advisor.decide.transfer import MoverStats, StreamStats

# Payload of a full segment under an MTU of 1500 with timestamps. The loss ratio need not be more exact than that.
SEGMENT_BYTES = 1448
# A queue that counts: well above the jitter of a quiet path, well below any buffer that a stream can fill.
_QUEUE_RATIO = 0.05
_LEAST_QUEUE_S = 0.001
# Where own packets wait apart: the share of the least RTT that is a queue then, and the part of it that a tenth of the echo's answers may
# exceed. Up to half of it, the noise of hosts and links may be more.
_APART_QUEUE_RATIO = 0.02
_MOST_ECHO_PART = 0.25
_MOST_ECHO_NOISE_PART, _ECHO_NOISE_S = 0.5, 0.002
_LEAST_ECHO_ANSWERS = 5
# With less to send than that the path is not what holds a transfer back.
_MOST_IDLE_RATIO = 0.2


@dataclass(frozen=True, slots=True)
class StatsReading:
    """An answer of the mover that came at `at_s` on a monotonic clock."""

    at_s: float
    stats: MoverStats

    def seconds_since(self, before: "StatsReading") -> float:
        """The time that the figures of both are apart: by the mover's clock, as an answer may come late, where it gives one."""
        then_s, now_s = before.stats.read_at_s, self.stats.read_at_s
        # A mover that was started anew counts from zero again.
        return self.at_s - before.at_s if then_s is None or now_s is None or now_s <= then_s else now_s - then_s


@dataclass(frozen=True, slots=True)
class HeldBack:
    """For how long streams had something under way, summed over them, and for how much of that a buffer alone held them back.

    `open_s` is how long they were open, under way or not.
    """

    busy_s: float = 0.0
    send_buffer_s: float = 0.0
    receive_window_s: float = 0.0
    open_s: float = 0.0

    def __add__(self, other: "HeldBack") -> "HeldBack":
        return HeldBack(
            self.busy_s + other.busy_s,
            self.send_buffer_s + other.send_buffer_s,
            self.receive_window_s + other.receive_window_s,
            self.open_s + other.open_s,
        )

    @property
    def send_buffer_ratio(self) -> float:
        """0 while nothing was under way."""
        return self.send_buffer_s / self.busy_s if self.busy_s > 0 else 0.0

    @property
    def receive_window_ratio(self) -> float:
        """0 while nothing was under way."""
        return self.receive_window_s / self.busy_s if self.busy_s > 0 else 0.0

    @property
    def idle_ratio(self) -> float:
        """For how much of the time open streams had nothing to send; 0 while none was open."""
        return max(0.0, 1 - self.busy_s / self.open_s) if self.open_s > 0 else 0.0

    @property
    def lacks_data(self) -> bool:
        """Whether the source, and not the path, bounds the transfer."""
        return self.idle_ratio > _MOST_IDLE_RATIO


def held_back(before: StatsReading, after: StatsReading) -> HeldBack | None:
    """Between two samples, by the kernel's clocks of each connection; None from a mover that does not tell."""
    known = {stream.number: stream for stream in before.stats.streams}
    total: HeldBack | None = None
    for now in after.stats.streams:
        then = known.get(now.number)
        # A stream that was connected anew has a clock of its own.
        if now.busy_s is None or then is None or then.busy_s is None or now.busy_s < then.busy_s:
            continue
        held = HeldBack(
            now.busy_s - then.busy_s,
            max(0.0, (now.send_buffer_limited_s or 0.0) - (then.send_buffer_limited_s or 0.0)),
            max(0.0, (now.receive_window_limited_s or 0.0) - (then.receive_window_limited_s or 0.0)),
            after.seconds_since(before),
        )
        total = held if total is None else total + held
    return total


def limits_now(limits: TransportLimits, stats: MoverStats) -> TransportLimits:
    """`limits` with what the mover says now of its protocol, its kernel, its cap and its buffers."""
    return replace(
        limits, available=stats.available_congestion_controls, cap_bps=stats.cap_bps, buffers=stats.buffers, protocol=stats.protocol
    )


def rtt_floor(known_s: Iterable[float | None], streams: Iterable[StreamStats], rtts_ms: Sequence[float]) -> float | None:
    """The least RTT in s that is known, that `streams` have, or that the echo has seen (ms); None without any."""
    candidates = [*known_s, *(stream.rtt_minimum_s for stream in streams), *(rtt_ms / 1000 for rtt_ms in rtts_ms)]
    return min((rtt_s for rtt_s in candidates if rtt_s is not None and rtt_s > 0), default=None)


def has_queue(rtt_s: float, floor_s: float) -> bool:
    """Whether an RTT is above the path's least one by a queue that counts."""
    return rtt_s > floor_s + max(_LEAST_QUEUE_S, _QUEUE_RATIO * floor_s)


def observe(
    before: StatsReading, after: StatsReading, rtts_ms: Sequence[float], floor_s: float | None, *, allocated: bool = False
) -> Observation:
    """The transfer between two samples. `rtts_ms` are the answered echo requests meanwhile, `floor_s` the least RTT of the path.

    `allocated`: the cap is the job's share of a link that is divided.
    """
    seconds = after.seconds_since(before)
    known = {stream.number: stream for stream in before.stats.streams}
    bytes_sent = retransmits = 0
    for stream in after.stats.streams:
        old = known.get(stream.number)
        bytes_sent += _grown(old.bytes_sent if old else None, stream.bytes_sent)
        retransmits += _grown(old.retransmits if old else None, stream.retransmits)
    segments = bytes_sent / SEGMENT_BYTES + retransmits
    goodput_bps = bytes_sent * 8 / seconds if seconds > 0 else 0.0
    held = at_cap(goodput_bps, after.stats.cap_bps)
    return Observation(
        at_s=after.at_s,
        seconds=seconds,
        streams=after.stats.streams_per_path,
        goodput_bps=goodput_bps,
        loss_ratio=retransmits / segments if segments else 0.0,
        # At its cap the transfer has all that it may have, as on a full path.
        busy_ratio=1.0 if held else _busy_ratio(after.stats.streams, rtts_ms, floor_s),
        has_share=allocated and held,
        # Near its cap own packets wait in the sender.
        waits_apart=leaves_room(goodput_bps, after.stats.cap_bps) and _waits_apart(after.stats, rtts_ms, floor_s),
    )


def path_sample(seen: Observation, rtts_ms: Sequence[float]) -> PathSample:
    """What the comparison with earlier looks at; `rtts_ms` are the answered echo requests meanwhile."""
    low_ms, high_ms = _tenth_and_ninetieth(sorted(rtts_ms)) if rtts_ms else (None, None)
    return PathSample(
        at_s=seen.at_s,
        seconds=seen.seconds,
        goodput_bps=seen.goodput_bps,
        loss_ratio=seen.loss_ratio,
        rtt_low_s=None if low_ms is None else low_ms / 1000,
        rtt_high_s=None if high_ms is None else high_ms / 1000,
    )


def _tenth_and_ninetieth(ascending: Sequence[float]) -> tuple[float, float]:
    last = len(ascending) - 1
    return ascending[round(0.1 * last)], ascending[round(0.9 * last)]


def _grown(before: int | None, after: int | None) -> int:
    if after is None:
        return 0
    # Less than before is another connection, which counts from zero.
    return after - before if before is not None and after >= before else after


def _busy_ratio(streams: Sequence[StreamStats], rtts_ms: Sequence[float], floor_s: float | None) -> float | None:
    if floor_s is None:
        return None
    seen_s = [rtt_ms / 1000 for rtt_ms in rtts_ms] or [stream.rtt_s for stream in streams if stream.rtt_s]
    if not seen_s:
        return None
    return math.fsum(has_queue(rtt_s, floor_s) for rtt_s in seen_s) / len(seen_s)


def _waits_apart(stats: MoverStats, rtts_ms: Sequence[float], floor_s: float | None) -> bool:
    """Whether own packets wait in a queue that the echo's do not: the bottleneck keeps flows apart."""
    if floor_s is None or not stats.rtts_s or len(rtts_ms) < _LEAST_ECHO_ANSWERS or stats.has_several_paths:
        return False
    own_s = math.fsum(stats.rtts_s) / len(stats.rtts_s) - floor_s
    _, high_ms = _tenth_and_ninetieth(sorted(rtts_ms))
    most_s = max(_MOST_ECHO_PART * own_s, min(_MOST_ECHO_NOISE_PART * own_s, _ECHO_NOISE_S))
    return own_s > max(_LEAST_QUEUE_S, _APART_QUEUE_RATIO * floor_s) and high_ms / 1000 - floor_s < most_s
