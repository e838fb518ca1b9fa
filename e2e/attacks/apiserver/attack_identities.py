"""Whom a tenant has movers run as: on a shared file system every ID is somebody."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from kubelet import FakeNodes
from lab import PATIENCE_SECONDS

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.victim import Site

IDS = "10000-10999"
OWN = {"runAsUser": 10000, "runAsGroup": 10000}


@gains("reads and writes as root on a file system without root squash")
async def attack_as_root(site: Site, judge: Judge) -> None:
    """A tenant makes a job whose movers run as user 0."""
    answer = site.as_tenant("create", "-f", "-", stdin=site.manifest(securityContext={"runAsUser": 0}))
    judge(not answer.accepted, str(answer))
    assert site.as_tenant("create", "-f", "-", stdin=site.manifest("own", securityContext=OWN)).accepted


@gains("reads and writes the files of another group's user")
async def attack_as_a_user_of_another_group(site: Site, judge: Judge) -> None:
    """A tenant whose namespace an administrator gave some IDs makes a job that runs as a user outside of these."""
    await _is_not_run(site, judge, {**OWN, "runAsUser": 2000})


@gains("reads files that only another group may read")
async def attack_in_another_group(site: Site, judge: Judge) -> None:
    """A tenant whose namespace an administrator gave some IDs makes a job with another group's supplemental group."""
    await _is_not_run(site, judge, {**OWN, "supplementalGroups": [2000]})


@gains("gives a volume's files to a group of one's choice")
async def attack_with_a_volumes_group(site: Site, judge: Judge) -> None:
    """A tenant whose namespace an administrator gave some IDs makes a job that gives the destination to another group."""
    await _is_not_run(site, judge, {**OWN, "fsGroup": 2000})


@gains("changes the group of files that the job shall only read")
async def attack_on_the_group_of_the_source(site: Site, judge: Judge, nodes: FakeNodes) -> None:
    """A tenant has the kubelet change the group of a source's files by the job's fsGroup."""
    sender = await _sender(site, nodes, securityContext={"fsGroup": 2000})
    context = sender["spec"]["securityContext"]
    judge("fsGroup" not in context, f"the sender's securityContext is {context}")
    receiver = await site.pod("receiver")
    assert receiver is not None
    assert receiver["spec"]["securityContext"]["fsGroup"] == 2000, "the destination is given to the group"


@gains("writes to a volume that the job shall only read")
async def attack_on_the_source_from_the_senders_pod(site: Site, judge: Judge, nodes: FakeNodes) -> None:
    """A sender that was taken over writes where its pod lets any of its containers write."""
    sender = await _sender(site, nodes)
    claims = [volume["persistentVolumeClaim"] for volume in sender["spec"]["volumes"] if "persistentVolumeClaim" in volume]
    assert claims
    judge(all(claim.get("readOnly") for claim in claims), f"the sender's claims are {claims}")


async def _sender(site: Site, nodes: FakeNodes, **spec: Any) -> dict[str, Any]:
    async with site.operator():
        await site.create_job(**spec)
        await nodes.start(await site.appears("receiver"))
        return dict(await site.appears("sender"))


async def _is_not_run(site: Site, judge: Judge, wanted: dict[str, Any]) -> None:
    """Concludes from whether the job gets a pod; one with allowed IDs does."""
    rules = {"users": [IDS], "groups": [IDS], "fsGroups": [IDS]}
    site.settings["IDENTITIES"] = json.dumps({"namespaces": {site.namespace: rules}})
    async with site.operator():
        await site.create_job("theft", securityContext=wanted)
        refused = await _pod_or_refusal(site, "theft")
        judge(bool(refused), refused or "a mover runs with these IDs")
        await site.create_job("own", securityContext=OWN)
        assert not await _pod_or_refusal(site, "own"), "a job with the namespace's own IDs gets its mover"


async def _pod_or_refusal(site: Site, name: str) -> str:
    """What the job is refused for, empty if it gets a mover."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_SECONDS
    while loop.time() < deadline:
        if any(owner["name"] == name for pod in await site.pods() for owner in pod["metadata"].get("ownerReferences", ())):
            return ""
        conditions = (await site.job(name)).get("status", {}).get("conditions", [])
        stalled = [each for each in conditions if each["type"] == "Stalled" and each["status"] == "True"]
        if stalled:
            return f"{stalled[0]['reason']}: {stalled[0]['message']}"
        await asyncio.sleep(0.05)
    raise RuntimeError(f"job {name} got neither a mover nor a refusal")
