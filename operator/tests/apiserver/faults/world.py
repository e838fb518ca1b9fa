"""What is around the operator in a run: scheduler, kubelets, movers and the garbage collector, which do by themselves what a script says.

It watches the cluster by connections of its own, which nothing disturbs, and notes what must never be.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from kubelet import FakeNodes

from fairlead.api import names
from fairlead.api.shared.quantity import parse_rate
from fairlead.kube.client import JOBS, PODS, SECRETS, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import ConflictError, KubeError, NotFoundError
from faults.proxy import Write, general_name

COLLECT_SECONDS = 0.1
LOOK_SECONDS = 0.02
OBEYED_SECONDS = 1.5
"""How long a cap that fell may still be in force: half a second less than the operator allows, as it counts from when it learns of it."""
FLOOR_BPS = 1e6
"""What a job that begins gets of a full link as well, until the others have made room."""
_SLACK = 1.001
_ENDED = ("Succeeded", "Failed")
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"


@dataclass
class _Cap:
    """The cap at one sender, and the higher one that it may still send at."""

    bps: float
    before_bps: float = 0.0
    fell_s: float = 0.0

    def in_force_bps(self, now_s: float) -> float:
        return max(self.bps, self.before_bps) if now_s < self.fell_s + OBEYED_SECONDS else self.bps


Script = Callable[["World", KubeObject], Awaitable[None]]
"""What a mover does from when it runs. It ends the pod, or is cancelled when the pod is deleted."""


def role_of(pod: KubeObject) -> str:
    """Receiver, sender or cleaner."""
    return str(pod["metadata"]["labels"][names.LABEL_ROLE])


def attempt_of(pod: KubeObject) -> int:
    """The number of the attempt."""
    return int(pod["metadata"]["labels"][names.LABEL_ATTEMPT])


def job_of(pod: KubeObject) -> str:
    """The UID of the pod's job."""
    return str(pod["metadata"]["labels"][names.LABEL_JOB_UID])


def job_name_of(pod: KubeObject) -> str:
    """The name of the pod's job."""
    return str(pod["metadata"]["annotations"][names.ANNOTATION_JOB])


def writes_files(pod: KubeObject) -> bool:
    """Whether it is a receiver that writes anything: one that checks alone leaves no partial files."""
    return role_of(pod) == "receiver" and "--check" not in pod["spec"]["containers"][0]["args"]


def is_true(job: KubeObject | None, kind: str, status: str = "True") -> bool:
    """Whether the job has that condition."""
    conditions = ((job or {}).get("status") or {}).get("conditions") or []
    return any(each["type"] == kind and each["status"] == status for each in conditions)


@dataclass
class World:
    """One namespace of it."""

    client: KubeClient
    namespace: str
    script: Script
    capacity_bps: float | None = None
    """What the caps of all senders together must not exceed; None where nothing limits them."""
    starts: Callable[[KubeObject], bool] = lambda pod: True
    """Whether the kubelet starts a pod that is bound to its node."""
    grace_seconds: float = 0.05
    """How long a mover takes to end when its pod is deleted."""
    problems: list[str] = field(default_factory=list)
    """What must never be, and was."""
    jobs: dict[str, KubeObject] = field(default_factory=dict)
    pods: dict[str, KubeObject] = field(default_factory=dict)
    secrets: dict[str, KubeObject] = field(default_factory=dict)
    proven: set[str] = field(default_factory=set)
    """UIDs of jobs whose receiver said that everything arrived."""
    cleaned: set[str] = field(default_factory=set)
    """UIDs of jobs whose cleaner said that the partial files are gone."""
    may_leave_files: bool = False
    """Whether nothing can be cleaned up, so that the operator must give up."""
    failed_cleaners: int = 0
    live: dict[str, KubeObject] = field(default_factory=dict)
    """Pods whose mover runs."""
    held: set[str] = field(default_factory=set)
    """UIDs of jobs that the operator's finalizer holds."""
    warnings: set[str] = field(default_factory=set)
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    """Movers that wait for it have moved everything."""
    _caps: dict[str, _Cap] = field(default_factory=dict)
    _lives: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _removals: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _started: set[tuple[str, str, int]] = field(default_factory=set)
    """Job, role and attempt of every mover that ran."""

    def __post_init__(self) -> None:
        self.nodes = FakeNodes(self.client, self.namespace)
        self.nodes.speed_bytes_per_second = 1.25e9
        self.nodes.progress |= {"bytes_total": 10**15}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[World]:
        """Everything happens while the block runs."""
        self.nodes.reaps = False
        follows = (
            self._follow(JOBS, self.jobs, self._see_nothing),
            self._follow(PODS, self.pods, self._see_pod),
            self._follow(SECRETS, self.secrets, self._see_nothing),
            self._collect(),
        )
        tasks = [asyncio.create_task(follow) for follow in follows]
        try:
            async with self.nodes.running():
                yield self
                for task in tasks:
                    if task.done():
                        task.result()
                for task in (*tasks, *self._lives.values(), *self._removals.values()):
                    task.cancel()
        finally:
            for task in (*tasks, *self._lives.values(), *self._removals.values()):
                task.cancel()
            await asyncio.gather(*tasks, *self._lives.values(), *self._removals.values(), return_exceptions=True)

    def job(self, name: str = "job") -> KubeObject | None:
        """A job as the cluster has it."""
        return next((job for job in self.jobs.values() if job["metadata"]["name"] == name), None)

    def pods_of(self, name: str = "job", role: str = "") -> list[KubeObject]:
        """The pods of a job, of all roles or of one."""
        return [pod for pod in self.pods.values() if job_name_of(pod) == name and role in ("", role_of(pod))]

    def is_live(self, role: str, name: str = "job", attempt: int | None = None) -> bool:
        """Whether such a mover runs."""
        return any(job_name_of(pod) == name and role_of(pod) == role and attempt in (None, attempt_of(pod)) for pod in self.live.values())

    # What the operator writes.

    def on_write(self, write: Write) -> None:
        """Judges a write that was carried out."""
        self._judge_conditions(write)
        match write.resource, write.subresource, write.verb:
            case "transferjobs", "status", _:
                if is_true(write.body, "Succeeded") and write.body["metadata"]["uid"] not in self.proven:
                    self.problems.append(f"{write.body['metadata']['name']} was called Succeeded without its receiver's verdict")
            case "transferjobs", "", "PATCH":
                held = names.FINALIZER in (write.body["metadata"].get("finalizers") or [])
                uid = write.body["metadata"]["uid"]
                if not held and uid in self.held and not self._is_clean(uid):
                    self.problems.append(f"{write.what} let the job go, and its partial files are there")
                (self.held.add if held else self.held.discard)(uid)
            case "pods", "", "CREATE" | "PATCH":
                # One that comes late cannot be prevented, but must not run.
                if write.verb == "CREATE" and not write.is_late and job_of(write.body) in self.jobs and self._is_unheld(write.body):
                    self.problems.append(f"{write.what}, and nothing holds its job until the partial files are removed")
                self._note_cap(write)
            case "events", "", "CREATE":
                if write.body.get("type") == "Warning":
                    self.warnings.add(str(write.body["reason"]))

    def _is_clean(self, job: str) -> bool:
        """Whether nothing of the job can be left at its destination: all is published, it was cleaned up, or no byte was ever sent."""
        has_sent = any(uid == job and role == "sender" for uid, role, _ in self._started)
        return self.may_leave_files or job in self.proven | self.cleaned or not has_sent

    def _is_unheld(self, pod: KubeObject) -> bool:
        """Whether it would write files that nobody removed if its job were deleted now."""
        return role_of(pod) == "receiver" and writes_files(pod) and job_of(pod) not in self.held

    def _judge_conditions(self, write: Write) -> None:
        """What must not be done to another version or another object than the one that was read names what it is meant for."""
        metadata, preconditions = write.request.get("metadata") or {}, write.request.get("preconditions") or {}
        match write.resource, write.verb:
            case "transferjobs", "PATCH" if "resourceVersion" not in metadata:
                self.problems.append(f"{write.what} would have changed any version of the job")
            case "pods", "DELETE" if "uid" not in preconditions:
                self.problems.append(f"{write.what} would have deleted any pod of that name")

    def _note_cap(self, write: Write) -> None:
        pod = write.body
        if role_of(pod) != "sender" or (pod.get("status") or {}).get("phase") in _ENDED:
            return
        uid, annotated = pod["metadata"]["uid"], (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_EGRESS_BANDWIDTH)
        bps = float(parse_rate(annotated)) if annotated else float("inf")
        known = self._caps.get(uid)
        if known is None:
            self._caps[uid] = _Cap(bps)
        elif bps < known.bps:
            self._caps[uid] = _Cap(bps, known.in_force_bps(write.sent_s), write.answered_s)
        elif bps > known.bps:
            self._caps[uid] = _Cap(bps)
        else:
            return
        in_force = [cap.in_force_bps(write.sent_s) for cap in self._caps.values()]
        total = sum(bps for bps in in_force if bps > FLOOR_BPS)
        if self.capacity_bps is not None and total > self.capacity_bps * _SLACK:
            shown = ", ".join(f"{bps / 1e6:.0f}M" for bps in in_force)
            self.problems.append(f"caps of {shown} in force on a link of {self.capacity_bps / 1e6:.0f}M, by {write.what}")

    # What movers do.

    async def succeed(self, pod: KubeObject) -> None:
        """Ends a mover well."""
        if role_of(pod) == "receiver":
            self.proven.add(job_of(pod))
        if role_of(pod) == "cleaner":
            self.cleaned.add(job_of(pod))
        self._end(pod["metadata"]["uid"])
        cleaned = {"reason": "Cleaned", "attempt": 0} if role_of(pod) == "cleaner" else {}
        await self.nodes.finish(pod, **cleaned)

    async def fail(self, pod: KubeObject, reason: str = "PeerLost", *, retry: bool = True) -> None:
        """Ends a mover with a failure."""
        self._end(pod["metadata"]["uid"])
        await self.nodes.finish(pod, verdict="Failed", reason=reason, retry=retry)

    async def crash(self, pod: KubeObject) -> None:
        """Ends a mover without a word."""
        self._end(pod["metadata"]["uid"])
        await self.nodes.kill(pod, "OOMKilled")

    async def partner_ran(self, pod: KubeObject) -> None:
        """Waits until the other end of the attempt runs, or has run."""
        other = {"receiver": "sender", "sender": "receiver"}[role_of(pod)]
        await self.until(lambda: self._has_run(job_of(pod), other, attempt_of(pod)))

    async def partner_ended(self, pod: KubeObject) -> None:
        """Waits until the other end of the attempt does not run any more."""
        other = {"receiver": "sender", "sender": "receiver"}[role_of(pod)]
        await self.until(lambda: not any(self._is(each, job_of(pod), other, attempt_of(pod)) for each in self.live.values()))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits for something that the watches show."""
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)

    def _has_run(self, job: str, role: str, attempt: int) -> bool:
        return (job, role, attempt) in self._started

    @staticmethod
    def _is(pod: KubeObject, job: str, role: str, attempt: int) -> bool:
        return job_of(pod) == job and role_of(pod) == role and attempt_of(pod) == attempt

    async def _live(self, pod: KubeObject) -> None:
        uid, role = pod["metadata"]["uid"], role_of(pod)
        with contextlib.suppress(NotFoundError, ConflictError):
            await self.nodes.place(pod)
            if not self.starts(pod):
                return
            self._begin(pod)
            await self.nodes.run(pod, serve=role != "cleaner")
            self._started.add((job_of(pod), role, attempt_of(pod)))
            await self.script(self, pod)
        self._end(uid)

    def _begin(self, pod: KubeObject) -> None:
        role, job = role_of(pod), job_of(pod)
        if self._is_unheld(pod):
            self.problems.append(f"{_title(pod)} runs, and nothing holds its job until the partial files are removed")
        beside = [each for each in self.live.values() if job_of(each) == job]
        for other in beside:
            if role_of(other) == role or (role == "cleaner" and role_of(other) == "receiver"):
                self.problems.append(f"{_title(pod)} runs beside {_title(other)}")
        self.live[pod["metadata"]["uid"]] = pod

    def _end(self, uid: str) -> None:
        self.live.pop(uid, None)
        self._caps.pop(uid, None)

    def _see_pod(self, kind: str, pod: KubeObject) -> None:
        uid = pod["metadata"]["uid"]
        if names.LABEL_ROLE not in (pod["metadata"].get("labels") or {}):
            return
        if kind == "DELETED":
            self._end(uid)
            if (task := self._lives.pop(uid, None)) is not None:
                task.cancel()
        elif pod["metadata"].get("deletionTimestamp"):
            if uid not in self._removals:
                self._removals[uid] = asyncio.create_task(self._remove(pod))
        elif not pod["spec"].get("schedulingGates") and not pod["spec"].get("nodeName") and uid not in self._lives:
            self._lives[uid] = asyncio.create_task(self._live(pod))

    async def _remove(self, pod: KubeObject) -> None:
        uid = pod["metadata"]["uid"]
        if (task := self._lives.get(uid)) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        # A mover ends within its grace period, not at once.
        await asyncio.sleep(self.grace_seconds)
        self._end(uid)
        with contextlib.suppress(NotFoundError, ConflictError):
            await self.nodes.remove(pod)

    # Watches and the garbage collector.

    def _see_nothing(self, kind: str, body: KubeObject) -> None:
        """The map is all that matters."""

    async def _follow(self, resource: ResourceKind, known: dict[str, KubeObject], see: Callable[[str, KubeObject], None]) -> None:
        while True:
            versions: list[str] = []
            try:
                listed: dict[str, KubeObject] = {}
                async for page in self.client.list_pages(resource, self.namespace, on_version=versions.append):
                    listed |= {body["metadata"]["uid"]: body for body in page}
                for uid in [uid for uid in known if uid not in listed]:
                    see("DELETED", known.pop(uid))
                for uid, body in listed.items():
                    known[uid] = body
                    see("ADDED", body)
                async for kind, body in self.client.changes(resource, versions[-1], 300, namespace=self.namespace):
                    if kind == "DELETED":
                        known.pop(body["metadata"]["uid"], None)
                    else:
                        known[body["metadata"]["uid"]] = body
                    see(kind, body)
            except KubeError:
                await asyncio.sleep(0.1)

    async def _collect(self) -> None:
        """Carries out what deletion with each kind of propagation asks of the garbage collector."""
        while True:
            await asyncio.sleep(COLLECT_SECONDS)
            with contextlib.suppress(NotFoundError, ConflictError):
                for job in list(self.jobs.values()):
                    await self._propagate(job)
                for kind, child in [*((PODS, pod) for pod in self.pods.values()), *((SECRETS, each) for each in self.secrets.values())]:
                    await self._collect_child(kind, child)

    async def _propagate(self, job: KubeObject) -> None:
        metadata = job["metadata"]
        finalizers = metadata.get("finalizers") or []
        if not metadata.get("deletionTimestamp"):
            return
        if _ORPHAN in finalizers:
            for kind, child in self._children(metadata["uid"]):
                await self.client.merge_patch(kind, self.namespace, child["metadata"]["name"], {"metadata": {"ownerReferences": None}})
            await self._without(job, _ORPHAN)
        elif _FOREGROUND in finalizers:
            # Kubernetes waits for those alone that are to block their owner's deletion; none of the operator's is.
            for kind, child in self._children(metadata["uid"]):
                if not child["metadata"].get("deletionTimestamp"):
                    await self.client.delete(kind, self.namespace, child["metadata"]["name"], uid=child["metadata"]["uid"])
            await self._without(job, _FOREGROUND)

    def _children(self, uid: str) -> list[tuple[ResourceKind, KubeObject]]:
        both = [*((PODS, pod) for pod in self.pods.values()), *((SECRETS, secret) for secret in self.secrets.values())]
        return [(kind, child) for kind, child in both if uid in _owners(child)]

    async def _without(self, job: KubeObject, finalizer: str) -> None:
        metadata = (await self.client.get(JOBS, self.namespace, job["metadata"]["name"]))["metadata"]
        left = [each for each in metadata.get("finalizers") or [] if each != finalizer]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": left}}
        await self.client.merge_patch(JOBS, self.namespace, metadata["name"], patch)

    async def _collect_child(self, kind: ResourceKind, child: KubeObject) -> None:
        metadata = child["metadata"]
        owners = _owners(child)
        if not owners or metadata.get("deletionTimestamp") or owners & self.jobs.keys():
            return
        for reference in metadata["ownerReferences"]:
            with contextlib.suppress(NotFoundError):
                owner = await self.client.get(JOBS, self.namespace, reference["name"])
                if owner["metadata"]["uid"] == reference["uid"]:
                    return
        await self.client.delete(kind, self.namespace, metadata["name"], uid=metadata["uid"])


def _owners(child: KubeObject) -> set[str]:
    return {str(reference["uid"]) for reference in child["metadata"].get("ownerReferences") or []}


def _title(pod: KubeObject) -> str:
    return general_name(pod["metadata"]["name"])


async def obedient(world: World, pod: KubeObject) -> None:
    """A mover that does what it is there for, once the run says that everything was moved."""
    if role_of(pod) != "cleaner":
        await world.partner_ran(pod)
        await world.finished.wait()
        if role_of(pod) == "receiver":
            await world.partner_ended(pod)
    await world.succeed(pod)
