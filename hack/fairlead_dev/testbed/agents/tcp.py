"""Greedy TCP flows and file transfers by the kernel's own congestion controls."""

from __future__ import annotations

import contextlib
import math
import random
import select
import socket
from dataclasses import dataclass

from fairlead_dev.netlab.namespaces import inside
from fairlead_dev.testbed.agents.flow import FlowEnds, FlowReport, FlowSample
from fairlead_dev.testbed.agents.loop import AgentLoop
from fairlead_dev.testbed.lab.kernel import SO_RCVLOWAT, TCP_NOTSENT_LOWAT, congestion_control_of, tcp_info
from fairlead_dev.testbed.scenario.expand import SingleFlow
from fairlead_dev.testbed.scenario.model import Transfers

FIRST_PORT = 20000
_CHUNK = bytes(256 * 1024)
_SINK = bytearray(1024 * 1024)
_CALLS_PER_WAKE_UP = 8
_RECEIVE_WAKE_UP_BYTES = 128 * 1024
_UNSENT_SECONDS = 0.03
"""How much data waits in the socket, so that a process that runs late does not leave the path idle."""
_LEAST_UNSENT_BYTES = 128 * 1024


@dataclass(slots=True)
class _Connection:
    sender: socket.socket
    left_bytes: int | None
    receiver: socket.socket | None = None
    sent_all: bool = False


class TcpFlow:
    """One sender and its receiver. A connection for every on phase, or for every file."""

    def __init__(self, single: SingleFlow, ends: FlowEnds, path_rate_bps: int, loop: AgentLoop) -> None:
        self.single = single
        self.report = FlowReport(single.number, single.name)
        self._loop = loop
        self._ends = ends
        self._unsent_bytes = max(_LEAST_UNSENT_BYTES, int(path_rate_bps / 8 * _UNSENT_SECONDS))
        self._random = random.Random(single.seed)
        self._open: list[_Connection] = []
        self._ended_bytes = 0
        self._ended_retransmits = 0
        self._stopped = False
        with inside(ends.destination_namespace):
            self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((ends.destination_address, FIRST_PORT + single.number))
        self._listener.listen()
        self._listener.setblocking(False)
        loop.watch(self._listener.fileno(), select.EPOLLIN, self._accept)

    def arrange(self) -> None:
        """Plan every on phase."""
        for begin_s, end_s in self.single.on_phases():
            self._loop.at(begin_s, lambda begin_s=begin_s: self._begin(begin_s))  # type: ignore[misc]
            self._loop.at(end_s, lambda end_s=end_s: self._stop(end_s))  # type: ignore[misc]

    def _begin(self, planned_s: float) -> None:
        self.report.edge("on", planned_s, self._loop.now_s())
        self._stopped = False
        self._connect()

    def _connect(self) -> None:
        if self._stopped:
            return
        with inside(self._ends.source_namespace):
            sender = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sender.setblocking(False)
        assert self.single.flow.congestion_control is not None
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self.single.flow.congestion_control.encode())
        sender.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, self._unsent_bytes)
        with contextlib.suppress(BlockingIOError):
            sender.connect((self._ends.destination_address, FIRST_PORT + self.single.number))
        connection = _Connection(sender, self._next_size())
        self._open.append(connection)
        self._loop.watch(sender.fileno(), select.EPOLLOUT, lambda _events: self._fill(connection))

    def _next_size(self) -> int | None:
        pattern = self.single.flow.pattern
        if not isinstance(pattern, Transfers):
            return None
        return max(1, round(pattern.size_bytes_median * math.exp(self._random.gauss(0, pattern.size_sigma))))

    def _accept(self, _events: int) -> None:
        try:
            receiver, peer = self._listener.accept()
        except BlockingIOError:
            return
        receiver.setblocking(False)
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVLOWAT, _RECEIVE_WAKE_UP_BYTES)
        unmatched = (one for one in self._open if one.receiver is None and one.sender.getsockname() == peer)
        connection = next(unmatched, None)
        if connection is None:
            receiver.close()
            return
        connection.receiver = receiver
        self._loop.watch(receiver.fileno(), select.EPOLLIN, lambda _events: self._drain(connection))

    def _fill(self, connection: _Connection) -> None:
        for _ in range(_CALLS_PER_WAKE_UP):
            size = len(_CHUNK) if connection.left_bytes is None else min(len(_CHUNK), connection.left_bytes)
            try:
                sent = connection.sender.send(memoryview(_CHUNK)[:size])
            except BlockingIOError:
                return
            except OSError as error:
                self._fail(connection, error)
                return
            if connection.left_bytes is not None:
                connection.left_bytes -= sent
                if connection.left_bytes == 0:
                    self._finish_sending(connection)
                    return

    def _finish_sending(self, connection: _Connection) -> None:
        if not connection.sent_all:
            connection.sent_all = True
            self._read_back(connection)
            self._loop.forget(connection.sender.fileno())
            with contextlib.suppress(OSError):
                connection.sender.shutdown(socket.SHUT_WR)

    def _drain(self, connection: _Connection) -> None:
        assert connection.receiver is not None
        for _ in range(_CALLS_PER_WAKE_UP):
            try:
                # The kernel throws the bytes away without copying them.
                if connection.receiver.recv_into(_SINK, len(_SINK), socket.MSG_TRUNC) == 0:
                    self._end(connection)
                    return
            except BlockingIOError:
                return
            except OSError as error:
                self._fail(connection, error)
                return

    def _fail(self, connection: _Connection, error: OSError) -> None:
        self.report.failures.append(f"{self._loop.now_s():.3f} s: {error.strerror}")
        # The run is spoilt; trying again at once and for ever would only hide why.
        self._stopped = True
        self._end(connection)

    def _end(self, connection: _Connection) -> None:
        self._read_back(connection)
        self._ended_retransmits += tcp_info(connection.sender).retransmits
        if connection.receiver is not None:
            self._ended_bytes += _payload_bytes(connection.receiver)
            self._loop.forget(connection.receiver.fileno())
            connection.receiver.close()
        self._loop.forget(connection.sender.fileno())
        connection.sender.close()
        self._open.remove(connection)
        pattern = self.single.flow.pattern
        if isinstance(pattern, Transfers) and not self._stopped:
            self.report.transfers += 1
            pause_s = self._random.expovariate(1 / pattern.pause_s_mean) if pattern.pause_s_mean else 0.0
            self._loop.at(self._loop.now_s() + pause_s, self._connect)

    def _stop(self, planned_s: float) -> None:
        self._stopped = True
        for connection in list(self._open):
            self._finish_sending(connection)
        self.report.edge("off", planned_s, self._loop.now_s())

    def _read_back(self, connection: _Connection) -> None:
        self.report.congestion_controls.add(congestion_control_of(connection.sender))

    def received_bytes(self) -> int:
        """Payload that has arrived in order, all connections together."""
        return self._ended_bytes + sum(_payload_bytes(one.receiver) for one in self._open if one.receiver is not None)

    def sample(self) -> FlowSample:
        """The counters now; window and RTT are of the newest connection."""
        if not self._open:
            return FlowSample(self.received_bytes(), None, None, self._ended_retransmits)
        for connection in list(self._open):
            # What waits below the wake-up threshold.
            if connection.receiver is not None:
                self._drain(connection)
        infos = [tcp_info(connection.sender) for connection in self._open]
        retransmits = self._ended_retransmits + sum(info.retransmits for info in infos)
        newest = infos[-1] if infos else None
        return FlowSample(
            self.received_bytes(),
            newest.congestion_window_segments if newest else None,
            newest.rtt_ms if newest else None,
            retransmits,
        )

    def close(self) -> None:
        """Read back what is still open, and let go of everything."""
        for connection in self._open:
            self._read_back(connection)
            connection.sender.close()
            if connection.receiver is not None:
                connection.receiver.close()
        self._listener.close()


def _payload_bytes(receiver: socket.socket) -> int:
    return tcp_info(receiver).bytes_received
