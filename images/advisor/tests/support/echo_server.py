"""A UDP echo service on the loopback, written from the contract and not from the code under test."""

import asyncio
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from blake3 import blake3

from fairlead_advisor.probe.trace import Trace

KEY = bytes(range(16))
OTHER_KEY = bytes(range(16, 32))


@dataclass(frozen=True)
class Answer:
    """A datagram to send back after `delay_s`."""

    datagram: bytes
    delay_s: float = 0.0


def reply_to(request: bytes, key: bytes = KEY) -> bytes:
    """The reply of the contract: kind 2, sequence and time repeated, a tag of its own."""
    header = request[:5] + b"\x02" + request[6:24]
    tag_key = blake3(key, derive_key_context="fairlead echo v1").digest()
    return header + blake3(header, key=tag_key).digest(length=24)


Behaviour = Callable[[int, bytes], list[Answer]]


def prompt(_sequence: int, request: bytes) -> list[Answer]:
    return [Answer(reply_to(request))]


def silent(_sequence: int, _request: bytes) -> list[Answer]:
    return []


@dataclass
class EchoServer(asyncio.DatagramProtocol):
    """Answers as `behaviour` says; keeps what came and from where."""

    behaviour: Behaviour
    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    senders: set[tuple[str, int]] = field(default_factory=set)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    took_ms: dict[int, float] = field(default_factory=dict)
    """By sequence: from the time in the request until its last answer had been sent."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.requests.append(data)
        self.asked.set()
        self.senders.add(addr)
        sequence, stamp_ns = struct.unpack(">QQ", data[8:24])
        for answer in self.behaviour(sequence, data):
            asyncio.get_running_loop().call_later(answer.delay_s, self._send, answer.datagram, addr, sequence, stamp_ns)

    def _send(self, datagram: bytes, addr: tuple[str, int], sequence: int, stamp_ns: int) -> None:
        if not self._transport.is_closing():
            self._transport.sendto(datagram, addr)
            self.took_ms[sequence] = (time.monotonic_ns() - stamp_ns) / 1e6

    def accounts_for(self, trace: Trace) -> bool:
        """Whether most samples are no longer than this service took, as the kernel stamps what crosses the loopback while it is sent.

        The others may be of replies that a process held up for a second read too late for their stamp to count.
        """
        answered = [(sequence, rtt_ms) for sequence, (_, rtt_ms) in enumerate(trace.rows()) if rtt_ms is not None]
        return sum(rtt_ms <= self.took_ms[sequence] + 1e-3 for sequence, rtt_ms in answered) >= len(answered) / 2


@asynccontextmanager
async def echo_server(behaviour: Behaviour = prompt) -> AsyncIterator[EchoServer]:
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: EchoServer(behaviour), local_addr=("127.0.0.1", 0)
    )
    try:
        yield server
    finally:
        transport.close()


@asynccontextmanager
async def standalone_echo() -> AsyncIterator[int]:
    """The port of a prompt echo service in a thread of its own, which the event loop cannot hold up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as service:
        service.bind(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                request, sender = service.recvfrom(2048)
                if not request:
                    return
                service.sendto(reply_to(request), sender)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield service.getsockname()[1]
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ending:
                ending.sendto(b"", service.getsockname())
            thread.join()
