"""Movers that keep the operator waiting or busy, while another tenant's cap changes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import statistics
from collections.abc import Awaitable, Callable

import installation
from kubelet import FakeNodes
from lab import NAMESPACES, Lab, eventually

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.victim import Site
from fairlead.kube.client import JOBS, KubeObject

PROMISED_SECONDS = 3.0
LONGEST_SECONDS = 15.0
CHANGES = 5
BATCH = 25

_victims = iter(reversed(NAMESPACES))
"""Attacks take theirs from the other end."""

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _against_others(site: Site, judge: Judge, serve: Serve, *, movers: int) -> None:
    """Runs so many jobs whose receivers behave like `serve`, and measures how long another tenant's cap changes take."""
    # As the chart has it, and no mover is started again however long this machine takes to start the crowd.
    site.settings |= {"POLL_INTERVAL_SECONDS": "3", "STARTUP_TIMEOUT_SECONDS": "3600"}
    victim = Lab(next(_victims), site.client, site.kubectl, site.operator_kubeconfig)
    await installation.make_namespace(site.client, victim.namespace)
    servers: list[asyncio.Server] = []
    try:
        async with (
            site.operator(),
            FakeNodes(site.client, victim.namespace).running() as honest,
            FakeNodes(site.client, site.namespace).running() as crowd,
        ):
            await victim.create_job(bandwidth={"limit": "50M"})
            for role in ("receiver", "sender"):
                await honest.start(await victim.appears(role))
            await victim.condition("MoversReady")
            await _crowd(site, crowd, serve, servers, movers)
            took = [await _cap_change(victim, f"{number + 1}M") for number in range(CHANGES)]
        median = statistics.median(took)
        shown = ", ".join(f"{seconds:.1f}" for seconds in took)
        judge(median < PROMISED_SECONDS, f"with {movers} such movers of another tenant {CHANGES} cap changes took {shown} s")
    finally:
        for server in servers:
            server.close()
        await installation.release(site.client, victim.namespace)


async def _crowd(site: Site, crowd: FakeNodes, serve: Serve, servers: list[asyncio.Server], movers: int) -> None:
    """Jobs on the pod network, each with a receiver at an address of its own."""
    started: set[str] = set()
    numbers = itertools.count()

    async def start(pod: KubeObject) -> None:
        number = next(numbers)
        address = f"127.1.{number // 250}.{number % 250 + 1}"
        servers.append(await asyncio.start_server(serve, address, _http_port(pod)))
        await crowd.start(pod, serve=False, address=address)

    for first in range(0, movers, BATCH):
        count = min(BATCH, movers - first)
        await asyncio.gather(*(site.create_job(f"crowd-{first + number}", network="Pod") for number in range(count)))

        async def all_run(wanted: int = first + count) -> bool:
            news = [pod for pod in await site.pods() if pod["metadata"]["name"] not in started]
            started.update(pod["metadata"]["name"] for pod in news)
            await asyncio.gather(*(start(pod) for pod in news))
            return len(started) >= wanted

        await eventually(all_run, f"{first + count} receivers of the crowd")


def _http_port(pod: KubeObject) -> int:
    ports = [port for each in pod["spec"]["containers"] for port in each.get("ports", ())]
    return next(int(port["containerPort"]) for port in ports if port["name"] == "http")


async def _cap_change(victim: Lab, limit: str) -> float:
    """Seconds from the change of a job's limit to the annotation of its sender, or somewhat more than LONGEST_SECONDS."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await victim.client.merge_patch(JOBS, victim.namespace, "job", {"spec": {"bandwidth": {"limit": limit}}})

    async def changed() -> bool:
        sender = await victim.pod("sender")
        return sender is not None and sender["metadata"]["annotations"].get("kubernetes.io/egress-bandwidth") == limit

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(eventually(changed, f"the cap {limit}"), LONGEST_SECONDS)
    return loop.time() - begun


def _sends(first: bytes, rest: bytes = b"", pause_seconds: float = 0.0) -> Serve:
    """Answers every request with `first`, and then with `rest` without end, or with nothing more."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(first)
            while rest:
                writer.write(rest)
                await writer.drain()
                await asyncio.sleep(pause_seconds)
            await reader.read()
        writer.close()

    return serve


@gains("has the operator's workers wait, and nobody's caps and jobs go on")
async def attack_hundreds_of_silent_movers(site: Site, judge: Judge) -> None:
    """200 movers of a tenant accept every poll and say nothing, while another tenant's cap changes."""
    await _against_others(site, judge, _sends(b""), movers=200)


@gains("has the operator's workers wait, whatever each single read may take")
async def attack_movers_that_drip(site: Site, judge: Judge) -> None:
    """100 movers answer a byte at a time, while another tenant's cap changes."""
    await _against_others(site, judge, _sends(b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n", b" ", 0.2), movers=100)


@gains("fills the operator's memory, or keeps its only thread busy")
async def attack_bodies_without_end(site: Site, judge: Judge) -> None:
    """50 movers answer with a body that never ends, as fast as it is taken, while another tenant's cap changes."""
    await _against_others(site, judge, _sends(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536), movers=50)


@gains("keeps the operator's only thread busy with answers that come before the answer")
async def attack_interim_responses_without_end(site: Site, judge: Judge) -> None:
    """50 movers answer with interim responses (100 Continue) without end, while another tenant's cap changes."""
    await _against_others(site, judge, _sends(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2000), movers=50)
