"""Nodes and kubelets of a large cluster: pods are bound, run and removed as soon as they ask for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from kubelet import FakeNodes, wanted_node

from fairlead.api import names
from fairlead.api.shared.quantity import parse_rate
from fairlead.kube.client import CLAIMS, JOBS, NODES, PODS, VOLUMES, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import ConflictError, KubeError, NotFoundError
from load.movers import FarMovers

AT_ONCE = 32
"""Requests of whoever creates jobs that are under way together. Kubelets are each on a machine of their own and wait for nobody."""
_RETRY_SECONDS = 0.2


@dataclass
class JobTimes:
    """When what happened to a job was seen, on the loop's clock."""

    created_s: float = 0.0
    first_write_s: float | None = None
    transferring_s: float | None = None
    succeeded_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Change:
    """A sender's cap was lowered or raised."""

    at_s: float
    bps: float


@dataclass(eq=False)
class _Awaited:
    """Jobs that somebody waits for, until each was once as they shall be."""

    left: set[str]
    holds: Callable[[str], bool]
    met: asyncio.Event = field(default_factory=asyncio.Event)

    def look(self, uid: str) -> None:
        """Takes in that something has become of a job."""
        if uid in self.left and self.holds(uid):
            self.left.discard(uid)
        if not self.left:
            self.met.set()


@dataclass
class LoadedCluster:
    """`nodes` nodes, with a claim of any node's for each namespace. Movers end once their job may."""

    client: KubeClient
    movers: FarMovers
    nodes: int
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is set a transfer ends as soon as it has begun; else all run on."""
    times: dict[str, JobTimes] = field(default_factory=dict)
    """By UID."""
    phases: dict[str, str] = field(default_factory=dict)
    """Of every job, by UID."""
    failures: dict[str, str] = field(default_factory=dict)
    """Why the last attempt failed, of each job of which one has failed, by UID."""
    held: set[str] = field(default_factory=set)
    """Jobs with the operator's finalizer, by UID."""
    caps: dict[str, _Change] = field(default_factory=dict)
    """The last change of the cap of every sender, by pod UID."""
    _lives: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _sent: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    """By job, whether its sender has ended."""
    _awaited: list[_Awaited] = field(default_factory=list)
    _limit: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    def node(self, number: int) -> str:
        """The name of a node."""
        return f"dtn-{number % self.nodes:04d}"

    def address(self, node: str) -> str:
        """Its address, on the loopback."""
        return f"127.{_place(node)}"

    def data_address(self, node: str) -> str:
        """Where it would send data from: nobody dials it."""
        return f"10.{_place(node)}"

    async def install(self, namespaces: Iterable[str]) -> None:
        """Makes the nodes, and two claims for each namespace."""
        await self._all(self._make_node(self.node(number)) for number in range(self.nodes))
        await self._all(self._make_claim(namespace, claim) for namespace in namespaces for claim in ("raw", "scratch"))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The kubelets work while the block runs."""
        tasks = [asyncio.create_task(self._follow(PODS, self._see_pod)), asyncio.create_task(self._follow(JOBS, self._see_job))]
        try:
            async with self.movers.listening():
                yield
                for task in tasks:
                    if task.done():
                        task.result()
        finally:
            for task in (*tasks, *self._lives.values()):
                task.cancel()
            await asyncio.gather(*tasks, *self._lives.values(), return_exceptions=True)

    async def create_jobs(self, namespaces: list[str], count: int, first: int = 0) -> list[str]:
        """Creates jobs as fast as the API server takes them, and returns their UIDs. Namespaces and nodes follow from the number."""

        async def create(number: int) -> str:
            namespace, name = namespaces[number % len(namespaces)], f"job-{number:05d}"
            ends = [
                {"node": self.node(number * 2 + end), "volume": {"persistentVolumeClaim": {"claimName": claim}}, "path": name}
                for end, claim in enumerate(("raw", "scratch"))
            ]
            spec = {"source": ends[0], "destination": ends[1]}
            metadata = {"name": name, "namespace": namespace}
            body = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": metadata, "spec": spec}
            sent_s = asyncio.get_running_loop().time()
            uid = str((await self.client.create(JOBS, namespace, body))["metadata"]["uid"])
            self.times.setdefault(uid, JobTimes()).created_s = sent_s
            return uid

        return await self._all(create(number) for number in range(first, first + count))

    async def all_in(self, uids: Iterable[str], *phases: str, timeout_seconds: float) -> None:
        """Waits until every one of the jobs was once seen in one of the phases. Raises TimeoutError."""
        await self._until_each(uids, lambda uid: self.phases.get(uid) in phases, timeout_seconds)

    async def all_written(self, uids: Iterable[str], timeout_seconds: float) -> None:
        """Waits until the operator has written to every one of the jobs. Raises TimeoutError."""
        await self._until_each(uids, lambda uid: self.times[uid].first_write_s is not None, timeout_seconds)

    async def all_released(self, uids: Iterable[str], timeout_seconds: float) -> None:
        """Waits until the operator's finalizer is off every one of the jobs. Raises TimeoutError."""
        await self._until_each(uids, lambda uid: uid not in self.held, timeout_seconds)

    async def _until_each(self, uids: Iterable[str], holds: Callable[[str], bool], timeout_seconds: float) -> None:
        awaited = _Awaited({uid for uid in uids if not holds(uid)}, holds)
        if not awaited.left:
            return
        self._awaited.append(awaited)
        try:
            async with asyncio.timeout(timeout_seconds):
                await awaited.met.wait()
        finally:
            self._awaited.remove(awaited)

    async def _all(self, requests: Iterable[Awaitable[str]] | Iterable[Awaitable[None]]) -> list[str]:
        async def one(request: Awaitable[str | None]) -> str:
            async with self._limit:
                return await request or ""

        return list(await asyncio.gather(*(one(request) for request in requests)))

    async def _make_node(self, name: str) -> None:
        await self.client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        addresses = [{"type": "InternalIP", "address": self.address(name)}]
        status = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": addresses}}
        await self.client.merge_patch(NODES, None, name, status, subresource="status")

    async def _make_claim(self, namespace: str, claim: str) -> None:
        """Of a file system that every node reaches."""
        name, size = f"{namespace}-{claim}", {"storage": "1Gi"}
        modes = ["ReadWriteMany"]
        where = {"nfs": {"server": "nfs.example", "path": f"/{name}"}, "storageClassName": "", "accessModes": modes, "capacity": size}
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": where}
        await self.client.create(VOLUMES, None, volume)
        asked = {"accessModes": modes, "storageClassName": "", "volumeName": name, "resources": {"requests": size}}
        metadata = {"name": claim, "namespace": namespace}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": asked}
        await self.client.create(CLAIMS, namespace, body)
        bound = {"status": {"phase": "Bound", "accessModes": modes, "capacity": size}}
        await self.client.merge_patch(CLAIMS, namespace, claim, bound, subresource="status")

    async def _follow(self, kind: ResourceKind, see: Callable[[str, KubeObject], None]) -> None:
        while True:
            versions: list[str] = []
            try:
                async for page in self.client.list_pages(kind, on_version=versions.append):
                    for body in page:
                        see("ADDED", body)
                async for change in self.client.changes(kind, versions[-1], 3600):
                    see(change.kind, change.body)
            except KubeError:
                await asyncio.sleep(_RETRY_SECONDS)

    def _see_job(self, kind: str, job: KubeObject) -> None:
        uid, now_s = job["metadata"]["uid"], asyncio.get_running_loop().time()
        if kind == "DELETED":
            self.phases.pop(uid, None)
            self.held.discard(uid)
            return
        times = self.times.setdefault(uid, JobTimes())
        phase = (job.get("status") or {}).get("phase", "")
        self.phases[uid] = phase
        if failure := (job.get("status") or {}).get("lastFailure"):
            self.failures[uid] = failure["reason"]
        (self.held.add if names.FINALIZER in job["metadata"].get("finalizers", []) else self.held.discard)(uid)
        if times.first_write_s is None and (phase or job["metadata"].get("finalizers")):
            times.first_write_s = now_s
        if times.transferring_s is None and phase == "Transferring":
            times.transferring_s = now_s
        if times.succeeded_s is None and phase == "Succeeded":
            times.succeeded_s = now_s
        for awaited in self._awaited:
            awaited.look(uid)

    def _see_pod(self, kind: str, pod: KubeObject) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        uid, role = metadata["uid"], (metadata.get("labels") or {}).get(names.LABEL_ROLE)
        if role is None:
            return
        if kind == "DELETED":
            self.movers.end(uid)
            self.caps.pop(uid, None)
            if (task := self._lives.pop(uid, None)) is not None:
                task.cancel()
            return
        if role == "sender" and (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            self.caps.pop(uid, None)
        elif role == "sender":
            self._note_cap(uid, (metadata.get("annotations") or {}).get(names.ANNOTATION_EGRESS_BANDWIDTH))
        if metadata.get("deletionTimestamp"):
            if (task := self._lives.pop(uid, None)) is not None:
                task.cancel()
            self.movers.end(uid)
            self._lives[f"{uid} removed"] = asyncio.create_task(self._remove(pod))
        elif not spec.get("schedulingGates") and not spec.get("nodeName") and uid not in self._lives:
            self._lives[uid] = asyncio.create_task(self._live(pod))

    def _note_cap(self, uid: str, annotated: str | None) -> None:
        bps = float(parse_rate(annotated)) if annotated else float("inf")
        if uid not in self.caps or self.caps[uid].bps != bps:
            self.caps[uid] = _Change(asyncio.get_running_loop().time(), bps)

    async def _live(self, pod: KubeObject) -> None:
        labels, node = pod["metadata"]["labels"], wanted_node(pod)
        job, role = labels[names.LABEL_JOB_UID], labels[names.LABEL_ROLE]
        kubelets, address = self._kubelets(pod), self.address(node)
        with contextlib.suppress(NotFoundError):
            await _insist(lambda: kubelets.bind(pod), settled_by=ConflictError)
            self.movers.begin(pod, address, self.data_address(node))
            await _insist(lambda: kubelets.run(pod, serve=False, address=address))
            if role != "cleaner":
                await self.may_end.wait()
            if role == "receiver":
                await self._sent[job].wait()
            await _insist(lambda: kubelets.finish(pod))
            self.movers.end(pod["metadata"]["uid"])
            if role == "sender":
                self._sent[job].set()

    async def _remove(self, pod: KubeObject) -> None:
        await _insist(lambda: self._kubelets(pod).remove(pod), settled_by=(ConflictError, NotFoundError))

    def _kubelets(self, pod: KubeObject) -> FakeNodes:
        return FakeNodes(self.client, pod["metadata"]["namespace"])


async def _insist(request: Callable[[], Awaitable[object]], settled_by: type[KubeError] | tuple[type[KubeError], ...] = ()) -> None:
    """Makes a request until it is carried out, or answered by an error that says that it was before. Raises NotFoundError."""
    while True:
        try:
            await request()
        except settled_by:
            return
        except NotFoundError:
            raise
        except KubeError:
            await asyncio.sleep(_RETRY_SECONDS)
        else:
            return


def _place(node: str) -> str:
    number = int(node.removeprefix("dtn-"))
    return f"{1 + number // 62500}.{number // 250 % 250}.{1 + number % 250}"
