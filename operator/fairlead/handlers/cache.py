"""What the watches have shown of jobs and their pods, corrected by lists, with the ports that movers hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from fairlead.core.observed import MoverPod, PodPhase
from fairlead.core.plan import CreatePod
from fairlead.kube.client import KubeObject
from fairlead.kube.observe.pods import OwnedPod, read_owned_pod

T = TypeVar("T")

_UNPLACED = ""
_ENDED = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


class ObjectKey(NamedTuple):
    """The name of a job or pod."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    uid: str
    resource_version: str
    value: T


class Versions(Generic[T]):
    """Newest known version of every object of a kind."""

    def __init__(self) -> None:
        self._entries: dict[ObjectKey, _Entry[T]] = {}

    def get(self, key: ObjectKey) -> T | None:
        """The newest known version."""
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def put(self, key: ObjectKey, uid: str, resource_version: str, value: T) -> bool:
        """Takes in a version; False if a newer one of the same object is known, as when a watch lags behind our own writes."""
        entry = self._entries.get(key)
        if entry is not None and entry.uid == uid and _is_older(resource_version, entry.resource_version):
            return False
        self._entries[key] = _Entry(uid, resource_version, value)
        return True

    def drop(self, key: ObjectKey, uid: str) -> T | None:
        """Forgets this incarnation; another one of the same name stays. Returns what was forgotten."""
        entry = self._entries.get(key)
        if entry is None or entry.uid != uid:
            return None
        del self._entries[key]
        return entry.value

    def snapshot(self) -> Mapping[ObjectKey, object]:
        """What is known now, to be given to `unlisted` after a list."""
        return dict(self._entries)

    def unlisted(self, before: Mapping[ObjectKey, object], listed: Mapping[ObjectKey, str]) -> list[tuple[ObjectKey, str]]:
        """Keys and UIDs of phantoms: known before a list began, untouched since, and not in it (`listed` maps keys to UIDs)."""
        return [(key, entry.uid) for key, entry in self._entries.items() if before.get(key) is entry and listed.get(key) != entry.uid]

    def keys(self) -> list[ObjectKey]:
        """All known keys."""
        return list(self._entries)

    def items(self) -> Iterator[tuple[ObjectKey, T]]:
        """All known objects with their keys."""
        return ((key, entry.value) for key, entry in self._entries.items())

    def values(self) -> Iterator[T]:
        """All known objects."""
        return (entry.value for entry in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)


def _is_older(candidate: str, known: str) -> bool:
    return candidate.isdigit() and known.isdigit() and int(candidate) < int(known)


class PortsInUse(Mapping[str, frozenset[int]]):
    """Port bases that other jobs' movers hold, by node; key `""` is for movers without a node yet. A view of the present moment."""

    def __init__(self, by_node: Mapping[str, Counter[int]], own: Mapping[str, Counter[int]]) -> None:
        self._by_node = by_node
        self._own = own

    def __getitem__(self, node: str) -> frozenset[int]:
        own = self._own.get(node, Counter())
        if node not in self._by_node:
            raise KeyError(node)
        return frozenset(base for base, holders in self._by_node[node].items() if holders > own[base])

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_node)

    def __len__(self) -> int:
        return len(self._by_node)


class Cache:
    """Jobs and policies as plain objects without their `managedFields`, pods as typed projections, namespaces as their labels."""

    def __init__(self) -> None:
        self.jobs: Versions[KubeObject] = Versions()
        self.pods: Versions[OwnedPod] = Versions()
        self.policies: Versions[KubeObject] = Versions()
        self.namespaces: Versions[Mapping[str, str]] = Versions()
        self._pods_by_job: dict[str, dict[ObjectKey, OwnedPod]] = defaultdict(dict)
        self._bases: dict[str, Counter[int]] = defaultdict(Counter)
        self._reserved: dict[str, list[tuple[str, int]]] = defaultdict(list)

    def put_job(self, body: Mapping[str, Any]) -> ObjectKey:
        """Takes in a version of a job and returns its key."""
        slim = _slim(body)
        key = ObjectKey(slim["metadata"]["namespace"], slim["metadata"]["name"])
        self.jobs.put(key, slim["metadata"]["uid"], str(slim["metadata"].get("resourceVersion", "")), slim)
        return key

    def put_policy(self, body: Mapping[str, Any]) -> ObjectKey:
        """Takes in a version of a FairnessPolicy and returns its key."""
        slim = _slim(body)
        key = cluster_key(slim)
        self.policies.put(key, slim["metadata"]["uid"], str(slim["metadata"].get("resourceVersion", "")), slim)
        return key

    def put_namespace(self, body: Mapping[str, Any]) -> ObjectKey:
        """Takes in a version of a namespace and returns its key."""
        metadata, key = body["metadata"], cluster_key(body)
        labels = dict(metadata.get("labels") or {})
        self.namespaces.put(key, metadata["uid"], str(metadata.get("resourceVersion", "")), labels)
        return key

    def namespace_labels(self) -> dict[str, Mapping[str, str]]:
        """The labels of every namespace."""
        return {key.name: labels for key, labels in self.namespaces.items()}

    def drop_job(self, key: ObjectKey, uid: str) -> None:
        """Forgets a job that is gone."""
        self.jobs.drop(key, uid)

    def put_pod(self, body: Mapping[str, Any]) -> ObjectKey | None:
        """Takes in a version of a pod and returns its job's key, None if the pod is not one of ours."""
        owned = read_owned_pod(body)
        return None if owned is None else self.put_owned_pod(owned)

    def put_owned_pod(self, owned: OwnedPod) -> ObjectKey:
        """Takes in a version of a pod of ours and returns its job's key."""
        key = ObjectKey(owned.namespace, owned.pod.name)
        previous = self.pods.get(key)
        if self.pods.put(key, owned.pod.uid, owned.pod.resource_version, owned):
            if previous is not None:
                self._unindex(key, previous)
            self._pods_by_job[owned.job_uid][key] = owned
            self._hold(owned.pod, 1)
        return ObjectKey(owned.namespace, owned.job_name)

    def drop_pod(self, key: ObjectKey, uid: str) -> ObjectKey | None:
        """Forgets a pod that is gone and returns its job's key, None if it was not known."""
        gone = self.pods.drop(key, uid)
        if gone is None:
            return None
        self._unindex(key, gone)
        return ObjectKey(gone.namespace, gone.job_name)

    def pods_of(self, job_uid: str) -> list[MoverPod]:
        """The known pods of a job."""
        return [owned.pod for owned in self._pods_by_job.get(job_uid, {}).values()]

    def replace_pods_of(self, namespace: str, job_uid: str, pods: Iterable[OwnedPod]) -> None:
        """Makes the known pods of a job those that a live list just showed."""
        listed = {ObjectKey(namespace, owned.pod.name): owned for owned in pods}
        for key, known in list(self._pods_by_job.get(job_uid, {}).items()):
            if key not in listed or listed[key].pod.uid != known.pod.uid:
                self.drop_pod(key, known.pod.uid)
        for owned in listed.values():
            self.put_owned_pod(owned)

    def ports_in_use(self, job_uid: str) -> PortsInUse:
        """Port bases held by movers of all jobs but this one, those just promised included."""
        own: dict[str, Counter[int]] = defaultdict(Counter)
        for owned in self._pods_by_job.get(job_uid, {}).values():
            if (held := _held_base(owned.pod)) is not None:
                own[held[0]][held[1]] += 1
        for node, base in self._reserved.get(job_uid, ()):
            own[node][base] += 1
        return PortsInUse(self._bases, own)

    @contextmanager
    def reserve(self, job_uid: str, creates: Iterable[CreatePod]) -> Iterator[None]:
        """Holds the ports of pods about to be created until they are in the cache themselves, or were not created."""
        promised = [(action.node or _UNPLACED, action.port_base) for action in creates]
        for node, base in promised:
            self._bases[node][base] += 1
        self._reserved[job_uid] += promised
        try:
            yield
        finally:
            for node, base in promised:
                self._release(node, base)
                self._reserved[job_uid].remove((node, base))
            if not self._reserved[job_uid]:
                del self._reserved[job_uid]

    def _unindex(self, key: ObjectKey, owned: OwnedPod) -> None:
        of_job = self._pods_by_job[owned.job_uid]
        of_job.pop(key, None)
        if not of_job:
            del self._pods_by_job[owned.job_uid]
        self._hold(owned.pod, -1)

    def _hold(self, pod: MoverPod, sign: int) -> None:
        held = _held_base(pod)
        if held is None:
            return
        if sign > 0:
            self._bases[held[0]][held[1]] += 1
        else:
            self._release(*held)

    def _release(self, node: str, base: int) -> None:
        self._bases[node][base] -= 1
        if self._bases[node][base] <= 0:
            del self._bases[node][base]


def _held_base(pod: MoverPod) -> tuple[str, int] | None:
    if pod.port_base is None or pod.phase in _ENDED:
        return None
    return pod.node or _UNPLACED, pod.port_base


def cluster_key(body: Mapping[str, Any]) -> ObjectKey:
    """The key of an object that is in no namespace."""
    return ObjectKey("", body["metadata"]["name"])


def _slim(body: Mapping[str, Any]) -> KubeObject:
    metadata = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    return {"metadata": metadata, "spec": body.get("spec") or {}, "status": body.get("status") or {}}
