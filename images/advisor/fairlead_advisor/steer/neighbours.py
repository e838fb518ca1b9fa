"""Advisors of one node call one another when their data pause, so that none takes the flows of another job of ours for somebody else's.

A call is a datagram to the loopback interface's broadcast address, which all pods on the host's network share. Anybody there can send one:
all that follows from it is a paused probe for which the own budget has room.
"""

import asyncio
import logging
import math
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from typing import cast

from fairlead_advisor.steer.effects import Neighbours, News
from fairlead_advisor.steer.mover import Peer

PORT = 9812
ADDRESS = "127.255.255.255"
CALLED_S = 1.0
"""Who pauses later than this after a call is in much of the caller's window."""
PRESENT_S = 20.0
"""A job with BBR is there for so long after it said so: longer than a paused probe, in which it says nothing."""
_SAID_AGAIN_S = 2.0
_LARGEST_BYTES = 256
_VERSION = "fairlead-neighbours/1"

_log = logging.getLogger(__name__)


class _Word(StrEnum):
    PAUSE = "pause"
    BBR = "bbr"


class LoopbackNeighbours(asyncio.DatagramProtocol):
    """Those whose transfer goes to the same address of the peer; datagrams of anything else are passed over."""

    def __init__(self, peer: Peer, port: int = PORT, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._path = peer.address
        self._port = port
        self._monotonic_s = monotonic_s
        self._identity = secrets.token_hex(8)
        self._transport: asyncio.DatagramTransport | None = None
        self._call = asyncio.Event()
        self._called_s = self._present_s = self._said_s = -math.inf

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, _address: object) -> None:
        said = _read(data)
        if said is None or said[1] == self._identity or said[2] != self._path:
            return
        now_s = self._monotonic_s()
        if said[0] is _Word.BBR:
            self._present_s = now_s
        elif now_s - self._called_s > CALLED_S:
            # Further ones wake nobody: a flood of them must not.
            self._called_s = now_s
            self._call.set()

    def heard(self) -> News:
        now_s = self._monotonic_s()
        self._call.clear()
        return News(called=now_s - self._called_s <= CALLED_S, has_bbr=now_s - self._present_s <= PRESENT_S)

    def call(self) -> None:
        self._say(_Word.PAUSE)

    def have_bbr(self) -> None:
        now_s = self._monotonic_s()
        if now_s - self._said_s >= _SAID_AGAIN_S:
            self._said_s = now_s
            self._say(_Word.BBR)

    async def rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._call.wait()

    def _say(self, word: _Word) -> None:
        if self._transport is not None:
            self._transport.sendto(f"{_VERSION} {word} {self._identity} {self._path}".encode(), (ADDRESS, self._port))


@asynccontextmanager
async def loopback_neighbours(peer: Peer, port: int = PORT) -> AsyncIterator[Neighbours | None]:
    """Listens for those of `peer`; None where that is not possible, which costs no more than their help."""
    listening = _socket(port)
    if listening is None:
        yield None
        return
    transport, neighbours = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: LoopbackNeighbours(peer, port), sock=listening
    )
    try:
        yield neighbours
    finally:
        transport.close()


def _socket(port: int) -> socket.socket | None:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        # Each advisor of the node has the same port, and each gets every datagram.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        made.bind((ADDRESS, port))
    except OSError as error:
        made.close()
        _log.warning("other advisors of this node are not heard: %s port %d: %s", ADDRESS, port, error.strerror)
        return None
    return made


def _read(data: bytes) -> tuple[_Word, str, str] | None:
    """The word, who says it, and the address of the peer; None for what is no such datagram."""
    if len(data) > _LARGEST_BYTES:
        return None
    try:
        version, word, identity, path = data.decode("ascii").split(" ")
        return None if version != _VERSION else (_Word(word), identity, path)
    except ValueError:
        return None
