"""Asks a server that is not trusted for one answer: a GET whose bytes and time are bounded as a whole, headers included.

HTTP libraries bound parts of an answer. A server that sends interim responses or headers without end keeps them busy until they time out.
"""

from __future__ import annotations

import asyncio
import io
from http.client import HTTPException, HTTPResponse

MOST_HEADER_BYTES = 8 * 1024
_CHUNK_BYTES = 16 * 1024
_REQUEST = (
    "GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: application/json\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n"
)


class FetchError(Exception):
    """No usable answer. `is_costly`: the server kept us waiting or sent something unusable, instead of refusing the connection;
    `is_timeout`: it kept us waiting."""

    def __init__(self, message: str, *, is_costly: bool = True, is_timeout: bool = False) -> None:
        super().__init__(message)
        self.is_costly = is_costly
        self.is_timeout = is_timeout


async def fetch(host: str, port: int, path: str, *, timeout_seconds: float, most_bytes: int) -> bytes | None:
    """The body of the answer, at most `most_bytes`; None for the status 503, "not yet". No redirect is followed. Raises FetchError.

    `timeout_seconds` is for everything, from the connection to the last byte.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            received = await _receive(host, port, path, most_bytes + MOST_HEADER_BYTES)
    except TimeoutError as error:
        raise FetchError(f"no answer within {timeout_seconds} s", is_timeout=True) from error
    except ConnectionRefusedError as error:
        raise FetchError("the connection was refused", is_costly=False) from error
    except OSError as error:
        raise FetchError(f"the connection failed: {error.strerror or error}") from error
    return read_answer(received, most_bytes)


def read_answer(received: bytes, most_bytes: int) -> bytes | None:
    """The body in everything that a server sent before it closed the connection; None for the status 503. Raises FetchError."""
    try:
        with HTTPResponse(_Received(received)) as response:  # type: ignore[arg-type]
            response.begin()
            status, encoding, body = response.status, response.getheader("Content-Encoding", "identity"), response.read()
    except (HTTPException, ValueError, OverflowError, OSError) as error:
        raise FetchError(f"no HTTP answer: {type(error).__name__}") from error
    if status == 503:
        return None
    if status != 200:
        raise FetchError(f"status {status}")
    if encoding.lower() != "identity":
        raise FetchError("an encoded body")
    if len(body) > most_bytes:
        raise FetchError(f"a body of more than {most_bytes} bytes")
    return body


async def _receive(host: str, port: int, path: str, most_bytes: int) -> bytes:
    """Everything that the server sends until it closes the connection. Raises FetchError if that is too much, and OSError."""
    reader, writer = await asyncio.open_connection(host, port, limit=_CHUNK_BYTES)
    try:
        writer.write(_REQUEST.format(path=path, host=f"[{host}]" if ":" in host else host, port=port).encode())
        received = bytearray()
        while chunk := await reader.read(_CHUNK_BYTES):
            received += chunk
            if len(received) > most_bytes:
                raise FetchError(f"more than {most_bytes} bytes")
        return bytes(received)
    finally:
        # Whatever else comes is not waited for.
        writer.transport.abort()


class _Received:
    """Bytes in the place of the socket that `HTTPResponse` reads."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._received)
