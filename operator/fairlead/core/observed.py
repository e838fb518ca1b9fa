"""What one reconcile pass observes of a job: the job, its pods, and the nodes and claims that it names.

`kube.observe` builds an `Observed`, and `core.lifecycle.decide` makes a `Plan` of it. Everything is frozen and free of clients and clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum, auto
from ipaddress import IPv4Network, IPv6Network

from fairlead.api.transferjob import TransferJob
from fairlead.api.transferjob.spec import Side
from fairlead.core.cap_excess import CapExcess
from fairlead.core.dtn import TransferNode
from fairlead.core.fairness.model import JobShare
from fairlead.core.paths.model import EngineEvidence, ProbeAssignment
from fairlead.core.placement.model import Affinity, Answer
from fairlead.core.ports import PortsInUse
from fairlead.core.reports import Advice, Reports, Verdict
from fairlead.core.settings import OperatorSettings


class Role(StrEnum):
    """The part a mover pod plays; the value is its label."""

    SENDER = "sender"
    RECEIVER = "receiver"
    CLEANER = "cleaner"


class PodPhase(StrEnum):
    """A pod's phase as the kubelet reports it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class MoverPod:
    """One of the job's pods as the API server shows it."""

    name: str
    uid: str
    resource_version: str
    role: Role
    attempt: int
    phase: PodPhase
    ready: bool
    """Whether its mover is up, whatever becomes of the sidecar."""
    deleting: bool
    created_at: datetime
    node: str | None
    address: str | None
    """The pod's own address (the node's on the host network); the only one the operator dials."""
    port_base: int | None
    verdict: Verdict | None
    waiting_reason: str = ""
    """Why a container or the scheduler holds the pod back, e.g. `ErrImageNeverPull`, `Unschedulable`; empty when nothing does."""
    waiting_message: str = ""
    exit_code: int | None = None
    ended_at: datetime | None = None
    """When the mover's container ended; None while it runs and where the kubelet does not report it."""
    advice: Advice | None = None
    """What the sidecar left behind when it ended, after the mover."""
    egress_cap: str | None = None
    """The rate of its annotation for what it sends, as it is written there."""
    ingress_cap: str | None = None
    """The rate of its annotation for what it receives, as it is written there."""
    pacing_cap: str | None = None
    """The rate of the annotation that its mover paces by, where it is not on the nodes' network, as it is written there."""
    path_caps: str | None = None
    """The rates of its annotation for what it sends on each of its paths, as they are written there."""
    watches_paths: bool = False
    """A sender that paces by that annotation too."""
    ready_since: datetime | None = None
    """When it became ready; None while it is not and where the kubelet does not report it."""
    unready_since: datetime | None = None
    """Since when it is not ready: it never was, or was and stopped. None while it is and where the kubelet does not report it."""
    placed_at: datetime | None = None
    """When it got its node; None while it has none and where the scheduler does not report it."""
    gates: tuple[str, ...] = ()
    """Scheduling gates that keep it from being placed."""
    wanted_node: str | None = None
    """The only node on which it may be placed; None if there may be several."""
    on_host_network: bool = False
    """Whether its ports are those of its node."""
    knows_path: bool = False
    """A sender whose advisor was given what is on the path and does not probe it as a whole."""
    addresses: frozenset[str] = frozenset()
    """All addresses of the pod itself (on the host network those of its node that the kubelet knows)."""
    attached: frozenset[str] | None = None
    """Addresses of its attachments by the network plugin; None where the plugin does not report them."""


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """A persistent volume claim; `node` is set where its volume is bound to a single node."""

    exists: bool
    bound: bool = False
    node: str | None = None
    affinity: Affinity | None = None
    """From which nodes the volume can be used; None for every one."""
    disk_numa_node: int | None = None
    """NUMA node of the disk, by the volume's annotation; None if unknown."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node the job names."""

    exists: bool
    ready: bool = False
    schedulable: bool = True
    addresses: frozenset[str] = frozenset()
    """The addresses in its status."""
    data_networks: tuple[IPv4Network | IPv6Network, ...] | None = None
    """Addresses of its data interfaces by its annotation; None without one."""


class ProgressWrites(Enum):
    """Which jobs' progress may be written now where there is no other news: beside thousands of others a job waits for that."""

    NONE = auto()
    OVERDUE = auto()
    """Of those that have waited for long in view of their age."""
    ALL = auto()


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything one pass decides by. `pods` holds only pods that the operator created for this job (`core.pod_record`)."""

    job: TransferJob
    pods: tuple[MoverPod, ...] = ()
    reports: Reports = field(default_factory=Reports)
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    claims: Mapping[str, ClaimFacts] = field(default_factory=dict)
    attachments: Mapping[str, str] = field(default_factory=dict)
    """NetworkAttachmentDefinitions that refuse a pod which asks for a rate, by name, each with the plugin for which they do. Nothing of
    those that do not, or of which nothing is known."""
    ports_in_use: PortsInUse = field(default_factory=PortsInUse)
    settings: OperatorSettings = field(default_factory=OperatorSettings)
    progress_writes: ProgressWrites = ProgressWrites.ALL
    fairness: JobShare | None = None
    """What the FairnessPolicy in force means for this job; None without a policy."""
    network_failures: Mapping[str, str] = field(default_factory=dict)
    """By the UID of a pod that has no address, the kubelet's latest words on why its network could not be made, as far as it told any."""
    asked_bps: float | None = None
    """The highest cap that was in force while the movers measured their present rate; None if that is not known."""
    excess: CapExcess | None = None
    """By how much what arrived was ahead of the caps, at the receiver's report before; None before the first."""
    path: ProbeAssignment | None = None
    """What is known of its path; None where its nodes are not known yet, or it leads nowhere."""
    engines: EngineEvidence | None = None
    """What is known of the transport protocols there, of a job that leaves the choice and is about to start; None where nothing can be."""
    placement: Answer | None = None
    """Where the attempt that is about to start runs, or why it waits; None where no data transfer node is concerned."""
    destination_writer: str | None = None
    """Name of the job that writes into the destination and has to end before an attempt may begin."""
    transfer_nodes: Mapping[str, TransferNode] = field(default_factory=dict)
    """The cluster's data transfer nodes by name; empty where there are no DataTransferNodes."""
    bandwidth_manager: bool = False
    """Whether Cilium's bandwidth manager is on in the cluster: it holds pods on the pod network to their annotations."""
    refusal: str = ""
    """The API server's message if it refused the creations of the pass before (a quota, an admission policy, a missing right)."""

    @property
    def latest_attempt(self) -> int:
        """Number of the latest attempt, 0 before the first. A pod may be ahead of a status that was not written."""
        return max(self.job.status.attempts or 0, latest_attempt_of(self.pods))

    @property
    def attempt_under_way(self) -> bool:
        """Whether the latest attempt has been started and has not been ended."""
        return self.job.status.attempt_start_time is not None or self.latest_attempt > (self.job.status.attempts or 0)

    @property
    def movers(self) -> tuple[MoverPod, ...]:
        """Senders and receivers of every attempt."""
        return self.pods_of(Role.SENDER, Role.RECEIVER)

    def pods_of(self, *roles: Role) -> tuple[MoverPod, ...]:
        """The job's pods of these roles, of every attempt."""
        return tuple(pod for pod in self.pods if pod.role in roles)

    def mover(self, role: Role, attempt: int) -> MoverPod | None:
        """The attempt's pod of that role, None if there is none."""
        return next((pod for pod in self.pods_of(role) if pod.attempt == attempt), None)

    def claim_node(self, side: Side) -> str | None:
        """The only node from which this end's volume can be used; None if there are several, and while the claim is not bound."""
        claim = self.claims.get(side.claim_name)
        return claim.node if claim else None


def latest_attempt_of(pods: Iterable[MoverPod]) -> int:
    """Number of the latest attempt that has a sender or a receiver among `pods`, 0 without any."""
    return max((pod.attempt for pod in pods if pod.role is not Role.CLEANER), default=0)


def running_movers(pods: Iterable[MoverPod]) -> tuple[MoverPod | None, MoverPod | None]:
    """Receiver and sender of the newest attempt that runs, as far as they can be asked: with an address and ports."""
    running = [pod for pod in pods if pod.phase is PodPhase.RUNNING and not pod.deleting and pod.address and pod.port_base]
    newest = latest_attempt_of(running)
    by_role = {pod.role: pod for pod in running if pod.attempt == newest}
    return by_role.get(Role.RECEIVER), by_role.get(Role.SENDER)
