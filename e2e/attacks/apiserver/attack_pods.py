"""Pods that claim to be another job's movers. The admission policies refuse them to tenants, so an administrator makes them here: what
is attacked is the operator, as it runs where the policies are off, or do not cover whoever makes the pod."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kubelet import FakeNodes

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.victim import Site, within
from fairlead.api import names
from fairlead.kube.client import JOBS, PODS, KubeObject
from fairlead.kube.errors import NotFoundError

ELSEWHERE = "default"
"""A namespace that lists before the job's own."""
LONG_ENOUGH_SECONDS = 20.0
"""A pass that does what is waited for takes a second."""
PATIENT_SECONDS = 1.0
"""An attacker who wants one event to be seen before another leaves it some time."""
HELD_BACK = ["example.org/held"]
CAP = names.ANNOTATION_EGRESS_BANDWIDTH


def _forged(job: KubeObject, role: str, attempt: int = 1, *, gated: bool = False, finalizers: bool = False) -> KubeObject:
    """A pod with everything that a mover of the job has, but for who made it."""
    metadata = job["metadata"]
    uid, name = metadata["uid"], metadata["name"]
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": name, "uid": uid, "controller": True}
    ports = [{"name": "data", "containerPort": 24000}, {"name": "http", "containerPort": 24001, "hostPort": 24001}]
    placed: dict[str, Any] = {"schedulingGates": [{"name": "fairlead.io/recorded"}]} if gated else {"nodeName": "dtn-b"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.child_name(name, uid, role, attempt),
            "labels": {
                names.LABEL_NAME: names.NAME,
                names.LABEL_COMPONENT: names.COMPONENT_MOVER,
                names.LABEL_MANAGED_BY: names.MANAGER,
                names.LABEL_JOB_UID: uid,
                names.LABEL_ROLE: role,
                names.LABEL_ATTEMPT: str(attempt),
            },
            "ownerReferences": [owner],
            **({"finalizers": HELD_BACK} if finalizers else {}),
        },
        "spec": {"hostNetwork": True, "containers": [{"name": "mover", "image": "anything", "ports": ports}], **placed},
    }


async def _make(site: Site, pod: KubeObject, namespace: str) -> KubeObject:
    made = await site.client.create(PODS, namespace, pod)
    if "nodeName" in pod["spec"]:
        await _report(site, made, {"phase": "Running", "podIP": "127.0.0.12"})
    return made


async def _report(site: Site, pod: KubeObject, status: KubeObject) -> None:
    metadata = pod["metadata"]
    await site.client.merge_patch(PODS, metadata["namespace"], metadata["name"], {"status": status}, subresource="status")


def _success(job: KubeObject, attempt: int) -> KubeObject:
    """The status of a receiver that says it has everything."""
    verdict = {"version": 1, "role": "receiver", "job": job["metadata"]["uid"], "attempt": attempt, "verdict": "Succeeded"}
    verdict |= {
        "reason": "Verified",
        "message": "forged",
        "bytes_total": 1,
        "bytes_transferred": 1,
        "files_total": 1,
        "files_transferred": 1,
    }
    ended = {"exitCode": 0, "reason": "Completed", "message": json.dumps(verdict)}
    container = {"name": "mover", "image": "anything", "imageID": "", "restartCount": 0, "ready": False, "state": {"terminated": ended}}
    return {"phase": "Succeeded", "containerStatuses": [container]}


@asynccontextmanager
async def _removing(site: Site) -> AsyncIterator[None]:
    """Whatever was forged is gone after the block, with or without finalizers."""
    try:
        yield
    finally:
        for namespace in (site.namespace, ELSEWHERE):
            for pod in [pod["metadata"] async for page in site.client.list_pages(PODS, namespace) for pod in page]:
                with contextlib.suppress(NotFoundError):
                    if pod.get("finalizers"):
                        await site.client.merge_patch(PODS, namespace, pod["name"], {"metadata": {"finalizers": None}})
                    await site.client.delete(PODS, namespace, pod["name"], uid=pod["uid"], grace_seconds=0)


async def _own(site: Site, role: str, *forged: KubeObject, attempt: int = 1) -> KubeObject | None:
    """The job's pod of a role that is none of the forged ones."""
    uids = {pod["metadata"]["uid"] for pod in forged}
    wanted = {names.LABEL_ROLE: role, names.LABEL_ATTEMPT: str(attempt)}
    for pod in await site.pods():
        if pod["metadata"]["uid"] not in uids and wanted.items() <= (pod["metadata"].get("labels") or {}).items():
            return pod
    return None


async def _sender_beside(site: Site, nodes: FakeNodes, judge: Judge, namespace: str, **forged: Any) -> None:
    """Concludes from whether the job's own sender is created beside a forged one, which is there before it."""
    async with _removing(site):
        job = await site.create_job()
        async with site.operator():
            receiver = await site.appears("receiver")
            pod = await _make(site, _forged(job, "sender", **forged), namespace)
            await nodes.start(receiver)
            own = await within(LONG_ENOUGH_SECONDS, lambda: _own(site, "sender", pod))
            judge(own is not None, f"the job's own sender: {own and own['metadata']['name']}")
            if own is not None:
                await nodes.start(own)
                await site.condition("MoversReady")


@gains("keeps another tenant's job from ever starting")
async def attack_with_a_sender_in_another_namespace(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A pod in another namespace claims to be the sender of a job that is about to start."""
    await _sender_beside(site, nodes, judge, ELSEWHERE)


@gains("keeps a job of the same namespace from ever starting")
async def attack_with_a_sender_of_the_same_name(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A pod with the name, labels and owner of a job's sender is there before the sender."""
    await _sender_beside(site, nodes, judge, site.namespace)


@gains("keeps a job of the same namespace from ever starting")
async def attack_with_a_sender_that_cannot_be_deleted(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A pod with the name of a job's sender and a finalizer looks like one that the operator created and did not record."""
    await _sender_beside(site, nodes, judge, site.namespace, gated=True, finalizers=True)


@gains("has the operator use a pod of one's own making as a job's sender")
async def attack_with_a_sender_like_one_that_was_not_recorded(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A pod looks exactly like one whose creation the operator did not live to record."""
    await _sender_beside(site, nodes, judge, site.namespace, gated=True)


@gains("keeps a job from getting lower caps")
async def attack_a_cap_with_a_sender_in_another_namespace(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A pod in another namespace claims to be a running job's sender, whose cap then changes."""
    async with _removing(site):
        job = await site.create_job(bandwidth={"limit": "1G"})
        async with site.operator():
            await nodes.start(await site.appears("receiver"))
            sender = await site.appears("sender")
            named_otherwise = {"metadata": {**job["metadata"], "name": "other"}}
            await nodes.start(sender)
            await site.condition("MoversReady")
            await _make(site, _forged(named_otherwise, "sender"), ELSEWHERE)
            # The kubelet reports something of the real one, so that the forged one is the one that was seen first.
            for news in ("one", "another"):
                await asyncio.sleep(PATIENT_SECONDS)
                await _report(site, sender, {"message": news})
            await asyncio.sleep(PATIENT_SECONDS)
            await site.client.merge_patch(JOBS, site.namespace, "job", {"spec": {"bandwidth": {"limit": "500M"}}})

            async def capped() -> bool:
                live = await site.client.get(PODS, site.namespace, sender["metadata"]["name"])
                return bool(live["metadata"]["annotations"].get(CAP) == "500M")

            held = bool(await within(LONG_ENOUGH_SECONDS, capped))
            judge(held, f"the real sender {'has' if held else 'has not'} the new cap")


@gains("has a job report success although nothing was copied")
async def attack_a_verdict_with_an_attempt_that_never_was(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """A pod claims to be the receiver of the job's next attempt, and to have everything."""
    async with _removing(site):
        job = await site.create_job()
        async with site.operator():
            receiver = await site.appears("receiver")
            await nodes.start(receiver)
            await nodes.start(await site.appears("sender"))
            await site.condition("MoversReady")
            pod = await _make(site, _forged(job, "receiver", 2), site.namespace)
            await _report(site, pod, _success(job, 2))
            ended = await within(5, lambda: _succeeded(site))
            runs = await _own(site, "receiver", pod) is not None
            seen = f"the job {'has succeeded' if ended else 'goes on'}, its receiver {'runs' if runs else 'was deleted'}"
            judge(runs and not ended, f"a forged second attempt has everything while the first one runs: {seen}")
            if runs:
                await nodes.finish(receiver)
                assert await within(LONG_ENOUGH_SECONDS, lambda: _succeeded(site)), "the real verdict counts"


@gains("has a job report success although nothing was copied")
async def attack_a_verdict_in_the_place_of_a_deleted_receiver(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """The receiver is deleted, and a pod of its name claims to have everything."""
    async with _removing(site):
        job = await site.create_job()
        async with site.operator():
            receiver = await site.appears("receiver")
            await nodes.start(receiver)
            await nodes.start(await site.appears("sender"))
            await site.condition("MoversReady")
        await nodes.remove(receiver)
        pod = await _make(site, _forged(job, "receiver"), site.namespace)
        await _report(site, pod, _success(job, 1))
        async with site.operator():
            ended = await within(5, lambda: _succeeded(site))
            judge(
                not ended, f"a pod in the place of the deleted receiver has everything: the job {'has succeeded' if ended else 'goes on'}"
            )
            if not ended:
                assert await within(LONG_ENOUGH_SECONDS, lambda: _own(site, "receiver", pod, attempt=2)), "there is a new attempt"


@gains("keeps every other job from the nodes' ports")
async def attack_ports_with_pods_of_jobs_that_never_were(site: Site, nodes: FakeNodes, judge: Judge) -> None:
    """Pods of jobs that do not exist claim all ports of a node."""
    site.settings["PORTS"] = "24000-24015"
    async with _removing(site):
        for number in range(4):
            pod = _forged({"metadata": {"name": f"none-{number}", "uid": f"none-{number}"}}, "receiver")
            data, http = pod["spec"]["containers"][0]["ports"]
            base = 24000 + 4 * number
            data["containerPort"], http["containerPort"], http["hostPort"] = base, base + 1, base + 1
            await _make(site, pod, ELSEWHERE)
        await site.create_job()
        async with site.operator():
            receiver = await within(LONG_ENOUGH_SECONDS, lambda: site.pod("receiver"))
            judge(receiver is not None, f"the job's receiver: {receiver and receiver['metadata']['name']}")


async def _succeeded(site: Site) -> bool:
    conditions = ((await site.job()).get("status") or {}).get("conditions") or []
    return any(one["type"] == "Succeeded" and one["status"] == "True" for one in conditions)
