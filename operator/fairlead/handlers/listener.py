"""HTTP for anybody on the network: one request for each connection, with deadlines, and a bounded number of connections.

aiohttp waits for ever for the header of a first request, and takes any number of connections.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

MOST_WAITING = 64
"""Connections without a whole request. With one more, the oldest of the source with the most is closed."""
MOST_WAITING_PER_SOURCE = 16
MOST_ANSWERED = 64
"""Connections whose answer is under way, which do not give way to others."""
HEADER_SECONDS = 5.0
ANSWER_SECONDS = 10.0
"""For the work on a request and for its answer to be read."""
_BACKLOG = 1024

_log = logging.getLogger(__name__)


class OperatorListener:
    """The connections of one port. `serve` runs an application on it."""

    def __init__(self) -> None:
        self._waiting: dict[_Connection, str] = {}
        self._answered: dict[_Connection, str] = {}
        self._by_transport: dict[asyncio.BaseTransport, _Connection] = {}

    @asynccontextmanager
    async def serve(self, app: web.Application, host: str, port: int, *, shutdown_timeout: float = 0.5) -> AsyncIterator[int]:
        """Serves `app`, a new one, while the context lasts; gives the port. Raises OSError if the address cannot be had."""
        app.middlewares.insert(0, self._middleware())
        _log.addFilter(_is_our_fault)
        runner = web.AppRunner(app, access_log=None, logger=_log, shutdown_timeout=shutdown_timeout, lingering_time=0.0)
        await runner.setup()
        try:
            handlers = runner.server
            if handlers is None:
                raise RuntimeError("the application was not set up")
            make = lambda: _Connection(self, handlers())  # noqa: E731
            server = await asyncio.get_running_loop().create_server(make, host, port, backlog=_BACKLOG)
            try:
                yield server.sockets[0].getsockname()[1]
            finally:
                server.close()
        finally:
            await runner.cleanup()

    def _middleware(self) -> Middleware:
        @web.middleware
        async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
            connection = self._by_transport.get(request.transport) if request.transport is not None else None
            if connection is not None:
                self._answer(connection)
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    response = await handler(request)
            except web.HTTPException as refusal:
                refusal.force_close()
                raise
            response.force_close()
            return response

        return answer

    def _answer(self, connection: _Connection) -> None:
        connection.limit(ANSWER_SECONDS)
        if len(self._answered) < MOST_ANSWERED and connection in self._waiting:
            self._answered[connection] = self._waiting.pop(connection)

    def enter(self, connection: _Connection, transport: asyncio.Transport, source: str) -> None:
        """A connection was made: it has a place, or takes one."""
        self._by_transport[transport] = connection
        self._waiting[connection] = source
        counts = Counter(self._waiting.values())
        if counts[source] > MOST_WAITING_PER_SOURCE:
            self._close_oldest(source)
        elif len(self._waiting) > MOST_WAITING:
            self._close_oldest(counts.most_common(1)[0][0])

    def _close_oldest(self, source: str) -> None:
        # Dictionaries keep the order in which connections came.
        oldest = next(connection for connection, other in self._waiting.items() if other == source)
        del self._waiting[oldest]
        oldest.abort()

    def leave(self, connection: _Connection, transport: asyncio.BaseTransport) -> None:
        """A connection is gone."""
        self._by_transport.pop(transport, None)
        self._waiting.pop(connection, None)
        self._answered.pop(connection, None)


def _is_our_fault(record: logging.LogRecord) -> bool:
    """Whether a log line is worth its place: strangers must not fill the log with malformed requests."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def source_of(peer: object) -> str:
    """Where a connection comes from: its address, or the first half of one of IPv6, of which one host may have the whole other half."""
    if not isinstance(peer, tuple) or not peer:
        return ""
    try:
        address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    except ValueError:
        return ""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    if mapped is not None:
        return str(mapped)
    return str(address) if address.version == 4 else address.packed[:8].hex()


class _Connection(asyncio.Protocol):
    """Hands everything on to aiohttp's protocol, and ends the connection when its time is over."""

    def __init__(self, listener: OperatorListener, inner: asyncio.Protocol) -> None:
        self._listener = listener
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("only streams are served")
        self._transport = transport
        self._inner.connection_made(transport)
        self.limit(HEADER_SECONDS)
        self._listener.enter(self, transport, source_of(transport.get_extra_info("peername")))

    def limit(self, seconds: float) -> None:
        """From now on the connection has so long."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(seconds, self.abort)

    def abort(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._transport is not None:
            self._listener.leave(self, self._transport)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
