"""Pods as the operator makes them and the API server completes them."""

from __future__ import annotations

from typing import Any

from fairlead.api import names
from fairlead.api.transferjob import TransferJob
from fairlead.core.observed import Role
from fairlead.core.plan import CreatePod
from fairlead.core.reports import MoverEndpoint
from fairlead.guard.ruleset import Endpoint
from fairlead.guard.senders import JobRef, Sender
from fairlead.kube.objects.build import build_pod
from fairlead.kube.objects.template import Image, MoverTemplate

NODE_A, NODE_B = "dtn-a", "dtn-b"


def _job(network: str) -> TransferJob:
    side = {"volume": {"persistentVolumeClaim": {"claimName": "raw"}}}
    metadata = {"name": "run42", "namespace": "physics", "uid": "job-uid", "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"source": side, "destination": {**side, "path": "copy"}, "network": network}
    return TransferJob.from_object({"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": metadata, "spec": spec})


def make_pod(
    cap_bps: int | None = 200_000_000,
    *,
    role: Role = Role.SENDER,
    uid: str = "one",
    address: str = "198.19.0.2",
    port: int = 24000,
    phase: str = "Running",
    network: str = "Host",
) -> dict[str, Any]:
    """A mover pod that sends to this address and port."""
    action = CreatePod(role, 1, NODE_A if role is Role.SENDER else NODE_B, 24004, MoverEndpoint("data0", address, port), cap_bps)
    made = build_pod(_job(network), action, MoverTemplate(mover=Image("mover:1"), advisor=Image("advisor:1")))
    made["metadata"] |= {"uid": uid, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return made | {"status": {"phase": phase}}


UIDS = ("98b2a419-b64a-4316-952f-c12db992268f", "62d99370-e51f-44b2-8abc-643dc71bbea1")


def make_sender(uid: str, port: int = 24000, *, pod: str = "run42-sender", address: str = "198.19.0.2", started: bool = True) -> Sender:
    """A sender as the guard knows it."""
    return Sender(uid, pod, JobRef("physics", "run42", "job-uid"), Endpoint(address, port), None, started)
