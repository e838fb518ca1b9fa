"""Polling over real sockets in the test's own network: slow, huge, lying and redirecting movers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from control_plane import ControlPlane
from lab import PATIENCE_SECONDS

from fairlead.core.observed import MoverPod, PodPhase, Role
from fairlead.core.reports import Reports
from fairlead.kube.observe.reports import ReportReader

ADDRESS = "127.0.0.21"
BASE = 24000
JOB = "job-uid"
PROGRESS: dict[str, Any] = {
    "role": "receiver",
    "job": JOB,
    "attempt": 1,
    "stage": "Transferring",
    "bytes_total": None,
    "bytes_transferred": 5,
    "bytes_skipped": 0,
    "files_total": None,
    "files_transferred": 1,
    "files_skipped": 0,
    "rate_bytes_per_second": 12.5,
    "seconds_since_progress": 0.5,
    "quiet_seconds": 2.5,
    "streams": 4,
    "congestion_control": "cubic",
}
ENDPOINT = {"role": "receiver", "interface": "data0", "address": "198.19.0.2", "port": 24000, "numa_node": 1}

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture(autouse=True)
def _own_network(control_plane: ControlPlane) -> None:
    """The session's control plane has put this process into a network of its own."""


def _pod(role: Role = Role.RECEIVER, **fields: Any) -> MoverPod:
    values: dict[str, Any] = {
        "name": "p",
        "uid": "u",
        "resource_version": "1",
        "role": role,
        "attempt": 1,
        "phase": PodPhase.RUNNING,
        "ready": True,
        "deleting": False,
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "node": "dtn-b",
        "address": ADDRESS,
        "port_base": BASE,
        "verdict": None,
    }
    return MoverPod(**(values | fields))


@asynccontextmanager
async def _mover(port: int = BASE + 1, **answers: Answer) -> AsyncIterator[Counter[str]]:
    asked: Counter[str] = Counter()

    @web.middleware
    async def count(request: web.Request, handler: Answer) -> web.StreamResponse:
        asked[request.path] += 1
        return await handler(request)

    app = web.Application(middlewares=[count])
    for name, answer in answers.items():
        app.router.add_get(f"/v1/{name}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, ADDRESS, port).start()
    try:
        yield asked
    finally:
        await runner.cleanup()


def _says(body: Any, status: int = 200) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=body if isinstance(body, str) else json.dumps(body), status=status)

    return answer


async def _read(
    *pods: MoverPod, timeout_seconds: float = PATIENCE_SECONDS, ports: range = range(24000, 26000)
) -> tuple[Reports, Counter[str]]:
    failures: Counter[str] = Counter()
    reader = ReportReader(
        ports, wall=lambda: 1_800_000_000.0, timeout_seconds=timeout_seconds, on_failure=lambda path: failures.update([path])
    )
    return await reader.read(JOB, pods or (_pod(),)), failures


async def test_reads_what_a_receiver_says() -> None:
    async with _mover(endpoint=_says(ENDPOINT), progress=_says(PROGRESS)):
        reports, failures = await _read()
    assert reports.receiver_endpoint is not None
    assert (reports.receiver_endpoint.address, reports.receiver_endpoint.numa_node) == ("198.19.0.2", 1)
    assert reports.receiver is not None
    assert (reports.receiver.bytes_total, reports.receiver.bytes_transferred) == (None, 5)
    assert reports.receiver.quiet_seconds == 2.5
    assert not failures


async def test_not_known_yet_is_no_failure() -> None:
    async with _mover(endpoint=_says("", 503), progress=_says("", 503)):
        reports, failures = await _read()
    assert reports == Reports(receiver_unheard_seconds=0.0, endpoint_unheard_seconds=0.0)
    assert not failures


async def test_nobody_there_is_nothing_said() -> None:
    reports, failures = await _read()
    assert reports == Reports(receiver_unheard_seconds=0.0, endpoint_unheard_seconds=0.0)
    assert failures == {"/v1/endpoint": 1, "/v1/progress": 1}


async def test_a_mover_that_hangs_costs_the_timeout_once_and_spares_the_other_answers() -> None:
    release = asyncio.Event()

    async def hang(_: web.Request) -> web.StreamResponse:
        await release.wait()
        return web.Response()

    async with _mover(endpoint=_says(ENDPOINT), progress=hang) as asked:
        # Long enough that the other answer is there before, also where the machine pauses.
        reports, failures = await _read(timeout_seconds=4.0)
        release.set()
    assert reports.receiver is None
    assert reports.receiver_endpoint is not None
    assert (asked["/v1/progress"], failures) == (1, {"/v1/progress": 1})


async def test_a_body_without_end_is_cut_off() -> None:
    sent = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while sent < 100 * 2**20:
            await response.write(b"x" * 65536)
            sent += 65536
        return response

    async with _mover(endpoint=_says(ENDPOINT), progress=flood):
        reports, failures = await _read()
    assert reports.receiver is None
    assert failures == {"/v1/progress": 1}
    assert sent < 20 * 2**20


async def test_a_redirect_is_not_followed() -> None:
    async def redirect(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(f"http://{ADDRESS}:{BASE + 1}/v1/elsewhere")

    async with _mover(endpoint=redirect, progress=_says(PROGRESS), elsewhere=_says(ENDPOINT)) as asked:
        reports, _ = await _read()
    assert reports.receiver_endpoint is None
    assert asked["/v1/elsewhere"] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"job": "another"},
        {"attempt": 2},
        {"role": "sender"},
        {"stage": "Dancing"},
        {"bytes_transferred": -1},
        {"rate_bytes_per_second": "fast"},
        {"congestion_control": "x" * 100},
    ],
)
async def test_progress_that_is_malformed_or_another_movers_is_not_believed(change: dict[str, Any]) -> None:
    async with _mover(endpoint=_says(ENDPOINT), progress=_says(PROGRESS | change)):
        reports, _ = await _read()
    assert reports.receiver is None


@pytest.mark.parametrize(
    "change", [{"address": "example.com"}, {"address": "0.0.0.0"}, {"interface": "a b"}, {"port": 70000}, {"role": "sender"}]
)
async def test_an_endpoint_that_is_none_is_not_believed(change: dict[str, Any]) -> None:
    async with _mover(endpoint=_says(ENDPOINT | change), progress=_says(PROGRESS)):
        reports, _ = await _read()
    assert reports.receiver_endpoint is None


@pytest.mark.parametrize(
    "pod",
    [
        _pod(phase=PodPhase.PENDING),
        _pod(deleting=True),
        _pod(address=None),
        _pod(port_base=None),
        _pod(role=Role.CLEANER),
    ],
)
async def test_only_movers_that_run_are_asked(pod: MoverPod) -> None:
    async with _mover(endpoint=_says(ENDPOINT), progress=_says(PROGRESS)) as asked:
        await _read(pod)
    assert not asked


async def test_no_port_outside_the_range_is_dialled() -> None:
    async with _mover(port=10250, endpoint=_says(ENDPOINT), progress=_says(PROGRESS)) as asked:
        await _read(_pod(port_base=10249))
    assert not asked


async def test_reads_the_decision_from_the_advisors_port() -> None:
    decision = {
        "version": 1,
        "path": {"rtt_seconds": 0.06, "rtt_minimum_seconds": None, "loss_ratio": 0.001, "samples": 200},
        "decision": {
            "protocol": "TCP",
            "congestion_control": "bbr",
            "streams": 8,
            "background": {"class": "cubic", "probability": 0.9},
            "confidence": 0.8,
            "abstained": False,
            "model": "2026.1",
            "reason": "Classified",
            "message": "one CUBIC flow\x1b[0m",
            "decided_at": "2026-01-01T00:00:00Z",
        },
        "applied": True,
    }
    async with _mover(port=BASE + 2, decision=_says(decision)):
        reports, _ = await _read(_pod(role=Role.SENDER))
    assert reports.path is not None
    assert (reports.path.rtt_seconds, reports.path.rtt_minimum_seconds, reports.path.loss_ratio) == (0.06, None, 0.001)
    assert reports.decision is not None
    assert (reports.decision.background, reports.decision.background_probability, reports.decision.model) == ("cubic", 0.9, "2026.1")
    assert reports.decision.message == "one CUBIC flow [0m"
    assert reports.decision.decided_at == datetime(2026, 1, 1, tzinfo=UTC)


async def test_only_the_newest_attempt_is_asked() -> None:
    async with _mover(endpoint=_says(ENDPOINT), progress=_says(PROGRESS | {"attempt": 2})) as asked:
        reports, _ = await _read(_pod(port_base=BASE + 8), _pod(attempt=2))
    assert asked == {"/v1/endpoint": 1, "/v1/progress": 1}
    assert reports.receiver is not None
