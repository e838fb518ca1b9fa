"""The proxy does to a request exactly what a plan says, and to all others nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from control_plane import ControlPlane

from faults.plans import Fault, Plan, Point, read_plan
from faults.proxy import DENIED_SECONDS, FaultProxy, Write, target_of

pytestmark = pytest.mark.asyncio
PODS = "/api/v1/namespaces/lab/pods"


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "what"),
    [
        ("GET", "/apis/fairlead.io/v1alpha1/transferjobs", "limit=500", b"", "LIST transferjobs"),
        ("GET", "/api/v1/namespaces/lab/pods", "watch=true", b"", "WATCH pods"),
        ("GET", "/api/v1/namespaces", "", b"", "LIST namespaces"),
        ("GET", "/api/v1/namespaces/lab", "", b"", "GET namespaces lab"),
        ("POST", PODS, "", b'{"metadata": {"name": "job-0123abcd-receiver-1"}}', "CREATE pods job-receiver-1"),
        ("POST", "/api/v1/namespaces/lab/events", "", b'{"metadata": {"name": "job.6a0cd1f2e3b4a5"}}', "CREATE events job"),
        ("PATCH", "/apis/fairlead.io/v1alpha1/namespaces/lab/transferjobs/job/status", "", b"{}", "PATCH transferjobs/status job"),
        ("DELETE", "/api/v1/namespaces/lab/secrets/job-0123abcd-credentials-2", "", b"{}", "DELETE secrets job-credentials-2"),
    ],
)
async def test_a_request_is_named_alike_in_every_run(method: str, path: str, query: str, body: bytes, what: str) -> None:
    assert target_of(method, path, query, body).what == what


@dataclass
class Server:
    """Takes creations of pods, lists them, and tells of two pods to whoever watches."""

    carried_out: list[str] = field(default_factory=list)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    """Until when creations wait for their answer, though they were carried out."""

    def __post_init__(self) -> None:
        self.may_answer.set()

    async def list(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await self.watch(request)
        return web.json_response(self.carried_out)

    async def create(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        self.carried_out.append(body["metadata"]["name"])
        await self.may_answer.wait()
        return web.json_response(body, status=201)

    async def watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for name in ("first", "second"):
            await response.write(json.dumps({"type": "ADDED", "object": {"metadata": {"name": name}}}).encode() + b"\n")
        return response


@dataclass
class Disturbed:
    """Operators that note what is done to them, and what had been carried out by then."""

    server: Server
    done: list[tuple[str, bool]] = field(default_factory=list)

    async def kill(self, clock_off_seconds: float = 0.0) -> None:
        self._note(f"killed {clock_off_seconds:+.0f}" if clock_off_seconds else "killed")

    async def freeze(self) -> None:
        self._note("frozen")

    def thaw(self) -> None:
        self._note("thawed")

    def _note(self, what: str) -> None:
        self.done.append((what, bool(self.server.carried_out)))


@dataclass
class Bench:
    server: Server
    proxy: FaultProxy
    url: str
    operators: Disturbed
    written: list[Write]
    session: aiohttp.ClientSession

    async def create(self, name: str) -> int:
        async with self.session.post(f"{self.url}{PODS}", json={"metadata": {"name": name}}) as answer:
            await answer.read()
            return answer.status

    async def list(self) -> Any:
        async with self.session.get(f"{self.url}{PODS}") as answer:
            return await answer.json()

    async def watch(self) -> list[Any]:
        async with self.session.get(f"{self.url}{PODS}?watch=true") as answer:
            return [json.loads(line) async for line in answer.content]


@asynccontextmanager
async def _bench(control_plane: ControlPlane, plan: Plan | None) -> AsyncIterator[Bench]:
    server, written = Server(), []
    operators = Disturbed(server)
    app = web.Application()
    app.router.add_post(PODS, server.create)
    app.router.add_get(PODS, server.list)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()

    ca, certificate, key = control_plane.ca, control_plane.server_certificate, control_plane.server_key
    place = f"http://127.0.0.1:{runner.addresses[0][1]}"
    proxy = FaultProxy(place, ca, certificate, key, operators, plan, written.append, stall_seconds=0.0)
    await proxy.start("127.0.0.1", 17002)
    try:
        async with aiohttp.ClientSession() as session:
            yield Bench(server, proxy, "http://127.0.0.1:17002", operators, written, session)
    finally:
        await proxy.stop()
        await runner.cleanup()


def _plan(fault: Fault) -> Plan:
    return Plan("create", fault, Point("CREATE pods planned", 1))


async def test_without_a_plan_everything_passes_and_is_recorded(control_plane: ControlPlane) -> None:
    async with _bench(control_plane, None) as bench:
        assert await bench.create("one") == 201
        assert [event["object"]["metadata"]["name"] for event in await bench.watch()] == ["first", "second"]
        assert bench.proxy.seen == ["CREATE pods one", "ADDED pods first", "ADDED pods second"]
        assert [write.what for write in bench.written] == ["CREATE pods one"]
        assert bench.proxy.under_way == 0


@pytest.mark.parametrize("fault", [Fault.UNAUTHORIZED, Fault.FORBIDDEN, Fault.CONFLICT, Fault.THROTTLED, Fault.BROKEN, Fault.UNAVAILABLE])
async def test_a_refusal_is_not_carried_out_and_only_the_planned_request_gets_it(control_plane: ControlPlane, fault: Fault) -> None:
    async with _bench(control_plane, _plan(fault)) as bench:
        assert await bench.create("other") == 201
        assert await bench.create("planned") == int(fault)
        assert bench.proxy.denied == []
        assert await bench.create("planned") == 201
        assert bench.server.carried_out == ["other", "planned"]


async def test_what_timed_out_was_carried_out_all_the_same(control_plane: ControlPlane) -> None:
    async with _bench(control_plane, _plan(Fault.APPLIED_BUT_504)) as bench:
        assert await bench.create("planned") == 504
        assert bench.server.carried_out == ["planned"]
        assert len(bench.written) == 1


@pytest.mark.parametrize(
    ("fault", "is_carried_out", "done"),
    [
        (Fault.CLOSED_BEFORE, False, []),
        (Fault.STALLED, False, []),
        (Fault.CLOSED_AFTER, True, []),
        (Fault.KILLED_BEFORE, False, [("killed", False)]),
        (Fault.KILLED_UNANSWERED, True, [("killed", True)]),
        (Fault.STALE, True, [("killed", True)]),
        (Fault.AHEAD, True, [("killed +3600", True)]),
        (Fault.BEHIND, True, [("killed -3600", True)]),
    ],
)
async def test_an_answer_that_never_comes(
    control_plane: ControlPlane, fault: Fault, is_carried_out: bool, done: list[tuple[str, bool]]
) -> None:
    async with _bench(control_plane, _plan(fault)) as bench:
        with pytest.raises(aiohttp.ClientError):
            await bench.create("planned")
        assert bool(bench.server.carried_out) is is_carried_out
        assert bench.operators.done == done


@pytest.mark.parametrize(("fault", "is_before"), [(Fault.FROZEN_BEFORE, True), (Fault.FROZEN_AFTER, False)])
async def test_a_request_is_answered_when_another_operator_leads(control_plane: ControlPlane, fault: Fault, is_before: bool) -> None:
    async with _bench(control_plane, _plan(fault)) as bench:
        assert await bench.create("planned") == 201
        assert bench.operators.done == [("frozen", not is_before), ("thawed", True)]


async def test_a_right_is_gone_for_a_while_from_the_planned_request_on(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    monkeypatch.setattr("faults.proxy.time.monotonic", lambda: now_s[0])
    async with _bench(control_plane, _plan(Fault.DENIED)) as bench:
        assert await bench.create("other") == 201
        assert [await bench.create("planned"), await bench.create("other")] == [403, 403]
        assert bench.proxy.denied == ["CREATE pods planned", "CREATE pods other"]
        assert await bench.list() == ["other"]
        now_s[0] = DENIED_SECONDS
        assert await bench.create("planned") == 201
        assert len(bench.proxy.denied) == 2


async def test_what_is_listed_after_a_stale_restart_is_what_was_listed_first_and_then_what_is(control_plane: ControlPlane) -> None:
    async with _bench(control_plane, _plan(Fault.STALE)) as bench:
        assert await bench.list() == []
        assert await bench.create("other") == 201
        assert await bench.list() == ["other"]
        with pytest.raises(aiohttp.ClientError):
            await bench.create("planned")
        assert await bench.list() == []
        assert await bench.list() == ["other", "planned"]


async def test_a_kill_after_the_answer_comes_when_that_is_there(control_plane: ControlPlane) -> None:
    async with _bench(control_plane, _plan(Fault.KILLED_AFTER)) as bench:
        assert await bench.create("planned") == 201
        await _until(lambda: bool(bench.operators.done))


async def test_a_write_is_recorded_though_its_client_went_away(control_plane: ControlPlane) -> None:
    async with _bench(control_plane, None) as bench:
        bench.server.may_answer.clear()
        asked = asyncio.create_task(bench.create("one"))
        await _until(lambda: bench.server.carried_out == ["one"])
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        # The proxy learns that its client is gone before the server answers.
        await asyncio.sleep(0.2)
        assert (bench.written, bench.proxy.under_way) == ([], 1)
        bench.server.may_answer.set()
        await _until(lambda: not bench.proxy.under_way)
        assert [write.what for write in bench.written] == ["CREATE pods one"]


async def test_a_proxy_ends_after_what_it_forwarded_was_recorded(control_plane: ControlPlane) -> None:
    async with _bench(control_plane, None) as bench:
        bench.server.may_answer.clear()
        asked = asyncio.create_task(bench.create("one"))
        await _until(lambda: bench.server.carried_out == ["one"])
        ending = asyncio.create_task(bench.proxy.stop())
        await asyncio.gather(asked, return_exceptions=True)
        bench.server.may_answer.set()
        await ending
        assert [write.what for write in bench.written] == ["CREATE pods one"]


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("fault", "names"),
    [
        (Fault.DROPPED, ["first"]),
        (Fault.REPEATED, ["first", "second", "second"]),
        (Fault.LATE, ["first", "second"]),
        (Fault.ENDED, ["first"]),
    ],
)
async def test_what_a_watch_tells(control_plane: ControlPlane, fault: Fault, names: list[str]) -> None:
    async with _bench(control_plane, read_plan(f"create/{fault}@ADDED pods second#1")) as bench:
        assert [event["object"]["metadata"]["name"] for event in await bench.watch()] == names


@pytest.mark.parametrize(("fault", "code"), [(Fault.EXPIRED, 410), (Fault.FAILED, 500)])
async def test_an_error_in_the_place_of_an_event_ends_the_watch(control_plane: ControlPlane, fault: Fault, code: int) -> None:
    async with _bench(control_plane, read_plan(f"create/{fault}@ADDED pods second#1")) as bench:
        first, error = await bench.watch()
        assert (first["type"], error["type"], error["object"]["code"]) == ("ADDED", "ERROR", code)


async def test_a_line_that_is_cut_off_cannot_be_read(control_plane: ControlPlane) -> None:
    async with _bench(control_plane, read_plan("create/truncated@ADDED pods second#1")) as bench:
        with pytest.raises((aiohttp.ClientError, ValueError)):
            await bench.watch()
