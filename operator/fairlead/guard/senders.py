"""Which pods of a node are to be held, and what is known of them from the pod alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.api import names
from fairlead.api.shared.quantity import RateError, parse_rate
from fairlead.core.observed import PodPhase, Role
from fairlead.guard.ruleset import Endpoint
from fairlead.kube.observe.pods import MOVER_CONTAINER, read_owned_pod

_CONNECT = "--connect="


@dataclass(frozen=True, slots=True)
class JobRef:
    """The job that owns a sender. Its status has the sender's cap."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Sender:
    """A sender on the node's own network."""

    uid: str
    name: str
    job: JobRef
    receiver: Endpoint | None
    """Where it was told to send; None where that is no address and port, or several."""
    annotated_bps: int | None
    """The cap of its annotation, which counts until the job's status has one. An annotation that is no rate is none."""
    has_started: bool
    """Whether a container of it has run, so that its control groups exist."""

    def __str__(self) -> str:
        return f"{self.job.namespace}/{self.name}"


def read_sender(pod: Mapping[str, Any]) -> Sender | None:
    """A pending or running sender of ours on the node's network; None for every other pod."""
    owned = read_owned_pod(pod)
    spec = pod.get("spec") or {}
    if owned is None or owned.pod.role is not Role.SENDER or not spec.get("hostNetwork"):
        return None
    if owned.pod.phase not in (PodPhase.PENDING, PodPhase.RUNNING):
        return None
    return Sender(
        uid=owned.pod.uid,
        name=owned.pod.name,
        job=JobRef(owned.namespace, owned.job_name, owned.job_uid),
        receiver=_receiver(spec),
        annotated_bps=_rate((pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_EGRESS_BANDWIDTH)),
        has_started=owned.pod.phase is PodPhase.RUNNING,
    )


def _receiver(spec: Mapping[str, Any]) -> Endpoint | None:
    movers = (container for container in spec.get("containers") or [] if container.get("name") == MOVER_CONTAINER)
    words = (str(word) for container in movers for word in container.get("args") or [])
    target = next((word.removeprefix(_CONNECT) for word in words if word.startswith(_CONNECT)), "")
    host, _, port = target.rpartition(":")
    if not host or "," in host or not (port.isascii() and port.isdigit()):
        return None
    return Endpoint(host.removeprefix("[").removesuffix("]"), int(port))


def _rate(text: str | None) -> int | None:
    try:
        return None if text is None else parse_rate(text)
    except RateError:
        return None
