"""Idle, slow and greedy clients of a real port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web
from local_ports import free_port

from fairlead.handlers import listener
from fairlead.handlers.listener import MOST_WAITING, MOST_WAITING_PER_SOURCE, OperatorListener, source_of
from fairlead.handlers.options import read_options

pytestmark = pytest.mark.asyncio
HOST = "127.0.0.1"
PATIENCE_SECONDS = 600.0
SOURCES = {
    "operator": Path(listener.__file__).read_text(),
    "advisor": (Path(__file__).resolve().parents[3] / "images/advisor/fairlead_advisor/serve/listener.py").read_text(),
}


async def test_the_advisors_listener_is_the_same_code() -> None:
    """Operator and advisor are two packages in two images, and neither may import the other."""
    assert SOURCES["advisor"].replace("SidecarListener", "OperatorListener") == SOURCES["operator"]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may keep this process from working for seconds, which ends no connection."""
    for name in ("HEADER_SECONDS", "ANSWER_SECONDS"):
        monkeypatch.setattr(listener, name, PATIENCE_SECONDS)


@asynccontextmanager
async def serving(asked: asyncio.Event | None = None) -> AsyncIterator[int]:
    app = web.Application()

    async def large(_: web.Request) -> web.Response:
        if asked is not None:
            asked.set()
        return web.Response(body=b"x" * (64 << 20))

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="page")

    app.router.add_get("/page", page)
    app.router.add_get("/large", large)
    async with OperatorListener().serve(app, HOST, 0) as port:
        yield port


async def ask(port: int, source: str = HOST, head: str = "GET /page HTTP/1.1\r\nHost: page", host: str = HOST) -> str:
    reader, writer = await asyncio.open_connection(host, port, local_addr=(source, 0))
    writer.write(f"{head}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()


async def test_without_a_host_both_families_are_served() -> None:
    """As kubelets probe the pod's first address, of whatever family that is."""
    app = web.Application()

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="page")

    app.router.add_get("/page", page)
    default = read_options([], {"FAIRLEAD_MOVER_IMAGE": "m", "FAIRLEAD_ADVISOR_IMAGE": "a"}).health
    async with OperatorListener().serve(app, default.host, free_port()) as port:
        for host in (HOST, "::1"):
            assert (await ask(port, host=host, source=host)).endswith("page")


async def connect(port: int, source: str = HOST) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(HOST, port, local_addr=(source, 0))


async def ended(reader: asyncio.StreamReader) -> bytes:
    with suppress(ConnectionError):
        return await reader.read()
    return b""


async def test_idle_connections_of_many_sources_keep_nobody_from_an_answer() -> None:
    async with serving() as port, asyncio.timeout(PATIENCE_SECONDS):
        first = [await connect(port, f"127.0.0.{2 + number % 9}") for number in range(MOST_WAITING)]
        # The first of the busiest sources give way to these.
        more = [await connect(port, f"127.0.1.{2 + number % 200}") for number in range(300)]
        for source in (HOST, "127.0.0.2", "127.0.3.3"):
            assert (await ask(port, source)).endswith("page")
        assert await ended(first[0][0]) == b""
        for _, writer in (*first, *more):
            writer.close()


async def test_one_source_has_no_more_than_its_part() -> None:
    async with serving() as port, asyncio.timeout(PATIENCE_SECONDS):
        connections = [await connect(port) for _ in range(MOST_WAITING_PER_SOURCE + 3)]
        for reader, _ in connections[:3]:
            assert await ended(reader) == b""
        reader, writer = connections[3]
        writer.write(b"GET /page HTTP/1.1\r\nHost: page\r\n\r\n")
        assert (await reader.read()).endswith(b"page")
        for _, writer in connections:
            writer.close()


async def test_a_header_that_comes_slowly_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HEADER_SECONDS", 0.3)
    async with serving() as port, asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await connect(port)
        writer.write(b"GET /page HTTP/1.1\r\n")
        with suppress(ConnectionError):
            while not reader.at_eof() and not writer.is_closing():
                writer.write(b"X: y\r\n")
                await writer.drain()
                await asyncio.sleep(0.02)
        monkeypatch.setattr(listener, "HEADER_SECONDS", PATIENCE_SECONDS)
        assert (await ask(port)).endswith("page")


async def test_an_answer_that_nobody_reads_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "ANSWER_SECONDS", 0.3)
    asked = asyncio.Event()
    async with serving(asked) as port, asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await connect(port)
        writer.write(b"GET /large HTTP/1.1\r\nHost: page\r\n\r\n")
        # The answer's time began before it was asked for: a later timer of the same loop ends after it.
        await asked.wait()
        await asyncio.sleep(1)
        assert len(await ended(reader)) < 64 << 20
        writer.close()


async def test_a_huge_header_is_refused_without_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as port, asyncio.timeout(PATIENCE_SECONDS):
        answer = await ask(port, head="GET /page HTTP/1.1\r\nX-Fill: " + "y" * 20_000)
        assert "400 Bad Request" in answer.splitlines()[0]
        assert not caplog.records


async def test_every_connection_ends_with_its_answer() -> None:
    async with serving() as port, asyncio.timeout(PATIENCE_SECONDS):
        assert "Connection: close" in await ask(port)
        assert "404" in (await ask(port, head="GET /other HTTP/1.1\r\nHost: page")).splitlines()[0]


@pytest.mark.parametrize(
    ("peer", "source"),
    [
        (("198.18.0.1", 5), "198.18.0.1"),
        (("::ffff:198.18.0.1", 5, 0, 0), "198.18.0.1"),
        (("2001:db8:1:2::3", 5, 0, 0), "20010db800010002"),
        (("2001:db8:1:2:ffff::4", 5, 0, 0), "20010db800010002"),
        (("fe80::1%eth0", 5, 0, 2), "fe80000000000000"),
        ("", ""),
        (None, ""),
        (("nonsense", 1), ""),
    ],
)
async def test_one_host_is_one_source(peer: object, source: str) -> None:
    assert source_of(peer) == source
