"""What the watches have shown of jobs and their pods, corrected by lists, and which pods are a job's own."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from fairlead.api.transferjob.status import PodRecord
from fairlead.core.observed import MoverPod, PodPhase, Role
from fairlead.handlers.destination_ledger import DestinationLedger
from fairlead.handlers.known_job import KnownJob, slim
from fairlead.handlers.port_ledger import JobUid, PortLedger
from fairlead.kube.client import KubeObject
from fairlead.kube.observe.pods import OwnedPod, read_owned_pod, read_recorded_pod

T = TypeVar("T")
_ENDED = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_MOST_GONE = 10_000
"""How many deleted objects of a kind are remembered: more than go while one list is read."""


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
    """Newest known version of every object of a kind. Versions of one kind are in the order of their numbers."""

    def __init__(self) -> None:
        self._entries: dict[ObjectKey, _Entry[T]] = {}
        self._gone: dict[str, str] = {}
        """By UID, the version up to which an object that went is known, the latest last."""

    def get(self, key: ObjectKey) -> T | None:
        """The newest known version."""
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def put(self, key: ObjectKey, uid: str, resource_version: str, value: T) -> bool:
        """Takes in a version; False if a newer one of that name is known, as when a watch lags behind our own writes, or if the object
        has gone since, as when a list began before that."""
        entry = self._entries.get(key)
        if entry is not None and _is_older(resource_version, entry.resource_version):
            return False
        if uid in self._gone and _is_older(resource_version, self._gone[uid]):
            return False
        self._entries[key] = _Entry(uid, resource_version, value)
        return True

    def has(self, key: ObjectKey, uid: str, resource_version: str) -> bool:
        """Whether exactly this version is the newest known one."""
        entry = self._entries.get(key)
        return entry is not None and bool(resource_version) and (entry.uid, entry.resource_version) == (uid, resource_version)

    def drop(self, key: ObjectKey, uid: str, resource_version: str = "") -> T | None:
        """Forgets this incarnation; another one of the same name stays. Returns what was forgotten.

        `resource_version` is when it was seen to be gone; without it, the version that is known counts as its last.
        """
        entry = self._entries.get(key)
        known = entry if entry is not None and entry.uid == uid else None
        self._bury(uid, resource_version or ("" if known is None else known.resource_version))
        if known is None:
            return None
        del self._entries[key]
        return known.value

    def _bury(self, uid: str, resource_version: str) -> None:
        if not resource_version:
            return
        self._gone.pop(uid, None)
        self._gone[uid] = resource_version
        if len(self._gone) > _MOST_GONE:
            del self._gone[next(iter(self._gone))]

    def snapshot(self) -> Mapping[ObjectKey, object]:
        """What is known now, to be given to `unlisted` after a list."""
        return dict(self._entries)

    def unlisted(
        self, before: Mapping[ObjectKey, object], listed: Mapping[ObjectKey, str], resource_version: str = ""
    ) -> list[tuple[ObjectKey, str]]:
        """Keys and UIDs of phantoms: known before a list began, untouched since, and not in it (`listed` maps keys to UIDs).

        `resource_version` is the list's: what is known to be newer need not be in it.
        """
        return [
            (key, entry.uid)
            for key, entry in self._entries.items()
            if before.get(key) is entry and listed.get(key) != entry.uid and not _is_older(resource_version, entry.resource_version)
        ]

    def keys(self) -> list[ObjectKey]:
        """All known keys."""
        return list(self._entries)

    def items(self) -> Iterator[tuple[ObjectKey, T]]:
        """All known objects with their keys."""
        return ((key, entry.value) for key, entry in self._entries.items())

    def values(self) -> Iterator[T]:
        """All objects that are known now, whatever becomes known meanwhile."""
        return (entry.value for entry in list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)


def _is_older(candidate: str, known: str) -> bool:
    return candidate.isdigit() and known.isdigit() and int(candidate) < int(known)


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    """What is known of a namespace; `terminating`: it is being deleted."""

    labels: Mapping[str, str]
    terminating: bool


class Cache:
    """Jobs and policies as objects without their `managedFields`, jobs packed, pods and namespaces as typed projections.

    `on_news` gets the key of a job whenever what is known of it or of its own pods changes, whoever showed it: a watch, a list, or the
    answer to a request. What is shown once more is no news, so a write and its echo in the watch are one.
    """

    def __init__(self, on_news: Callable[[ObjectKey], None] = lambda key: None) -> None:
        self._on_news = on_news
        self.jobs: Versions[KnownJob] = Versions()
        self.pods: Versions[OwnedPod] = Versions()
        self.policies: Versions[KubeObject] = Versions()
        self.namespaces: Versions[NamespaceFacts] = Versions()
        self.ports = PortLedger()
        self.destinations = DestinationLedger(self._is_received)
        self._pods_by_job: dict[JobUid, dict[ObjectKey, OwnedPod]] = defaultdict(dict)
        self._created: dict[JobUid, set[str]] = defaultdict(set)
        self._present: set[JobUid] = set()
        self._gone: set[JobUid] = set()
        """Jobs that are not present and of which pods are."""

    def put_job(self, body: Mapping[str, Any]) -> ObjectKey:
        """Takes in a version of a job and returns its key."""
        kept = slim(body)
        metadata = kept["metadata"]
        key = ObjectKey(sys.intern(metadata["namespace"]), sys.intern(metadata["name"]))
        job, previous = JobUid(key.namespace, sys.intern(metadata["uid"])), self.jobs.get(key)
        version = str(metadata.get("resourceVersion", ""))
        is_known = self.jobs.has(key, job.uid, version)
        if self.jobs.put(key, job.uid, version, previous if is_known and previous is not None else KnownJob.of(body)):
            if not is_known:
                self._on_news(key)
            if previous is not None and previous.uid != job.uid:
                self._leave(JobUid(key.namespace, previous.uid))
            self._present.add(job)
            self._gone.discard(job)
            self.destinations.put(job, kept)
            self._learn(key, job, _recorded_uids(kept) | self._unrecorded_uids(job, kept))
        return key

    def job(self, key: ObjectKey) -> KubeObject | None:
        """The newest known version of a job, as a copy."""
        known = self.jobs.get(key)
        return None if known is None else known.body()

    def put_policy(self, body: Mapping[str, Any]) -> ObjectKey:
        """Takes in a version of a FairnessPolicy and returns its key."""
        kept = slim(body)
        key = cluster_key(kept)
        self.policies.put(key, kept["metadata"]["uid"], str(kept["metadata"].get("resourceVersion", "")), kept)
        return key

    def put_namespace(self, body: Mapping[str, Any]) -> ObjectKey:
        """Takes in a version of a namespace and returns its key."""
        metadata, key = body["metadata"], cluster_key(body)
        facts = NamespaceFacts(dict(metadata.get("labels") or {}), terminating="deletionTimestamp" in metadata)
        self.namespaces.put(key, metadata["uid"], str(metadata.get("resourceVersion", "")), facts)
        return key

    def namespace_labels(self) -> dict[str, Mapping[str, str]]:
        """The labels of every namespace."""
        return {key.name: facts.labels for key, facts in self.namespaces.items()}

    def is_terminating(self, namespace: str) -> bool:
        """Whether the namespace is known to be on its way out."""
        facts = self.namespaces.get(ObjectKey("", namespace))
        return facts is not None and facts.terminating

    def drop_job(self, key: ObjectKey, uid: str, resource_version: str = "") -> None:
        """Forgets a job that is gone, as of `resource_version` if that is known."""
        if self.jobs.drop(key, uid, resource_version) is not None:
            self._on_news(key)
            self._leave(JobUid(key.namespace, uid))

    def read_pod(self, body: Mapping[str, Any]) -> OwnedPod | None:
        """The pod if it claims to be a job's, or is known to be one's own: what labels and owner it has later does not change that."""
        owned = read_owned_pod(body)
        if owned is not None:
            return owned
        metadata = body["metadata"]
        known = self.pods.get(ObjectKey(metadata["namespace"], metadata["name"]))
        if known is None or not self._is_own(known):
            return None
        record = PodRecord(uid=known.pod.uid, name=known.pod.name, role=known.pod.role.value, attempt=known.pod.attempt)
        return read_recorded_pod(body, known.job_name, known.job_uid, record)

    def put_pod(self, body: Mapping[str, Any]) -> ObjectKey | None:
        """Takes in a version of a pod and returns its job's key, None if the pod is not one of a job's own."""
        owned = self.read_pod(body)
        return None if owned is None else self.put_owned_pod(owned)

    def put_created_pod(self, body: Mapping[str, Any]) -> ObjectKey | None:
        """Takes in a pod as the API server answered its creation, which makes it the job's own before the status records it."""
        owned = read_owned_pod(body)
        if owned is None:
            return None
        self._created[_job_uid(owned)].add(owned.pod.uid)
        # A watch may have shown it before, as one that nobody knew.
        self._on_news(_job_key(owned))
        return self.put_owned_pod(owned)

    def put_owned_pod(self, owned: OwnedPod) -> ObjectKey | None:
        """Takes in a version of a pod that claims a job, and returns the job's key, None if the pod is not one of its own."""
        key, job = ObjectKey(owned.namespace, owned.pod.name), _job_uid(owned)
        previous, is_known = self.pods.get(key), self.pods.has(key, owned.pod.uid, owned.pod.resource_version)
        if self.pods.put(key, owned.pod.uid, owned.pod.resource_version, owned):
            if not is_known:
                self._note_news(previous, owned)
            if previous is not None and _job_uid(previous) != job:
                self._unindex(key, previous)
            self._pods_by_job[job][key] = owned
            if job not in self._present:
                self._gone.add(job)
            self.ports.release(key)
            if self._is_own(owned):
                self.ports.hold(key, job, owned.pod)
        return _job_key(owned) if self._is_own(owned) else None

    def drop_pod(self, key: ObjectKey, uid: str, resource_version: str = "") -> ObjectKey | None:
        """Forgets a pod that is gone, as of `resource_version` if that is known. Returns its job's key, None if it was not known or not
        one of a job's own."""
        gone = self.pods.drop(key, uid, resource_version)
        if gone is None:
            return None
        is_own = self._is_own(gone)
        self._note_news(gone)
        self._unindex(key, gone)
        return _job_key(gone) if is_own else None

    def pods_of(self, job: JobUid) -> list[MoverPod]:
        """The known pods that the operator created for a job."""
        return [owned.pod for owned in self._pods_by_job.get(job, {}).values() if self._is_own(owned)]

    def unrecorded_pods_of(self, job: JobUid) -> list[MoverPod]:
        """The known pods that claim a job, and that nobody recorded, so that they cannot run."""
        return [owned.pod for owned in self._pods_by_job.get(job, {}).values() if owned.waits_for_record and not self._is_own(owned)]

    def strays(self, key: ObjectKey) -> list[OwnedPod]:
        """The pods of jobs of this name that are gone which nobody collects, as they name no owner."""
        return [owned for owned in self._strays() if _job_key(owned) == key]

    def jobs_of_strays(self) -> set[ObjectKey]:
        """The names of jobs that are gone and of which such pods are left."""
        return {_job_key(owned) for owned in self._strays()}

    def _strays(self) -> Iterator[OwnedPod]:
        strays = (owned for job in self._gone for owned in self._pods_by_job[job].values() if owned.is_stray)
        # Of a job that was gone before this operator started the record of its pods is gone as well.
        return (owned for owned in strays if self._is_own(owned) or _job_uid(owned) not in self._created)

    def movers_by_node(self) -> Mapping[str, int]:
        """How many of the jobs' movers each node has that have not ended."""
        running = (owned.pod for owned in self.pods.values() if owned.pod.phase not in _ENDED and self._is_own(owned))
        return Counter(pod.node for pod in running if pod.node is not None and pod.role is not Role.CLEANER)

    def replace_pods_of(self, job: JobUid, pods: Iterable[OwnedPod]) -> None:
        """Makes the known pods of a job those that a live list just showed."""
        listed = {ObjectKey(job.namespace, owned.pod.name): owned for owned in pods}
        for key, known in list(self._pods_by_job.get(job, {}).items()):
            if key not in listed or listed[key].pod.uid != known.pod.uid:
                self.drop_pod(key, known.pod.uid)
        for owned in listed.values():
            self.put_owned_pod(owned)

    def is_created(self, namespace: str, job_uid: str, pod_uid: str) -> bool:
        """Whether the operator created this pod for this job: its answer or the job's status had the pod's UID."""
        return pod_uid in self._created.get(JobUid(namespace, job_uid), ())

    def _is_own(self, owned: OwnedPod) -> bool:
        return self.is_created(owned.namespace, owned.job_uid, owned.pod.uid)

    def _note_news(self, *pods: OwnedPod | None) -> None:
        """Something is new of those of these pods that are a job's own."""
        for key in {_job_key(owned) for owned in pods if owned is not None and self._is_own(owned)}:
            self._on_news(key)

    def _learn(self, key: ObjectKey, job: JobUid, uids: frozenset[str]) -> None:
        """Takes in the UIDs that a job's status records. They stay known while the job or a pod of it is."""
        news = uids - self._created.get(job, set())
        if not news:
            return
        self._on_news(key)
        self._created[job] |= news
        for pod_key, owned in self._pods_by_job.get(job, {}).items():
            if owned.pod.uid in news:
                self.ports.hold(pod_key, job, owned.pod)

    def _unrecorded_uids(self, job: JobUid, body: Mapping[str, Any]) -> frozenset[str]:
        """UIDs of the movers of a job that a version without `status.pods` began: of the latest attempt those that its status names.

        This version records a pod before its name is in the status, so a status that has the name alone is not one of its own.
        """
        status = body["status"]
        if status.get("pods"):
            return frozenset()
        named, latest = _named_pods(status), status.get("attempts")
        pods = self._pods_by_job.get(job, {}).values()
        return frozenset(owned.pod.uid for owned in pods if owned.pod.name in named and owned.pod.attempt == latest)

    def _is_received(self, job: JobUid) -> bool:
        """Whether a receiver of a job may still be running."""
        return any(pod.role is Role.RECEIVER and pod.phase not in _ENDED for pod in self.pods_of(job))

    def _leave(self, job: JobUid) -> None:
        self.destinations.drop(job)
        self._present.discard(job)
        if job in self._pods_by_job:
            self._gone.add(job)
        self._forget_if_gone(job)

    def _forget_if_gone(self, job: JobUid) -> None:
        if job not in self._pods_by_job and job not in self._present:
            self._created.pop(job, None)

    def _unindex(self, key: ObjectKey, owned: OwnedPod) -> None:
        job = _job_uid(owned)
        of_job = self._pods_by_job[job]
        of_job.pop(key, None)
        if not of_job:
            del self._pods_by_job[job]
            self._gone.discard(job)
        self.ports.release(key)
        self._forget_if_gone(job)


def _job_key(owned: OwnedPod) -> ObjectKey:
    return ObjectKey(owned.namespace, owned.job_name)


def _job_uid(owned: OwnedPod) -> JobUid:
    return JobUid(owned.namespace, owned.job_uid)


def _recorded_uids(body: Mapping[str, Any]) -> frozenset[str]:
    """Of the status as it is: one that no model accepts must not lose the job its pods."""
    records = body["status"].get("pods")
    return frozenset(
        sys.intern(str(record["uid"]))
        for record in (records if isinstance(records, list) else [])
        if isinstance(record, dict) and "uid" in record
    )


def _named_pods(status: Mapping[str, Any]) -> frozenset[str]:
    endpoints = status.get("endpoints")
    ends = endpoints.values() if isinstance(endpoints, dict) else ()
    return frozenset(str(end["pod"]) for end in ends if isinstance(end, dict) and "pod" in end)


def cluster_key(body: Mapping[str, Any]) -> ObjectKey:
    """The key of an object that is in no namespace."""
    return ObjectKey("", body["metadata"]["name"])
