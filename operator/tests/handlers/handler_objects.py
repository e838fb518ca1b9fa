"""Objects as the API server shows them, for tests of the handlers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead.api import names


def job_body(
    name: str = "job", uid: str = "job-uid", version: str = "1", namespace: str = "lab", *, pods: Sequence[str] = (), **metadata: Any
) -> dict[str, Any]:
    """A job whose status records pods of these UIDs and nothing else."""
    records = [{"uid": pod, "name": f"name-of-{pod}", "role": "receiver", "attempt": 1} for pod in pods]
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": version,
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"manager": "kubectl"}],
            **metadata,
        },
        "spec": {
            "source": {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}},
            "destination": {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}},
        },
        **({"status": {"pods": records}} if records else {}),
    }


def pod_body(
    role: str = "receiver",
    attempt: int = 1,
    *,
    job: str = "job",
    job_uid: str = "job-uid",
    uid: str = "pod-uid",
    version: str = "10",
    namespace: str = "lab",
    node: str | None = "dtn-b",
    phase: str = "Running",
    base: int = 24000,
) -> dict[str, Any]:
    """A mover pod of ours."""
    spec: dict[str, Any] = {"hostNetwork": True, "containers": [{"name": "mover", "ports": [{"name": "http", "containerPort": base + 1}]}]}
    if node is not None:
        spec["nodeName"] = node
    return {
        "metadata": {
            "name": names.child_name(job, job_uid, role, attempt),
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": version,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {names.LABEL_JOB_UID: job_uid, names.LABEL_ROLE: role, names.LABEL_ATTEMPT: str(attempt)},
            "ownerReferences": [{"apiVersion": names.API_VERSION, "kind": names.KIND, "name": job, "uid": job_uid, "controller": True}],
        },
        "spec": spec,
        "status": {"phase": phase, "podIP": "198.18.0.2"},
    }


def orphaned(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod as the garbage collector leaves it when its job is deleted with `--cascade=orphan`."""
    owner = pod["metadata"]["ownerReferences"][0]
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [], "annotations": {names.ANNOTATION_JOB: owner["name"]}}}


def path_body(
    name: str = "a-b", version: str = "1", *, interfaces: bool = True, status: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """A NetworkPath from `dtn-a` to `dtn-b`."""
    interface = {"interface": "data0"} if interfaces else {}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"source": {"node": "dtn-a"} | interface, "destination": {"node": "dtn-b"} | interface, **spec},
        "status": status or {},
    }
