"""What a tenant and its movers do to have more of a shared link than is theirs, or to leave others less."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kubelet import FakeNodes
from lab import eventually, fairness_policy

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.victim import Site
from fairlead.api import names
from fairlead.kube.client import JOBS, PATHS, POLICIES, KubeObject

CAP = "kubernetes.io/egress-bandwidth"
G, M = 1e9, 1e6
SUFFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
OUT = {"name": "out", "interfaces": [{"node": "dtn-a", "name": "data0", "direction": "Transmit"}], "capacity": "1G", "headroom": "0"}
IDLE = {"name": "idle", "interfaces": [{"node": "dtn-a", "name": "data1", "direction": "Transmit"}], "capacity": "10G", "headroom": "0"}
WAIT_SECONDS = 30.0
"""An honest job of a tenant that has its part of the link starts much sooner."""


@asynccontextmanager
async def _policy(site: Site, neighbour: Site, *links: dict[str, Any]) -> AsyncIterator[None]:
    """A policy with the two namespaces as tenants of equal weight."""
    tenants = [
        {"name": name, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": one.namespace}}}
        for name, one in (("mallory", site), ("victim", neighbour))
    ]
    made = await site.client.create(POLICIES, None, fairness_policy(links=list(links) or [OUT], tenants=tenants))
    try:
        yield
    finally:
        await site.client.delete(POLICIES, None, "site", uid=made["metadata"]["uid"])


async def _mover(site: Site, job: str, role: str) -> KubeObject | None:
    for pod in await site.pods():
        metadata = pod["metadata"]
        if metadata["annotations"].get(names.ANNOTATION_JOB) == job and metadata["labels"].get(names.LABEL_ROLE) == role:
            return pod
    return None


async def _start(site: Site, nodes: FakeNodes, job: str) -> KubeObject:
    """Starts both movers of the job; returns the sender as it was created."""
    await nodes.start(await eventually(lambda: _mover(site, job, "receiver"), f"the receiver of {job}", lambda: site.job(job)))
    sender = await eventually(lambda: _mover(site, job, "sender"), f"the sender of {job}", lambda: site.job(job))
    await nodes.start(sender)
    return sender


async def _cap_bps(site: Site, job: str) -> float | None:
    """The cap in its sender's annotation, None without one."""
    pod = await _mover(site, job, "sender")
    text = None if pod is None else pod["metadata"]["annotations"].get(CAP)
    if not text:
        return None
    return float(text[:-1]) * SUFFIXES[text[-1]] if text[-1] in SUFFIXES else float(text)


async def _within(seconds: float, look: Callable[[], Any]) -> Any:
    """The first true answer of `look`, or the last one when the time is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        answer = await look()
        if answer or loop.time() >= deadline:
            return answer
        await asyncio.sleep(0.1)


async def _waits(site: Site, job: str) -> str:
    """What its status says of why it waits."""
    conditions = ((await site.job(job)).get("status") or {}).get("conditions") or []
    return next((c["message"] for c in conditions if c["type"] == "Scheduled"), "nothing")


async def _honest_job_starts(neighbour: Site, nodes: FakeNodes, judge: Judge, **spec: Any) -> None:
    """Concludes from whether a job of the other tenant starts, and gets nearly its half of the link."""
    await neighbour.create_job("honest", **spec)
    receiver = await _within(WAIT_SECONDS, lambda: _mover(neighbour, "honest", "receiver"))
    if receiver is None:
        judge(False, f"the job of the other tenant waits: {await _waits(neighbour, 'honest')}")
        return
    await _start(neighbour, nodes, "honest")

    async def has_its_half() -> bool:
        return (await _cap_bps(neighbour, "honest") or 0.0) >= 0.45 * G

    half = await _within(WAIT_SECONDS, has_its_half)
    judge(bool(half), f"the other tenant's job has a cap of {await _cap_bps(neighbour, 'honest')} bit/s")


@gains("keeps every other tenant's jobs from starting, or takes the link from them")
async def attack_with_a_guarantee_of_the_whole_link(site: Site, neighbour: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A tenant gives its job a guarantee of all that the link has."""
    async with _policy(site, neighbour), site.operator(), FakeNodes(neighbour.client, neighbour.namespace).running() as others:
        await site.create_job("hog", bandwidth={"guarantee": "1G"})
        await _start(site, nodes, "hog")
        await _honest_job_starts(neighbour, others, judge)


@gains("keeps every other tenant's jobs from starting without ever sending a byte")
async def attack_with_guarantees_of_jobs_that_never_start(site: Site, neighbour: Site, judge: Judge) -> None:
    """A tenant makes ten jobs whose guarantees add up to the link, and pods that no node ever takes."""
    async with _policy(site, neighbour), site.operator(), FakeNodes(neighbour.client, neighbour.namespace).running() as others:
        for number in range(10):
            await site.create_job(f"hog-{number}", bandwidth={"guarantee": "100M"}, priority=100)

        async def all_have_begun() -> bool:
            return len(await site.pods()) == 10

        await eventually(all_have_begun, "ten receivers", site.pods)
        await _honest_job_starts(neighbour, others, judge)


@gains("keeps every other tenant's jobs from starting")
async def attack_with_many_small_jobs(site: Site, neighbour: Site, judge: Judge) -> None:
    """A tenant makes so many jobs that what each needs at least adds up to a narrow link."""
    narrow = {**OUT, "capacity": "1M"}
    async with _policy(site, neighbour, narrow), site.operator():
        for number in range(101):
            await site.create_job(f"small-{number}")

        async def has_filled_its_part() -> bool:
            jobs = [job async for page in site.client.list_pages(JOBS, site.namespace) for job in page]
            reasons = [c["reason"] for job in jobs for c in (job.get("status") or {}).get("conditions") or [] if c["type"] == "Scheduled"]
            return "WaitingForLink" in reasons

        await eventually(has_filled_its_part, "a small job that waits")
        await neighbour.create_job("honest")
        started = await _within(WAIT_SECONDS, lambda: _mover(neighbour, "honest", "receiver"))
        judge(started is not None, "started" if started else f"the job of the other tenant waits: {await _waits(neighbour, 'honest')}")


@gains("is always served before the other tenants")
async def attack_with_the_highest_priority(site: Site, neighbour: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A tenant's second job has priority 100, and is to start before another tenant's job that has waited longer."""
    async with _policy(site, neighbour), site.operator(), FakeNodes(neighbour.client, neighbour.namespace).running() as others:
        await site.create_job("first", bandwidth={"guarantee": "900M"})
        await _start(site, nodes, "first")
        await neighbour.create_job("honest", bandwidth={"guarantee": "300M"})
        await _within(5.0, lambda: _mover(neighbour, "honest", "receiver"))
        await site.create_job("urgent", bandwidth={"guarantee": "900M"}, priority=100)
        waits = await eventually(lambda: _scheduled(site, "urgent"), "the urgent job to be judged", lambda: site.job("urgent"))
        assert waits["status"] == "False", waits
        await site.client.merge_patch(JOBS, site.namespace, "first", {"spec": {"suspend": True}})
        receiver = await _within(WAIT_SECONDS, lambda: _mover(neighbour, "honest", "receiver"))
        if receiver is None:
            judge(False, f"the urgent job was first, the other tenant's waits: {await _waits(neighbour, 'honest')}")
            return
        await _start(neighbour, others, "honest")
        judge(True, "the other tenant's job started")


async def _scheduled(site: Site, job: str) -> KubeObject | None:
    conditions = ((await site.job(job)).get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == "Scheduled"), None)


async def _keeps_its_cap(site: Site, judge: Judge, job: str, most_bps: float) -> None:
    """Concludes from the cap of a job that uses the link beside another one."""

    async def has_lost_it() -> bool:
        cap_bps = await _cap_bps(site, job)
        return cap_bps is None or cap_bps > most_bps

    async def has_a_share() -> bool:
        return not await has_lost_it()

    await _within(WAIT_SECONDS, has_a_share)
    lost = await _within(8.0, has_lost_it)
    judge(not lost, f"the job has a cap of {await _cap_bps(site, job)} bit/s")


@gains("sends over a shared link without a cap")
async def attack_by_naming_an_interface_that_no_link_has(site: Site, neighbour: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A tenant's job names eth0, which no link of the policy has."""
    async with _policy(site, neighbour), site.operator(), FakeNodes(neighbour.client, neighbour.namespace).running() as others:
        await neighbour.create_job("honest")
        await _start(neighbour, others, "honest")
        source = site.manifest()["spec"]["source"]
        nodes.interface = "eth0"
        await site.create_job("sly", source={**source, "interface": "eth0"})
        await _start(site, nodes, "sly")
        await _keeps_its_cap(site, judge, "sly", 0.51 * G)


@gains("sends over a shared link without a cap")
async def attack_by_reporting_an_interface_that_no_link_has(site: Site, neighbour: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A job's movers report that they use zz0, which no link of the policy has."""
    async with _policy(site, neighbour), site.operator(), FakeNodes(neighbour.client, neighbour.namespace).running() as others:
        await neighbour.create_job("honest")
        await _start(neighbour, others, "honest")
        nodes.interface = "zz0"
        await site.create_job("sly")
        await _start(site, nodes, "sly")
        await _keeps_its_cap(site, judge, "sly", 0.51 * G)


@gains("sends over a full link with the cap of an idle one")
async def attack_by_reporting_another_interface_than_the_job_names(site: Site, neighbour: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A job names the interface of a full link, its movers report that of an idle one."""
    async with _policy(site, neighbour, OUT, IDLE), site.operator(), FakeNodes(neighbour.client, neighbour.namespace).running() as others:
        await neighbour.create_job("honest")
        await _start(neighbour, others, "honest")
        source = site.manifest()["spec"]["source"]
        nodes.interface = "data1"
        await site.create_job("sly", source={**source, "interface": "data0"})
        await _start(site, nodes, "sly")
        await _keeps_its_cap(site, judge, "sly", 0.51 * G)


async def _counters_leave_the_share(site: Site, neighbour: Site, nodes: FakeNodes, judge: Judge, count: Callable[[float], int]) -> None:
    """Two jobs share the link; then the movers of one report an interface's counter of their own making."""
    async with _policy(site, neighbour), site.operator(), FakeNodes(neighbour.client, neighbour.namespace).running() as others:
        await neighbour.create_job("honest")
        await _start(neighbour, others, "honest")
        await site.create_job("liar")
        await _start(site, nodes, "liar")

        async def has_its_half() -> bool:
            return abs((await _cap_bps(neighbour, "honest") or 0.0) - 0.5 * G) < 0.01 * G

        await eventually(has_its_half, "equal shares", lambda: neighbour.job("honest"))
        loop = asyncio.get_running_loop()
        begun, least_bps = loop.time(), G
        while loop.time() < begun + 35.0:
            nodes.progress["interface_bytes_sent"] = count(loop.time() - begun)
            least_bps = min(least_bps, await _cap_bps(neighbour, "honest") or 0.0)
            await asyncio.sleep(0.1)
        judge(least_bps >= 0.74 * 0.5 * G, f"the other tenant's job had a cap of {least_bps:.0f} bit/s at the least")


@gains("has the other tenants' shares cut to a tenth")
async def attack_with_counters_that_show_others_traffic(site: Site, neighbour: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A mover reports that its interface carries as much as the link can, which nobody else sees."""
    await _counters_leave_the_share(site, neighbour, nodes, judge, lambda seconds: int(seconds * G / 8))


@gains("has the other tenants' shares cut to a tenth")
async def attack_with_counters_that_jump(site: Site, neighbour: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A mover reports an interface's counter that jumps by 10^15 bytes every five seconds."""
    await _counters_leave_the_share(site, neighbour, nodes, judge, lambda seconds: 10**15 * (1 + int(seconds / 5)))


@gains("chooses the other tenants' congestion control")
async def attack_with_a_false_background(site: Site, neighbour: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A job's advisor reports a background that it never saw, which the next job on the path is to decide by."""
    classes = ("B0-C0", "B0-C1", "B1-C0", "B1-C1", "B1-B1", "C1-C1")
    nodes.choice = {
        "background": {"class": "B1-B1", "probability": 1.0, "abstained": False},
        "probabilities": {name: float(name == "B1-B1") for name in classes},
        **{"any_bbr": 1.0, "confidence": 1.0, "abstained": False, "model": "background-1.0.0", "reason": "AnyBBR"},
    }
    async with site.operator(), FakeNodes(neighbour.client, neighbour.namespace).running() as others:
        await site.create_job("liar")
        await _start(site, nodes, "liar")
        await site.condition("PathProbed", name="liar")
        await site.create_job("own")
        own = await _start(site, nodes, "own")
        assert "B1-B1" in json.dumps(own["spec"]), "a job of the same namespace is given what the first one measured"
        await neighbour.create_job("honest")
        honest = await _start(neighbour, others, "honest")
        given = "B1-B1" in json.dumps(honest["spec"])
        judge(not given, f"the other tenant's advisor is {'' if given else 'not '}given the false background")


@gains("says what every transfer on a path decides by")
async def attack_by_making_a_network_path(site: Site, judge: Judge) -> None:
    """A tenant who may do everything in its namespace makes a NetworkPath with a capacity of its own choice."""
    path = {
        "apiVersion": "fairlead.io/v1alpha1",
        "kind": "NetworkPath",
        "metadata": {"name": "forged"},
        "spec": {"source": {"node": "dtn-a"}, "destination": {"node": "dtn-b"}, "capacity": "1M"},
    }
    answer = site.as_tenant("create", "-f", "-", stdin=path)
    judge(answer.forbidden, str(answer))
    made = await site.client.create(PATHS, None, path)
    try:
        patched = site.as_tenant("patch", "networkpath", "forged", "--type=merge", "-p", '{"spec":{"otherTraffic":"Compete"}}')
        judge(patched.forbidden, str(patched))
    finally:
        await site.client.delete(PATHS, None, "forged", uid=made["metadata"]["uid"])
