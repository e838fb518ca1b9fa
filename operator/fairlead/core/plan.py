"""What one reconcile pass wants done; `kube.apply` carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from fairlead.api.transferjob import TransferJobStatus
from fairlead.api.transferjob.status import ProtocolInForce
from fairlead.core.observed import Role
from fairlead.core.paths.model import KnownPath
from fairlead.core.reports import MoverEndpoint


@dataclass(frozen=True, slots=True)
class CreateCredentials:
    """Make the attempt's Secret (one immutable object with both ends' pairs)."""

    attempt: int


@dataclass(frozen=True, slots=True)
class DeleteCredentials:
    """Remove the Secret of an attempt that has ended; pods that mounted it keep what they have."""

    attempt: int


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Make a mover pod, with its cap from the start, if it has one, and those of its paths.

    `bucket_bps` is the rate of what is made as the pod starts and stays so, such as a CNI plugin's token bucket; None for the cap's.
    `on_host_network`: whether its ports are those of its node, where nobody else may have them.
    A sender gets where to connect (`receiver`) and what is known of `path`. `probe`: whether its advisor probes the path as a whole;
    `allocated`: its cap is a share by a FairnessPolicy.
    """

    role: Role
    attempt: int
    node: str | None
    port_base: int
    receiver: MoverEndpoint | None = None
    cap_bps: int | None = None
    path_caps_bps: tuple[int | None, ...] = ()
    bucket_bps: int | None = None
    on_host_network: bool = True
    path: KnownPath = field(default_factory=KnownPath)
    probe: bool = True
    allocated: bool = False
    protocol: ProtocolInForce = "TCP"
    """What carries the data; both ends must have the same."""
    interfaces: tuple[str, ...] = ()
    """Of its node, to carry the data; empty where its mover chooses."""
    node_labels: tuple[tuple[str, str], ...] = ()
    """Without a node: what the scheduler's choice must have."""


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Remove exactly this pod (UID and resourceVersion are preconditions), in whatever version without one."""

    name: str
    uid: str
    resource_version: str | None


@dataclass(frozen=True, slots=True)
class AnnotatePod:
    """Set annotations on a live pod, e.g. its bandwidth cap."""

    name: str
    uid: str
    annotations: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ReleasePod:
    """Let the scheduler place a pod whose UID is in the job's status. `gates` are those of others, which stay."""

    name: str
    uid: str
    gates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """A Kubernetes event on the job. `warning` picks the type."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What one pass wants done, carried out in the order of the fields.

    `status` is the whole desired status, or None to leave it; `apply` adds the pods that it created, and writes it only where it differs.
    `progress_alone`: it has no other news.
    `finalizer` is True to hold the job, False to let it go, None to leave it.
    `delete_job` removes the job itself (time to live after it finished). `proofs` are pods that prove that the job may be let go.
    """

    finalizer: bool | None = None
    credentials: tuple[CreateCredentials, ...] = ()
    deletes: tuple[DeletePod, ...] = ()
    ended_credentials: tuple[DeleteCredentials, ...] = ()
    creates: tuple[CreatePod, ...] = ()
    annotations: tuple[AnnotatePod, ...] = ()
    status: TransferJobStatus | None = None
    progress_alone: bool = False
    releases: tuple[ReleasePod, ...] = ()
    events: tuple[EmitEvent, ...] = ()
    delete_job: bool = False
    proofs: tuple[DeletePod, ...] = ()
    asks_for_links: bool = False
    """The job could start, as far as anything but shared links is concerned."""
    requeue_after: timedelta | None = None
