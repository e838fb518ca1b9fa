"""Samples the round-trip time twice: over the idle path before the traffic starts, then for the recording.

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
from pathlib import Path
from typing import Any

from fairlead_advisor.probe.schedule import Timetable
from fairlead_advisor.probe.session import REPLY_TIMEOUT_NS
from fairlead_advisor.probe.socket import received_at_ns
from fairlead_advisor.probe.trace import Trace, write_trace
from fairlead_advisor.probe.wire import DATAGRAM_BYTES
from fairlead_testbed.agents.channel import await_start, receive_plan, report
from fairlead_testbed.agents.timing import quantiles
from fairlead_testbed.lab.kernel import SO_TIMESTAMPNS, inside

_NS = 1_000_000_000
_HEADER = struct.Struct("=QQ")
_PADDING = bytes(DATAGRAM_BYTES - _HEADER.size)
_TIMESPEC = struct.Struct("@qq")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)


class _Sampler:
    """One probe: requests on a timetable, and the replies to them.

    Unlike the product's, a request that is overdue is sent none the less: request k of a recording is always the k-th of its timetable.
    """

    def __init__(self, connection: socket.socket, timetable: Timetable, series: int) -> None:
        self._connection = connection
        self._timetable = timetable
        self._series = series
        self._sent_ns: list[int] = []
        self._rtt_ns: list[int | None] = []
        self.lateness_ms: list[float] = []
        self._open = 0
        self.late_replies = 0

    def run(self, start_ns: int) -> Trace:
        """Send from `start_ns` of the monotonic clock on, wait for the last replies, and return the samples."""
        for index in range(self._timetable.count):
            due_ns = start_ns + self._timetable.due_ns(index)
            self._receive_until(due_ns)
            self._send()
            self.lateness_ms.append((self._sent_ns[-1] - due_ns) / 1e6)
        while self._open and (left_ns := self._sent_ns[-1] + REPLY_TIMEOUT_NS - time.monotonic_ns()) > 0:
            self._receive_within(left_ns)
        first_ns = self._sent_ns[0]
        return Trace(
            array("d", ((sent_ns - first_ns) / _NS for sent_ns in self._sent_ns)),
            array("d", (math.nan if rtt_ns is None else rtt_ns / 1e6 for rtt_ns in self._rtt_ns)),
        )

    def _send(self) -> None:
        request = _HEADER.pack(self._series, len(self._sent_ns)) + _PADDING
        self._sent_ns.append(time.monotonic_ns())
        self._rtt_ns.append(None)
        self._open += 1
        self._connection.send(request)

    def _receive_until(self, moment_ns: int) -> None:
        while (left_ns := moment_ns - time.monotonic_ns()) > 0:
            self._receive_within(left_ns)

    def _receive_within(self, left_ns: int) -> None:
        # Of the waiting calls, select alone takes microseconds.
        if not select.select([self._connection], [], [], left_ns / _NS)[0]:
            return
        reply, ancillary, _flags, _sender = self._connection.recvmsg(DATAGRAM_BYTES, _ANCILLARY_BYTES)
        monotonic_ns, realtime_ns = time.monotonic_ns(), time.time_ns()
        series, number = _HEADER.unpack_from(reply)
        if series != self._series or self._rtt_ns[number] is not None:
            return
        seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2])
        rtt_ns = received_at_ns(monotonic_ns, realtime_ns, seconds * _NS + nanoseconds) - self._sent_ns[number]
        if rtt_ns > REPLY_TIMEOUT_NS:
            self.late_replies += 1
            return
        self._open -= 1
        self._rtt_ns[number] = rtt_ns


def main() -> None:
    """Probe as planned, write the trace, report what was seen."""
    plan: dict[str, Any] = receive_plan()
    with inside(plan["namespace"]):
        connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    connection.connect((plan["host"], plan["port"]))
    rate_hz = plan["rate_hz"]
    start_ns = await_start(plan["priority"])
    idle = _Sampler(connection, Timetable(rate_hz, plan["idle_s"]), series=1).run(start_ns - plan["idle_before_ns"])
    sampler = _Sampler(connection, Timetable(rate_hz, plan["duration_s"]), series=2)
    start_late_ms = max(0, time.monotonic_ns() - start_ns) / 1e6
    trace = sampler.run(start_ns)
    write_trace(Path(plan["trace"]), trace)
    report(
        {
            "idle": {"samples": len(idle), "rtt_ms": quantiles(idle.answered_rtts_ms())},
            "samples": len(trace),
            "answered": len(trace.answered_rtts_ms()),
            "rtt_ms": quantiles(trace.answered_rtts_ms()),
            "start_late_ms": start_late_ms,
            "send_lateness_ms": quantiles(sampler.lateness_ms),
            "late_replies": sampler.late_replies,
        }
    )


if __name__ == "__main__":
    main()
