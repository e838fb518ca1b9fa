"""What one namespace's jobs take from another's: ports of the nodes, and the operator's time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import installation
from kubelet import FakeNodes
from lab import eventually

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.victim import Site, within
from fairlead.kube.client import KubeObject

AT_A_TIME = 16
LONG_ENOUGH_SECONDS = 30.0
FIRST_PASS_SECONDS = 5.0
"""How soon another namespace's job has to be seen to."""
AS_IN_THE_CHART = {"POLL_INTERVAL_SECONDS": "3", "RECHECK_INTERVAL_SECONDS": "10", "STATUS_INTERVAL_SECONDS": "10"}
UNHURRIED = {"STARTUP_TIMEOUT_SECONDS": "600"}
"""Pods that wait for a node do so until the attack is over, however slow the machine is."""
BLOCKS, MORE_JOBS = 500, 520
"""The blocks of ports in the chart's range, and more jobs than that."""
FEW_PORTS, FEW_BLOCKS, FEW_JOBS = "24000-24063", 16, 24
"""The same where each receiver has to be started."""


@asynccontextmanager
async def _neighbour(site: Site) -> AsyncIterator[Site]:
    """Another tenant's namespace."""
    namespace = f"lab-{int(site.namespace.removeprefix('lab-')) + 200}"
    await installation.make_namespace(site.client, namespace)
    try:
        yield replace(site, namespace=namespace)
    finally:
        await installation.release(site.client, namespace)


async def _create_jobs(site: Site, count: int, **spec: object) -> None:
    at_a_time = asyncio.Semaphore(AT_A_TIME)

    async def create(number: int) -> None:
        async with at_a_time:
            await site.create_job(f"job-{number}", **spec)

    await asyncio.gather(*(create(number) for number in range(count)))


async def _seconds_until_seen(site: Site) -> float:
    """How long a new job waits for its first status."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await site.create_job()

    async def status() -> object:
        return (await site.job()).get("status")

    await within(120, status)
    return loop.time() - begun


async def _receivers(site: Site) -> list[KubeObject]:
    return [pod for pod in await site.pods() if pod["metadata"]["labels"]["fairlead.io/role"] == "receiver"]


async def _receivers_settle(site: Site, most: int) -> int:
    """The number of receivers once no more come after the first."""
    await eventually(lambda: _receivers(site), "a receiver")
    loop = asyncio.get_running_loop()
    count, since = 0, loop.time()
    while count < most and loop.time() < since + 8:
        now = len(await _receivers(site))
        if now != count:
            count, since = now, loop.time()
        await asyncio.sleep(0.5)
    return count


async def _gets_a_receiver(site: Site, judge: Judge, taken: str) -> None:
    """Concludes from whether a job of this namespace starts."""
    await site.create_job()
    found = await within(LONG_ENOUGH_SECONDS, lambda: _receivers(site))
    judge(bool(found), f"{taken}; another namespace's job has {'a receiver' if found else 'no receiver'}")


@gains("keeps every job of the cluster from starting, without any right to the nodes' network")
async def attack_ports_with_pods_on_the_pod_network_that_are_never_placed(site: Site, judge: Judge) -> None:
    """A tenant makes more jobs on the pod network than there are blocks of ports, whose pods no node has room for."""
    site.settings |= AS_IN_THE_CHART | UNHURRIED
    await _create_jobs(site, MORE_JOBS, network="Pod")
    async with _neighbour(site) as victim, site.operator():
        held = await _receivers_settle(site, MORE_JOBS)
        await _gets_a_receiver(victim, judge, f"{held} pods wait for a node, of {BLOCKS} blocks")


@gains("keeps every job of the cluster from starting")
async def attack_ports_with_pods_on_the_nodes_network_that_are_never_placed(site: Site, judge: Judge) -> None:
    """A tenant who may use the nodes' network makes more jobs than there are blocks of ports, whose pods no node has room for."""
    site.settings |= AS_IN_THE_CHART | UNHURRIED
    await _create_jobs(site, MORE_JOBS)
    async with _neighbour(site) as victim, site.operator():
        held = await _receivers_settle(site, MORE_JOBS)
        await _gets_a_receiver(victim, judge, f"{held} pods wait for a node, of {BLOCKS} blocks")


@gains("keeps every other job from a node")
async def attack_ports_with_every_block_of_a_node(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A tenant's receivers run on a node, more of them than there are blocks of ports."""
    site.settings["PORTS"] = FEW_PORTS
    async with _neighbour(site) as victim, site.operator():
        await _create_jobs(site, FEW_JOBS)
        held = await _receivers_settle(site, FEW_JOBS)
        for receiver in await _receivers(site):
            await nodes.start(receiver, serve=False)
        await _gets_a_receiver(victim, judge, f"{held} receivers run on the node, of {FEW_BLOCKS} blocks")


@gains("keeps every other job waiting for minutes")
async def attack_the_queue_with_two_thousand_jobs(site: Site, judge: Judge) -> None:
    """A tenant makes two thousand jobs, and another one makes a job while the operator works on them."""
    site.settings |= AS_IN_THE_CHART
    await _create_jobs(site, 2000)
    async with _neighbour(site) as victim, site.operator():
        seconds = await _seconds_until_seen(victim)
        judge(seconds <= FIRST_PASS_SECONDS, f"another namespace's job was seen to after {seconds:.1f} s")
