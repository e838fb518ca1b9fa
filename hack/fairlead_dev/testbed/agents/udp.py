"""UDP at a constant rate, during the pattern's on phases."""

from __future__ import annotations

import socket

from fairlead_dev.netlab.namespaces import inside
from fairlead_dev.testbed.agents.flow import FlowEnds, FlowReport, FlowSample
from fairlead_dev.testbed.agents.loop import AgentLoop
from fairlead_dev.testbed.lab.kernel import UDP_SEGMENT, receive_drops
from fairlead_dev.testbed.scenario.expand import SingleFlow
from fairlead_dev.testbed.scenario.model import MTU_BYTES

FIRST_PORT = 21000
_PAYLOAD_BYTES = MTU_BYTES - 28
_MOST_SEGMENTS = 40
_TICK_S = 0.002
_MOST_LATE_S = 0.02
"""A process that runs late makes up for no more than this: more would be a burst that was not asked for."""
_SEND_BUFFER_BYTES = 8_000_000


class UdpFlow:
    """Datagrams that fill packets of the MTU's size; the rate counts IP bytes."""

    def __init__(self, single: SingleFlow, ends: FlowEnds, loop: AgentLoop) -> None:
        self.single = single
        self.report = FlowReport(single.number, single.name)
        self._loop = loop
        assert single.flow.rate_bps is not None
        self._packets_per_s = single.flow.rate_bps / 8 / MTU_BYTES
        self._on_until_s = float("-inf")
        self._paid_until_s = 0.0
        self._unpaid_packets = 0.0
        port = FIRST_PORT + single.number
        with inside(ends.destination_namespace):
            self._sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # Nobody reads: every datagram is counted by the kernel as it is turned away.
        self._sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)
        self._sink.bind((ends.destination_address, port))
        with inside(ends.source_namespace):
            self._source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._source.setblocking(False)
        self._source.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        self._source.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, _PAYLOAD_BYTES)
        self._source.connect((ends.destination_address, port))
        self._payload = bytes(_MOST_SEGMENTS * _PAYLOAD_BYTES)

    def arrange(self) -> None:
        """Plan every on phase."""
        for begin_s, end_s in self.single.on_phases():
            self._loop.at(begin_s, lambda begin_s=begin_s, end_s=end_s: self._begin(begin_s, end_s))  # type: ignore[misc]
            self._loop.at(end_s, lambda end_s=end_s: self.report.edge("off", end_s, self._loop.now_s()))  # type: ignore[misc]

    def _begin(self, planned_s: float, end_s: float) -> None:
        now_s = self._loop.now_s()
        self.report.edge("on", planned_s, now_s)
        self._on_until_s = end_s
        self._paid_until_s = now_s
        self._unpaid_packets = 0.0
        self._tick()

    def _tick(self) -> None:
        now_s = self._loop.now_s()
        if now_s >= self._on_until_s:
            return
        self._unpaid_packets += (now_s - self._paid_until_s) * self._packets_per_s
        self._unpaid_packets = min(self._unpaid_packets, _MOST_LATE_S * self._packets_per_s + 1)
        self._paid_until_s = now_s
        while (packets := min(_MOST_SEGMENTS, int(self._unpaid_packets))) > 0:
            try:
                self._source.send(memoryview(self._payload)[: packets * _PAYLOAD_BYTES])
            except BlockingIOError:
                break
            except ConnectionRefusedError:
                continue
            self._unpaid_packets -= packets
        self._loop.at(max(now_s + _TICK_S, now_s + (1 - self._unpaid_packets) / self._packets_per_s), self._tick)

    def received_bytes(self) -> int:
        """Payload that has arrived."""
        return receive_drops(self._sink) * _PAYLOAD_BYTES

    def sample(self) -> FlowSample:
        """The counters now."""
        return FlowSample(self.received_bytes(), None, None, 0)

    def close(self) -> None:
        """Let go of the sockets."""
        self._source.close()
        self._sink.close()
