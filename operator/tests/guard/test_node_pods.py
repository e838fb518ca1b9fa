"""The guard's watches at an API server: how they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from guard_pods import make_pod
from kubernetes.aio.client import Configuration

from fairlead.guard import main as guard
from fairlead.guard.main import NodePods
from fairlead.guard.senders import JobRef
from fairlead.kube.client import KubeObject
from fairlead.kube.errors import UnavailableError

pytestmark = pytest.mark.asyncio
JOB = JobRef("physics", "run42", "job-uid")
BOOKMARK = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "9"}}}


class ApiServer:
    """Lists one pod at version 7. Each watch tells the same events and then nothing, or ends."""

    def __init__(self, *events: KubeObject, ends: bool = False) -> None:
        self.events, self.ends = events, ends
        self.queries: list[dict[str, str]] = []
        self.over = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.queries.append(dict(request.query))
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": [make_pod()]})
        response = web.StreamResponse()
        await response.prepare(request)
        for event in self.events:
            await response.write(json.dumps(event).encode() + b"\n")
        if not self.ends:
            await self.over.wait()
        return response

    @asynccontextmanager
    async def node(self) -> AsyncIterator[NodePods]:
        app = web.Application()
        app.router.add_get("/{path:.*}", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        pods = NodePods(Configuration(host=f"http://{host}:{port}"), "dtn-a")
        try:
            yield pods
        finally:
            await pods.close()
            self.over.set()
            await runner.cleanup()


@pytest.mark.parametrize("of", ["pods", "a job"])
async def test_a_watch_whose_connection_died_silently_ends(of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SILENCE_SECONDS", 0.2)
    server = ApiServer({"type": "MODIFIED", "object": make_pod()})
    seen: list[object] = []
    async with server.node() as pods, asyncio.timeout(10):
        async for each in pods.changes() if of == "pods" else pods.job(JOB):
            seen.append(each)
    assert len(seen) == 1
    # Without bookmarks a watch of what does not change would be silent too.
    assert server.queries[-1]["allowWatchBookmarks"] == "true"


async def test_a_watch_that_cannot_be_had_is_an_error() -> None:
    pods = NodePods(Configuration(host="http://127.0.0.1:9"), "dtn-a")
    with pytest.raises(UnavailableError):
        await anext(aiter(pods.job(JOB)))
    await pods.close()


async def test_a_watch_that_the_server_ends_in_its_time_is_no_error() -> None:
    server = ApiServer(BOOKMARK, ends=True)
    async with server.node() as pods:
        assert [each async for each in pods.changes()] == []
        assert [each async for each in pods.job(JOB)] == []
    assert {query["timeoutSeconds"] for query in server.queries} == {str(guard.WATCH_SECONDS)}


async def test_pods_are_followed_from_the_version_that_was_listed() -> None:
    server = ApiServer(ends=True)
    async with server.node() as pods:
        assert len(await pods.now()) == 1
        assert [each async for each in pods.changes()] == []
    assert server.queries[-1]["resourceVersion"] == "7"
    assert {query["fieldSelector"] for query in server.queries} == {"spec.nodeName=dtn-a"}


async def test_many_watches_keep_no_list_waiting_for_a_connection() -> None:
    server = ApiServer({"type": "ADDED", "object": {"metadata": {}}})
    async with server.node() as pods, asyncio.timeout(20):
        watching = [pods.job(JOB) for _ in range(110)]
        await asyncio.gather(*(anext(aiter(each)) for each in watching))
        assert len(await pods.now()) == 1
