"""Samples the round-trip time twice: over the idle path before the traffic starts, then for the recording, with bursts if there are any.

The schedule, the clock, the datagram's size, the patience and the trace are those of the product's probe (`fairlead_advisor.probe`),
so that its traces look alike. Its event loop and keyed digests are not used: they cost ten times the processor, and many runs
go side by side here, where no stranger can answer.
"""

from __future__ import annotations

import math
import select
import socket
import struct
import time
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead_advisor.probe.schedule import Timetable
from fairlead_advisor.probe.session import REPLY_TIMEOUT_NS
from fairlead_advisor.probe.socket import Clocks, received_at_ns
from fairlead_advisor.probe.trace import Trace, write_trace
from fairlead_advisor.probe.wire import DATAGRAM_BYTES
from fairlead_dev.netlab.namespaces import inside
from fairlead_dev.testbed.agents.channel import await_start, quantiles, receive_plan, report
from fairlead_dev.testbed.lab.kernel import SO_RCVBUFFORCE, SO_TIMESTAMPNS, UDP_SEGMENT
from fairlead_dev.testbed.scenario.model import BURST_PACKET_BYTES, BURST_PAYLOAD_BYTES, Burst

BURST_HEADER = "burst,send_time_s,rtt_ms"
_NS = 1_000_000_000
_CLOCKS = Clocks(monotonic_ns=time.monotonic_ns)
_HEADER = struct.Struct("=QQ")
_TIMESPEC = struct.Struct("@qq")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_TICK_NS = 2_000_000
_MOST_SEGMENTS = 50
_BUFFER_BYTES = 8_000_000


@dataclass(slots=True)
class _Requests:
    """Numbered requests of one size on a socket of their own, and what became of each."""

    connection: socket.socket
    series: int
    padding: bytes
    sent_ns: list[int] = field(default_factory=list)
    rtt_ns: list[int | None] = field(default_factory=list)
    lateness_ms: list[float] = field(default_factory=list)
    open: int = 0
    late_replies: int = 0

    def send(self, due_ns: int, count: int = 1) -> None:
        """Hand `count` of them on together."""
        first = len(self.sent_ns)
        datagrams = b"".join(_HEADER.pack(self.series, number) + self.padding for number in range(first, first + count))
        now_ns = time.monotonic_ns()
        self.sent_ns += [now_ns] * count
        self.rtt_ns += [None] * count
        self.lateness_ms.append((now_ns - due_ns) / 1e6)
        self.open += count
        self.connection.send(datagrams)

    def receive(self) -> None:
        """Take one reply."""
        reply, ancillary, _flags, _sender = self.connection.recvmsg(DATAGRAM_BYTES, _ANCILLARY_BYTES)
        monotonic_ns, realtime_ns = _CLOCKS.now_ns()
        series, number = _HEADER.unpack_from(reply)
        if series != self.series or self.rtt_ns[number] is not None:
            return
        seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2])
        rtt_ns = received_at_ns(monotonic_ns, realtime_ns, seconds * _NS + nanoseconds) - self.sent_ns[number]
        if rtt_ns > REPLY_TIMEOUT_NS:
            self.late_replies += 1
            return
        self.open -= 1
        self.rtt_ns[number] = rtt_ns

    def trace(self, start_ns: int) -> Trace:
        """Every request in the order of sending, with times from `start_ns` on."""
        return Trace(
            array("d", ((sent_ns - start_ns) / _NS for sent_ns in self.sent_ns)),
            array("d", (math.nan if rtt_ns is None else rtt_ns / 1e6 for rtt_ns in self.rtt_ns)),
        )


class _Sampler:
    """One probe: requests on a timetable and bursts between them, and the replies to all.

    Unlike the product's, a request that is overdue is sent none the less: request k of a recording is always the k-th of its timetable.
    """

    def __init__(self, requests: _Requests, timetable: Timetable, bursts: _Requests, chunks: Sequence[tuple[int, int]] = ()) -> None:
        self._requests = requests
        self._timetable = timetable
        self._bursts = bursts
        self._chunks = deque(chunks)
        self._by_socket = {one.connection: one for one in (requests, bursts)}

    def run(self, start_ns: int) -> None:
        """Send from `start_ns` of the monotonic clock on, and wait for the last replies."""
        for index in range(self._timetable.count):
            due_ns = start_ns + self._timetable.due_ns(index)
            self._serve_until(start_ns, due_ns)
            self._requests.send(due_ns)
        # Bursts end well before: their packets are ahead of the last requests in every queue.
        while self._requests.open and (left_ns := self._requests.sent_ns[-1] + REPLY_TIMEOUT_NS - time.monotonic_ns()) > 0:
            self._receive_within(left_ns)

    def _serve_until(self, start_ns: int, moment_ns: int) -> None:
        while True:
            now_ns = time.monotonic_ns()
            next_ns = start_ns + self._chunks[0][0] if self._chunks else moment_ns
            if next_ns <= now_ns and self._chunks:
                self._bursts.send(next_ns, self._chunks.popleft()[1])
            elif now_ns >= moment_ns:
                return
            else:
                self._receive_within(min(next_ns, moment_ns) - now_ns)

    def _receive_within(self, left_ns: int) -> None:
        # Of the waiting calls, select alone takes microseconds.
        for ready in select.select(list(self._by_socket), [], [], left_ns / _NS)[0]:
            self._by_socket[ready].receive()


def chunks_of(burst: Burst) -> list[tuple[int, int]]:
    """When (ns) so many of its packets are handed on together: every two milliseconds, or all at its start if it has no rate."""
    start_ns = round(burst.start_s * _NS)
    if burst.rate_bps is None:
        whole, rest = divmod(burst.packets, _MOST_SEGMENTS)
        return [(start_ns, _MOST_SEGMENTS)] * whole + ([(start_ns, rest)] if rest else [])
    per_tick = burst.rate_bps * _TICK_NS / _NS / 8 / BURST_PACKET_BYTES
    found, sent, tick = [], 0, 0
    while sent < burst.packets:
        due = min(burst.packets, sent + _MOST_SEGMENTS, math.ceil((tick + 1) * per_tick))
        if due > sent:
            found.append((start_ns + tick * _TICK_NS, due - sent))
        sent, tick = due, tick + 1
    return found


def _socket(plan: dict[str, Any]) -> socket.socket:
    with inside(plan["namespace"]):
        connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    connection.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, _BUFFER_BYTES)
    connection.connect((plan["host"], plan["port"]))
    return connection


def _write_bursts(file: Path, bursts: Sequence[Burst], trace: Trace) -> None:
    numbers = [number for number, burst in enumerate(bursts) for _ in range(burst.packets)]
    rows = zip(numbers, trace.send_times_s, trace.rtts_ms, strict=True)
    lines = [f"{number},{sent_s:.6f},{'' if math.isnan(rtt_ms) else f'{rtt_ms:.4f}'}" for number, sent_s, rtt_ms in rows]
    file.write_text("\n".join([BURST_HEADER, *lines]) + "\n")


def main() -> None:
    """Probe as planned, write the trace, report what was seen."""
    plan: dict[str, Any] = receive_plan()
    connection, burst_connection = _socket(plan), _socket(plan)
    burst_connection.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, BURST_PAYLOAD_BYTES)
    burst_plan = [Burst.model_validate(burst) for burst in plan["bursts"]]
    small, large = (bytes(size - _HEADER.size) for size in (DATAGRAM_BYTES, BURST_PAYLOAD_BYTES))
    idle, requests = (_Requests(connection, series, small) for series in (1, 2))
    bursts = _Requests(burst_connection, 3, large)
    rate_hz = plan["rate_hz"]
    start_ns = await_start(plan["priority"])
    _Sampler(idle, Timetable(rate_hz, plan["idle_s"]), bursts).run(start_ns - plan["idle_before_ns"])
    start_late_ms = max(0, time.monotonic_ns() - start_ns) / 1e6
    chunks = [chunk for burst in burst_plan for chunk in chunks_of(burst)]
    _Sampler(requests, Timetable(rate_hz, plan["duration_s"]), bursts, chunks).run(start_ns)
    trace = requests.trace(requests.sent_ns[0])
    write_trace(Path(plan["trace"]), trace)
    about_bursts = {}
    if burst_plan:
        burst_trace = bursts.trace(requests.sent_ns[0])
        _write_bursts(Path(plan["burst_trace"]), burst_plan, burst_trace)
        answered = len(burst_trace.answered_rtts_ms())
        lateness_ms = quantiles(bursts.lateness_ms)
        about_bursts = {"bursts": {"packets": len(burst_trace), "answered": answered, "send_lateness_ms": lateness_ms}}
    idle_rtts_ms = idle.trace(idle.sent_ns[0]).answered_rtts_ms()
    report(
        {
            "idle": {"samples": len(idle.sent_ns), "rtt_ms": quantiles(idle_rtts_ms)},
            "samples": len(trace),
            "answered": len(trace.answered_rtts_ms()),
            "rtt_ms": quantiles(trace.answered_rtts_ms()),
            "start_late_ms": start_late_ms,
            "send_lateness_ms": quantiles(requests.lateness_ms),
            "late_replies": requests.late_replies,
            **about_bursts,
        }
    )


if __name__ == "__main__":
    main()
