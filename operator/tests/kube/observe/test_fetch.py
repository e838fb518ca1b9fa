"""What is taken for an answer, and that no server can make it long or last."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.kube.observe.fetch import MOST_HEADER_BYTES, FetchError, fetch, read_answer

HOST = "127.0.0.1"
MOST = 1000
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def _server(serve: Serve) -> AsyncIterator[int]:
    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def _sends(*parts: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.writelines(parts)
        await writer.drain()
        writer.close()

    return serve


def _sends_for_ever(first: bytes, rest: bytes, sent: list[int], pause_seconds: float = 0.0) -> Serve:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        try:
            while True:
                writer.write(rest)
                sent.append(len(rest))
                await writer.drain()
                await asyncio.sleep(pause_seconds)
        except OSError:
            writer.close()

    return serve


async def _fetch(port: int, timeout_seconds: float = 30.0) -> bytes | None:
    return await fetch(HOST, port, "/v1/progress", timeout_seconds=timeout_seconds, most_bytes=MOST)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
async def test_reads_a_body(answer: bytes) -> None:
    async with _server(_sends(answer)) as port:
        assert await _fetch(port) == b"{}"


@pytest.mark.asyncio
async def test_not_yet_is_no_body() -> None:
    async with _server(_sends(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")) as port:
        assert await _fetch(port) is None


@pytest.mark.asyncio
async def test_nobody_there_is_told_at_once_and_costs_nothing() -> None:
    async with _server(_sends()) as port:
        pass
    with pytest.raises(FetchError) as refused:
        await _fetch(port)
    assert not refused.value.is_costly


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("first", "rest"),
    [
        (b"", b"x" * 4096),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 4096),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 500),
        (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 500),
        (b"HTTP/1.1 200 OK\r\nA: ", b"b" * 4096),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 200),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"A: b\r\n" * 500),
    ],
    ids=["noise", "body", "chunks", "headers", "one header", "interim responses", "trailers"],
)
async def test_what_never_ends_is_cut_off_after_its_bytes(first: bytes, rest: bytes) -> None:
    sent: list[int] = []
    async with _server(_sends_for_ever(first, rest, sent)) as port:
        with pytest.raises(FetchError, match=f"more than {MOST + MOST_HEADER_BYTES} bytes"):
            await _fetch(port)
    # What the sockets buffer comes on top.
    assert sum(sent) < 20 * 2**20


@pytest.mark.asyncio
@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"])
async def test_what_drips_is_cut_off_after_its_time(first: bytes) -> None:
    async with _server(_sends_for_ever(first, b"x", [], pause_seconds=0.05)) as port:
        with pytest.raises(FetchError, match="no answer within") as late:
            await _fetch(port, timeout_seconds=0.4)
    assert late.value.is_costly


@pytest.mark.asyncio
@pytest.mark.parametrize("status", [b"301 Moved", b"302 Found", b"307 Temporary", b"308 Permanent"])
async def test_a_redirect_is_not_followed(status: bytes) -> None:
    asked = []

    async def elsewhere(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(writer.get_extra_info("peername"))
        writer.close()

    async with _server(elsewhere) as other:
        answer = b"HTTP/1.1 " + status + f"\r\nLocation: http://{HOST}:{other}/\r\nContent-Length: 0\r\n\r\n".encode()
        async with _server(_sends(answer)) as port:
            with pytest.raises(FetchError, match="status 30"):
                await _fetch(port)
    assert not asked


ANSWERS = {
    "nothing": b"",
    "empty lines": b"\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "another version": b"HTTP/9.9 200 OK\r\n\r\n{}",
    "a status in words": b"HTTP/1.1 two OK\r\n\r\n{}",
    "cut short": b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
    "a chunk beyond 64 bits": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}",
    "a chunk without a size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n{}",
    "not found": b"HTTP/1.1 404 Not Found\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 101 + b"\r\n{}",
    "compressed": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"\0" * 2**20),
    "too long": b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (MOST + 1),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_anything_else_is_no_answer(answer: bytes) -> None:
    with pytest.raises(FetchError):
        read_answer(answer, MOST)


@given(
    st.binary(max_size=300),
    st.sampled_from([b"", b"HTTP/1.1 ", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"]),
)
def test_no_bytes_make_it_raise_anything_else(rest: bytes, first: bytes) -> None:
    try:
        body = read_answer(first + rest, MOST)
    except FetchError as error:
        assert len(str(error)) < MOST_HEADER_BYTES
    else:
        assert body is None or len(body) <= MOST
