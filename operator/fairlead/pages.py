"""A bounded HTTP listener for the programs that run on the nodes' network, where anybody may connect: few connections, and short ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

CONNECTIONS = 16
"""With one more the oldest is closed."""
CONNECTION_SECONDS = 5.0
TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' text format, in which probes are answered too."""
JSON = "application/json"
_REQUEST_BYTES = 8 << 10
_LAST_PORT = 65535


class Answer(NamedTuple):
    """HTTP's status, the body and its type."""

    status: int
    body: bytes
    content_type: str = TEXT


Page = Callable[[], Answer]


def read_address(text: str) -> tuple[str, int]:
    """Host and port to listen at; no host stands for all addresses of both families. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > _LAST_PORT:
        raise ValueError("must be an address and a port, e.g. 127.0.0.1:9090, or :9090 for every address")
    return host.strip("[]"), int(port)


def probe_page(is_well: Callable[[], bool]) -> Page:
    """200 or 503."""
    return lambda: Answer(200, b"ok\n") if is_well() else Answer(503, b"not now\n")


class PageServer:
    """Answers `GET PATH` with a page and closes the connection."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._open: dict[asyncio.StreamWriter, None] = {}

    async def start(self, host: str, port: int) -> asyncio.Server:
        """Listens until the server is closed, with an empty `host` on every address of IPv4 and IPv6. Raises OSError if the address is
        taken."""
        return await asyncio.start_server(self._serve, host, port, limit=_REQUEST_BYTES)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        if len(self._open) > CONNECTIONS:
            next(iter(self._open)).transport.abort()
        try:
            with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
                async with asyncio.timeout(CONNECTION_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    answer = self._answer(head.split(b"\r\n", 1)[0].decode(errors="replace"))
                    writer.write(_head(answer) + answer.body)
                    await writer.drain()
        finally:
            self._open.pop(writer, None)
            writer.close()

    def _answer(self, request: str) -> Answer:
        method, _, rest = request.partition(" ")
        page = self._pages.get(rest.partition(" ")[0].partition("?")[0])
        if page is None:
            return Answer(404, b"there are " + ", ".join(self._pages).encode() + b"\n")
        return page() if method == "GET" else Answer(405, b"only GET\n")


def _head(answer: Answer) -> bytes:
    fields = (f"Content-Type: {answer.content_type}", f"Content-Length: {len(answer.body)}", "Connection: close")
    return "\r\n".join((f"HTTP/1.1 {answer.status} -", *fields, "", "")).encode()
