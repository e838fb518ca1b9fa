"""What people and nodes do in the runs, step by step, each ending where nothing is left to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lab import fairness_policy, transfer_job

from fairlead.api import names
from fairlead.commands.uninstall import OperatorPlace, UninstallError, uninstall
from fairlead.core.fairness.round import ROUND_SECONDS
from fairlead.kube.client import JOBS, NODES, POLICIES, KubeClient, KubeObject
from faults.world import Script, World, attempt_of, is_true, obedient, role_of

OUT = {"name": "out", "interfaces": [{"node": "dtn-a", "name": "data0", "direction": "Transmit"}], "headroom": "0"}
POLICY = "site"
CLEANUP_SECONDS = 120.0
"""How long jobs may take to go: longer than any fault holds them up."""


@dataclass
class Stage:
    """What a workload acts on."""

    world: World
    client: KubeClient
    namespace: str
    until: Callable[[Callable[[], Any], str], Awaitable[None]]
    """Waits for something, which the text names."""
    upgrade: Callable[[], Awaitable[None]]
    """Puts another operator into the place of the one that leads, as a rollout does."""

    async def create(self, name: str = "job", **spec: Any) -> None:
        """Creates a job."""
        await self.client.create(JOBS, self.namespace, transfer_job(self.namespace, name, **spec))

    async def change(self, spec: Mapping[str, Any], name: str = "job") -> None:
        """Changes a job's spec."""
        await self.client.merge_patch(JOBS, self.namespace, name, {"spec": dict(spec)})

    async def delete(self, name: str = "job", propagation: str = "Background") -> None:
        """Deletes a job as users do."""
        path = JOBS.path(self.namespace, name)
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        await self.client._request("DELETE", path, body=options)

    async def ready(self, name: str = "job", attempt: int = 1) -> None:
        """Waits until the transfer of that attempt, or of a later one, is under way."""

        def up() -> bool:
            job = self.world.job(name)
            known = ((job or {}).get("status") or {}).get("attempts") or 0
            return is_true(job, "MoversReady") and is_true(job, "PathProbed") and known >= attempt

        await self.until(up, f"movers of {name} to be up in attempt {attempt}")

    async def up(self, name: str = "job", **spec: Any) -> None:
        """Creates a job and waits until its transfer is under way."""
        await self.create(name, **spec)
        await self.ready(name)

    async def succeed(self, *jobs: str) -> None:
        """Lets movers end, and waits for the success of these jobs, or of the only one."""
        self.world.finished.set()
        for name in jobs or ("job",):
            await self.condition("Succeeded", name)

    async def condition(self, kind: str, name: str = "job", status: str = "True") -> None:
        """Waits for a condition of a job."""
        await self.until(lambda: is_true(self.world.job(name), kind, status), f"{kind}={status} of {name}")

    async def waits(self, reason: str, name: str) -> None:
        """Waits until a job waits for that reason, with no pod of its own."""

        def waiting() -> bool:
            conditions = ((self.world.job(name) or {}).get("status") or {}).get("conditions") or []
            return any(each["type"] == "Scheduled" and each["reason"] == reason for each in conditions) and not self.world.pods_of(name)

        await self.until(waiting, f"{name} to wait, {reason}")

    async def gone(self, name: str = "job") -> None:
        """Waits until a job and all that belonged to it is gone."""
        await self.until(lambda: self.world.job(name) is None and not self.world.pods_of(name), f"{name} and its pods to be gone")

    async def cap(self, name: str, cap: str | None) -> None:
        """Waits for the cap of a job, at its sender and in its status."""

        def capped() -> bool:
            pods = self.world.pods_of(name, "sender")
            status = ((self.world.job(name) or {}).get("status") or {}).get("bandwidth") or {}
            annotated = [pod["metadata"]["annotations"].get(names.ANNOTATION_EGRESS_BANDWIDTH) for pod in pods]
            return annotated == [cap] and status.get("allocated") == cap

        await self.until(capped, f"the cap {cap} of {name}")

    async def policy(self, capacity: str, *more: KubeObject) -> None:
        """Creates the policy, with this capacity of its first link, and with more links."""
        await self.client.create(POLICIES, None, fairness_policy(POLICY, links=[{**OUT, "capacity": capacity}, *more]))

    async def policy_becomes(self, capacity: str) -> None:
        """Changes the policy."""
        await self.client.merge_patch(POLICIES, None, POLICY, {"spec": {"links": [{**OUT, "capacity": capacity}]}})

    async def no_policy(self) -> None:
        """Deletes the policy."""
        policy = await self.client.get(POLICIES, None, POLICY)
        await self.client.delete(POLICIES, None, POLICY, uid=policy["metadata"]["uid"])

    async def node(self, name: str, *, is_ready: bool) -> None:
        """Says of a node what the node controller does of one that is silent, or back."""
        condition = {"type": "Ready", "status": "True" if is_ready else "Unknown"}
        await self.client.merge_patch(NODES, None, name, {"status": {"conditions": [condition]}}, subresource="status")


@dataclass(frozen=True)
class Workload:
    """One of them. `script` is what movers do, `options` are flags of the operator."""

    name: str
    run: Callable[[Stage], Awaitable[None]]
    script: Script = obedient
    options: Mapping[str, str] = field(default_factory=dict)
    capacity_bps: float | None = None


def _in_the_first_attempts(count: int = 1) -> Callable[[Script], Script]:
    """A script that is followed in the first attempts, once both movers are up; later ones and cleaners are obedient."""

    def limited(script: Script) -> Script:
        async def follow(world: World, pod: KubeObject) -> None:
            if attempt_of(pod) > count or role_of(pod) == "cleaner":
                await obedient(world, pod)
                return
            await world.partner_ran(pod)
            await world.until(lambda: is_true(world.job(), "MoversReady"))
            await script(world, pod)

        return follow

    return limited


async def _create(stage: Stage) -> None:
    await stage.up()
    await stage.succeed()


async def _delete(stage: Stage) -> None:
    await stage.up()
    await stage.delete()
    await stage.gone()


async def _delete_orphaning(stage: Stage) -> None:
    await stage.up()
    await stage.delete(propagation="Orphan")
    await stage.gone()


async def _delete_foreground(stage: Stage) -> None:
    await stage.up()
    await stage.delete(propagation="Foreground")
    await stage.gone()


async def _delete_early(stage: Stage) -> None:
    stage.world.starts = lambda pod: role_of(pod) == "cleaner"
    await stage.create()
    await stage.until(lambda: any(pod["spec"].get("nodeName") for pod in stage.world.pods_of()), "the receiver to be placed")
    await stage.delete()
    await stage.gone()


async def _delete_succeeded(stage: Stage) -> None:
    await _create(stage)
    await stage.delete()
    await stage.gone()


async def _create_again(stage: Stage) -> None:
    await _delete(stage)
    await _create(stage)


async def _suspend(stage: Stage) -> None:
    await stage.up()
    await stage.change({"suspend": True})
    await stage.condition("Suspended")
    await stage.until(lambda: not stage.world.pods_of(), "the movers of the suspended job to be gone")
    await stage.change({"suspend": False})
    await stage.ready(attempt=2)
    await stage.succeed()


async def _suspend_for_a_moment(stage: Stage) -> None:
    """Resumed while the movers are still ending."""
    stage.world.grace_seconds = 0.8
    await stage.up()
    await stage.change({"suspend": True})
    await stage.condition("Suspended")
    await stage.change({"suspend": False})
    await stage.ready(attempt=2)
    await stage.succeed()


async def _delete_slowly(stage: Stage) -> None:
    stage.world.grace_seconds = 0.8
    await _delete(stage)


async def _first_cleaner_fails(world: World, pod: KubeObject) -> None:
    if role_of(pod) == "cleaner" and not world.failed_cleaners:
        world.failed_cleaners += 1
        await world.fail(pod, "Internal")
    else:
        await obedient(world, pod)


async def _delete_where_nothing_can_be_cleaned(stage: Stage) -> None:
    stage.world.starts = lambda pod: role_of(pod) != "cleaner"
    stage.world.may_leave_files = True
    await _delete(stage)


async def _retry_often(stage: Stage) -> None:
    await stage.create()
    await stage.ready(attempt=3)
    await stage.succeed()


@_in_the_first_attempts(2)
async def _no_proof(world: World, pod: KubeObject) -> None:
    """A receiver that ends well with the verdict of another attempt, then one that says nothing, then one that does all."""
    world.live.pop(pod["metadata"]["uid"], None)
    if role_of(pod) == "sender":
        await world.nodes.finish(pod)
    elif attempt_of(pod) == 1:
        await world.partner_ended(pod)
        await world.nodes.finish(pod, attempt=7)
    else:
        await world.partner_ended(pod)
        await world.nodes.end(pod, exit_code=0)


async def _retry(stage: Stage) -> None:
    await stage.create()
    await stage.ready(attempt=2)
    await stage.succeed()


@_in_the_first_attempts()
async def _sender_crashes(world: World, pod: KubeObject) -> None:
    if role_of(pod) == "sender":
        await world.crash(pod)
    else:
        await world.partner_ended(pod)
        await world.fail(pod)


@_in_the_first_attempts()
async def _receiver_is_evicted(world: World, pod: KubeObject) -> None:
    if role_of(pod) == "receiver":
        world.live.pop(pod["metadata"]["uid"], None)
        await world.nodes.kill(pod, "Evicted", of_pod=True)
    else:
        await world.partner_ended(pod)
        await world.fail(pod)


@_in_the_first_attempts()
async def _receiver_is_lost(world: World, pod: KubeObject) -> None:
    """Its pod is taken away without a word; the sender goes on trying."""
    if role_of(pod) == "receiver":
        world.live.pop(pod["metadata"]["uid"], None)
        await world.nodes.remove(pod)
    else:
        await world.until(lambda: False)


@_in_the_first_attempts()
async def _both_are_lost(world: World, pod: KubeObject) -> None:
    """Both nodes are gone: the pods are taken away without a word."""
    world.live.pop(pod["metadata"]["uid"], None)
    await world.nodes.remove(pod)


async def _nothing_works(world: World, pod: KubeObject) -> None:
    if role_of(pod) == "cleaner":
        await obedient(world, pod)
        return
    await world.partner_ran(pod)
    if role_of(pod) == "sender":
        await world.partner_ended(pod)
    await world.fail(pod, "ChecksumMismatch")


async def _exhausted(stage: Stage) -> None:
    await stage.create(backoffLimit=1)
    await stage.condition("Failed")
    await stage.until(
        lambda: names.FINALIZER not in ((stage.world.job() or {"metadata": {}})["metadata"].get("finalizers") or []),
        "the partial files to be removed",
    )


async def _time_to_live(stage: Stage) -> None:
    await stage.create(ttlSecondsAfterFinished=1)
    await stage.ready()
    stage.world.finished.set()
    await stage.gone()


async def _limit(stage: Stage) -> None:
    await stage.create(bandwidth={"limit": "900M"})
    await stage.ready()
    await stage.cap("job", "900M")
    await stage.change({"bandwidth": {"limit": "400M"}})
    await stage.cap("job", "400M")
    await stage.succeed()


async def _share(stage: Stage) -> None:
    await stage.policy("1G")
    await stage.up("one")
    await stage.up("two")
    await stage.cap("one", "500M")
    await stage.cap("two", "500M")
    await stage.change({"bandwidth": {"weight": 300}}, "two")
    await stage.cap("one", "250M")
    await stage.cap("two", "750M")
    await stage.succeed("one", "two")


async def _policy_changes(stage: Stage) -> None:
    await stage.policy("1G")
    await stage.create("one")
    await stage.create("two")
    await stage.ready("one")
    await stage.ready("two")
    await stage.cap("one", "500M")
    await stage.cap("two", "500M")
    await stage.policy_becomes("600M")
    await stage.cap("one", "300M")
    await stage.cap("two", "300M")
    await stage.no_policy()
    stage.world.capacity_bps = None
    await stage.cap("one", None)
    await stage.cap("two", None)
    await stage.succeed("one", "two")


async def _first_of_two_leaves(stage: Stage) -> None:
    """What the one held is the other one's afterwards."""
    await stage.policy("1G")
    await stage.create("one")
    await stage.create("two")
    await stage.ready("one")
    await stage.ready("two")
    await stage.cap("two", "500M")
    await stage.delete("one")
    await stage.gone("one")
    await stage.cap("two", "1G")
    await stage.succeed("two")


async def _first_of_two_leaves_slowly(stage: Stage) -> None:
    """Its sender goes on for longer than a round takes to come after its pod was deleted, and so does its cap."""
    stage.world.grace_seconds = ROUND_SECONDS + 1.0
    await _first_of_two_leaves(stage)


async def _queued_job_leaves(stage: Stage) -> None:
    """Who waited for the link and was deleted takes no room of it."""
    await stage.policy("1G")
    await stage.up("one", bandwidth={"guarantee": "700M"})
    await stage.create("two", bandwidth={"guarantee": "700M"})
    await stage.waits("WaitingForLink", "two")
    await stage.delete("two")
    await stage.gone("two")
    await stage.create("three", bandwidth={"guarantee": "500M"})
    await stage.waits("WaitingForLink", "three")
    await stage.delete("one")
    await stage.gone("one")
    await stage.ready("three")
    await stage.cap("three", "1G")
    await stage.succeed("three")


async def _one_directory(stage: Stage) -> None:
    """Two jobs into one directory: the second waits, and is refused nothing when the first is gone."""
    place = {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "path": "same"}
    await stage.up("one", destination=place)
    await stage.create("two", destination=place)
    await stage.waits("DestinationInUse", "two")
    await stage.delete("one")
    await stage.gone("one")
    await stage.ready("two")
    await stage.succeed("two")


async def _upgrade(stage: Stage) -> None:
    """Another operator takes over from one that leaves in order, and finds one transfer under way and one job that waits."""
    place = {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "path": "same"}
    await stage.up("one", destination=place)
    await stage.create("two", destination=place)
    await stage.waits("DestinationInUse", "two")
    await stage.upgrade()
    await stage.create("three")
    await stage.ready("three")
    await stage.succeed("one", "two", "three")


async def _uninstall(stage: Stage) -> None:
    """What the chart's hook does with `jobs: delete`, beside one transfer under way and one that is over."""
    await stage.up("one")
    await stage.succeed("one")
    stage.world.finished.clear()
    await stage.up("two")
    nowhere = OperatorPlace(stage.namespace, "no-deployment", "app=none")
    try:
        await uninstall(stage.client, nowhere, deletes_jobs=True, cleanup_seconds=CLEANUP_SECONDS)
    except UninstallError as error:
        stage.world.problems.append(f"the uninstallation failed: {error}")
    await stage.gone("one")
    await stage.gone("two")


async def _node_is_away(stage: Stage) -> None:
    """The destination's node is silent when the job is created, and comes back."""
    await stage.node("dtn-b", is_ready=False)
    try:
        await stage.create()
        await stage.waits("NodeNotReady", "job")
    finally:
        await stage.node("dtn-b", is_ready=True)
    await stage.ready()
    await stage.succeed()


async def _interfaces(stage: Stage) -> None:
    """A job over two interfaces, each on a link of its own, beside one over one of them."""
    await stage.policy("1G", {**OUT, "name": "out1", "interfaces": [{**OUT["interfaces"][0], "name": "data1"}], "capacity": "500M"})
    await stage.up("wide", **_between("wide", interfaces=["data0", "data1"]))
    await stage.cap("wide", "1500M")
    await stage.up("narrow", **_between("narrow", interface="data1"))
    await stage.cap("wide", "1250M")
    await stage.cap("narrow", "250M")
    await stage.change({"bandwidth": {"limit": "600M"}}, "wide")
    await stage.cap("wide", "600M")
    await stage.succeed("wide", "narrow")


def _between(name: str, **interfaces: Any) -> dict[str, Any]:
    """Both ends of a job with these interfaces."""
    spec = transfer_job("", name)["spec"]
    return {end: {**spec[end], **interfaces} for end in ("source", "destination")}


_ALL = (
    Workload("create", _create),
    Workload("delete", _delete),
    Workload("suspend", _suspend),
    Workload("crash", _retry, _sender_crashes),
    Workload("share", _share, capacity_bps=1e9),
    Workload("policy", _policy_changes, capacity_bps=1e9),
    Workload("upgrade", _upgrade),
    Workload("interfaces", _interfaces, capacity_bps=1.5e9),
    Workload("node-away", _node_is_away),
    Workload("uninstall", _uninstall),
    Workload("delete-early", _delete_early),
    Workload("delete-succeeded", _delete_succeeded),
    Workload("delete-orphan", _delete_orphaning),
    Workload("delete-foreground", _delete_foreground),
    Workload("create-again", _create_again),
    Workload("eviction", _retry, _receiver_is_evicted),
    Workload("nodes-lost", _retry, _both_are_lost),
    Workload("exhausted", _exhausted, _nothing_works),
    Workload("ttl", _time_to_live),
    Workload("limit", _limit),
    Workload("leave", _first_of_two_leaves, capacity_bps=1e9),
    Workload("leave-slowly", _first_of_two_leaves_slowly, capacity_bps=1e9),
    Workload("directory", _one_directory),
    Workload("suspend-briefly", _suspend_for_a_moment),
    Workload("delete-slowly", _delete_slowly),
    Workload("delete-unclean", _delete_where_nothing_can_be_cleaned, options={"cleanup-timeout-seconds": "1.5"}),
    Workload("receiver-lost", _retry, _receiver_is_lost),
    Workload("queued", _queued_job_leaves, capacity_bps=1e9),
    Workload("delete-twice-cleaned", _delete, _first_cleaner_fails),
    Workload("no-proof", _retry_often, _no_proof),
)
WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in _ALL}
