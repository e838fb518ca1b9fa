"""Jobs, templates and pods for tests of the kube package."""

from __future__ import annotations

from typing import Any

from fairlead.api import names
from fairlead.api.transferjob import TransferJob
from fairlead.kube.objects.template import Image, MoverTemplate

UID = "0a1b2c3d-0000-4000-8000-000000000042"
TEMPLATE = MoverTemplate(mover=Image("registry/fairlead-mover:1"), advisor=Image("registry/fairlead-advisor:1", "Always"))


def job_body(name: str = "run42", *, spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A job as the API server shows it."""
    ends = {
        "source": {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "run42/", "interface": "auto"},
        "destination": {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "path": "in/run42"},
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {
            "name": name,
            "namespace": "physics",
            "uid": UID,
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **metadata,
        },
        "spec": ends | (spec or {}),
    }


def job(name: str = "run42", **spec: Any) -> TransferJob:
    """The same, typed; `spec` replaces whole fields."""
    return TransferJob.from_object(job_body(name, spec=spec))


def attached_job(**spec: Any) -> TransferJob:
    """A job whose ends are attached by `lab-a` and `lab-b`."""
    sides = job_body()["spec"]
    ends = {"source": {**sides["source"], "attachment": "lab-a"}, "destination": {**sides["destination"], "attachment": "lab-b"}}
    return job(network="Attachment", **ends, **spec)


def pod_body(role: str = "receiver", attempt: int = 1, *, status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A mover pod of the job `run42`, as the API server shows it."""
    return {
        "metadata": {
            "name": names.child_name("run42", UID, role, attempt),
            "namespace": "physics",
            "uid": "pod-uid",
            "resourceVersion": "11",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {names.LABEL_JOB_UID: UID, names.LABEL_ROLE: role, names.LABEL_ATTEMPT: str(attempt)},
            "ownerReferences": [{"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "run42", "uid": UID, "controller": True}],
            **metadata,
        },
        "spec": {
            "nodeName": "dtn-b",
            "hostNetwork": True,
            "containers": [
                {"name": "mover", "ports": [{"name": "data", "containerPort": 24000}, {"name": "http", "containerPort": 24001}]}
            ],
        },
        "status": status if status is not None else {"phase": "Running", "podIP": "198.18.0.2"},
    }
