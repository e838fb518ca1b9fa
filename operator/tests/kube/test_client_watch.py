"""What becomes of a watch's connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kubernetes.aio.client import Configuration

from fairlead.kube.client import PODS, KubeClient
from fairlead.kube.errors import ConflictError, KubeError

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def _watched(event: dict[str, Any]) -> AsyncIterator[tuple[KubeClient, asyncio.Event]]:
    """A client of a server whose watch shows one event and goes on; and whether its client has gone away."""
    gone = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        line = json.dumps(event).encode() + b"\n"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        assert await reader.read() == b""
        gone.set()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    client = KubeClient(Configuration(host=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    async with server:
        yield client, gone
        await client.close()


async def test_a_watch_that_is_given_up_gives_its_connection_back() -> None:
    seen = asyncio.Event()

    async def follow(client: KubeClient) -> None:
        async for _ in client.changes(PODS, "1", 300):
            seen.set()

    async with _watched({"type": "ADDED", "object": {"metadata": {"name": "pod"}}}) as (client, gone):
        task = asyncio.create_task(follow(client))
        await seen.wait()
        task.cancel()
        await asyncio.wait_for(gone.wait(), 10)


@pytest.mark.parametrize(
    ("event", "error"), [({"type": "ERROR", "object": {"code": 410, "message": "too old"}}, ConflictError), ({"type": "ADDED"}, KubeError)]
)
async def test_a_watch_that_fails_gives_its_connection_back(event: dict[str, Any], error: type[KubeError]) -> None:
    async with _watched(event) as (client, gone):
        with pytest.raises(error):
            await anext(client.changes(PODS, "1", 300))
        await asyncio.wait_for(gone.wait(), 10)
