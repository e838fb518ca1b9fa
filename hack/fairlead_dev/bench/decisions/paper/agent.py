"""The paper's loop beside a mover: ten requests a second from a host of its own, every ten seconds a class, a choice and its application.

What the paper leaves open is decided in its favour: data flow while it goes on probing (a pause in every cycle would cost a share of the
goodput), and only the first window is waited for. Its path's floor is known from before the traffic.
"""

from __future__ import annotations

import math
import select
import socket
import struct
import time
from pathlib import Path
from typing import Any

from fairlead_advisor.probe.socket import received_at_ns
from fairlead_advisor.probe.wire import DATAGRAM_BYTES
from fairlead_dev.bench.decisions.paper.classifier import WINDOW_SAMPLES, Training, choose, classify, held, load_training, sample_ms
from fairlead_dev.clients.http import ask_mover
from fairlead_dev.errors import NoAnswerError
from fairlead_dev.netlab.namespaces import inside
from fairlead_dev.testbed.agents.channel import await_start, receive_plan, report
from fairlead_dev.testbed.lab.kernel import SO_TIMESTAMPNS

REQUESTS = 10
SPACING_NS = 1_000_000
_NS = 1_000_000_000
_MARGIN_NS = 20_000_000
"""A second's replies are waited for until shortly before the next one's requests."""
_HEADER = struct.Struct("=QQ")
_TIMESPEC = struct.Struct("@qq")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)


class Sampler:
    """One sample a second: the mean round-trip time of ten requests 1 ms apart."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._series = 0

    def sample_ms(self, start_ns: int) -> float:
        """Send from `start_ns` of the monotonic clock on and wait for the replies; NaN with too few of them."""
        self._series += 1
        sent_ns: list[int] = []
        rtts_ms: dict[int, float] = {}
        for number in range(REQUESTS):
            self._receive_until(start_ns + number * SPACING_NS, sent_ns, rtts_ms)
            sent_ns.append(time.monotonic_ns())
            self._connection.send(_HEADER.pack(self._series, number) + bytes(DATAGRAM_BYTES - _HEADER.size))
        self._receive_until(start_ns + _NS - _MARGIN_NS, sent_ns, rtts_ms)
        return sample_ms(list(rtts_ms.values()))

    def _receive_until(self, moment_ns: int, sent_ns: list[int], rtts_ms: dict[int, float]) -> None:
        while len(rtts_ms) < REQUESTS and (left_ns := moment_ns - time.monotonic_ns()) > 0:
            if not select.select([self._connection], [], [], left_ns / _NS)[0]:
                return
            reply, ancillary, _flags, _sender = self._connection.recvmsg(DATAGRAM_BYTES, _ANCILLARY_BYTES)
            monotonic_ns, realtime_ns = time.monotonic_ns(), time.time_ns()
            series, number = _HEADER.unpack_from(reply)
            if series == self._series:
                seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2])
                rtts_ms[number] = (received_at_ns(monotonic_ns, realtime_ns, seconds * _NS + nanoseconds) - sent_ns[number]) / 1e6


class PaperLoop:
    """Samples in, choices out, applied to the mover's live sockets."""

    def __init__(self, training: Training, control: Path) -> None:
        self._training, self._control = training, control
        self._floor_ms = math.inf
        self._samples: list[float] = []
        self._wanted: str | None = None
        self._applied: str | None = None
        self.decisions: list[dict[str, Any]] = []

    def idle(self, sample_ms: float) -> None:
        """A sample from before the transfer: it only lowers the path's floor."""
        self._floor_ms = self._floor_ms if math.isnan(sample_ms) else min(self._floor_ms, sample_ms)

    def take(self, sample_ms: float, now_s: float) -> None:
        """A sample of the transfer's time; every tenth one ends a window."""
        self.idle(sample_ms)
        self._samples.append(sample_ms)
        if len(self._samples) == WINDOW_SAMPLES:
            queue_ms = held(self._samples, self._floor_ms)
            self._samples = []
            if queue_ms is not None or self._wanted is None:
                background = None if queue_ms is None else classify(self._training, queue_ms)
                self._wanted = choose(background)
                self.decisions.append({"time_s": round(now_s, 3), "class": background, "congestion_control": self._wanted})
        if self._wanted != self._applied and self._wanted is not None:
            try:
                ask_mover(self._control, "PATCH", "/v1/transport", {"congestion_control": self._wanted})
            except NoAnswerError:
                # It is asked again with the next sample.
                return
            self._applied = self._wanted


def main() -> None:
    """Probe as planned, steer the mover, report the decisions."""
    plan: dict[str, Any] = receive_plan()
    loop = PaperLoop(load_training(Path(plan["training"])), Path(plan["control"]))
    with inside(plan["namespace"]):
        connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    connection.connect((plan["host"], plan["port"]))
    start_ns = await_start(plan["priority"])
    sampler = Sampler(connection)
    # The path at rest, in time for its replies before the traffic begins.
    loop.idle(sampler.sample_ms(start_ns - plan["idle_before_ns"]))
    time.sleep(max(0, start_ns - time.monotonic_ns()) / _NS)
    for second in range(int(plan["duration_s"])):
        sample = sampler.sample_ms(start_ns + second * _NS)
        loop.take(sample, (time.monotonic_ns() - start_ns) / _NS)
    report({"decisions": loop.decisions})


if __name__ == "__main__":
    main()
