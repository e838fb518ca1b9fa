"""What a reconcile pass observes and what it plans: the vocabulary between `kube` (effects) and `core` (decisions).

Everything is frozen and free of clients and clocks. `kube.gather` builds an `Observed`, `core.decide` turns it into a `Plan`,
`kube.apply` carries the plan out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from fairlead.api.reasons import Reason
from fairlead.api.spec import Side
from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.core.cap_excess import Arrived, CapExcess
from fairlead.core.settings import Settings


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
class Verdict:
    """A mover's own closing statement, parsed from its termination message (docs/contracts.md).

    `job` (a UID) and `attempt` are what the mover itself states; a verdict that names another job or attempt proves nothing.
    """

    job: str
    attempt: int
    verdict: str
    reason: str
    message: str
    retry: bool
    bytes_total: int = 0
    bytes_transferred: int = 0
    bytes_skipped: int = 0
    bytes_resumed: int = 0
    """What earlier attempts had left; part of `bytes_transferred`."""
    files_total: int = 0
    files_transferred: int = 0
    files_skipped: int = 0
    root_digest: str = ""
    verified: tuple[str, ...] = ()
    seconds: float = 0.0
    bulk_seconds: float = 0.0

    @property
    def bytes_sent(self) -> int:
        """What this attempt itself moved."""
        return max(0, self.bytes_transferred - self.bytes_resumed)


@dataclass(frozen=True, slots=True)
class PathReport:
    """What the advisor measured of the path. `whole`: at length and without the job's own data; None where it does not say."""

    rtt_seconds: float | None
    rtt_minimum_seconds: float | None
    loss_ratio: float | None
    whole: bool | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A congestion control that the advisor weighed and did not choose."""

    congestion_control: str
    why_not: str


@dataclass(frozen=True, slots=True)
class Switch:
    """A change of congestion control in mid-transfer."""

    at: datetime
    before: str
    after: str
    why: str


@dataclass(frozen=True, slots=True)
class DecisionReport:
    """What the advisor chose and why."""

    protocol: str
    congestion_control: str
    streams: int
    abstained: bool
    reason: str
    message: str
    decided_at: datetime
    background: str | None = None
    background_probability: float | None = None
    confidence: float | None = None
    model: str | None = None
    probabilities: Mapping[str, float] | None = None
    any_bbr: float | None = None
    background_abstained: bool = False
    """The classifier did not stand by its answer."""
    recalled: bool = False
    """The background is what an earlier transfer measured, handed on to this one."""
    rejected: tuple[Rejected, ...] = ()
    switches: tuple[Switch, ...] = ()
    """Those in mid-transfer, oldest first."""

    @property
    def switched(self) -> bool:
        """Whether there was one: the path was then measured under the transfer's own load."""
        return bool(self.switches)


@dataclass(frozen=True, slots=True)
class OutcomeReport:
    """How the advisor saw a transfer end. `stream_coefficient` in 1/bit, None unless its search for a stream count had ended."""

    congestion_control: str
    streams: int
    stream_coefficient: float | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """What the advisor measured and chose, as one message."""

    path: PathReport
    decision: DecisionReport
    outcome: OutcomeReport | None = None


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
    """When the mover's container ended; None while it runs and where the kubelet does not say."""
    advice: Advice | None = None
    """What the sidecar left behind when it ended, after the mover."""
    egress_cap: str | None = None
    """What its annotation says it may send, as it is written there."""
    ingress_cap: str | None = None
    """What its annotation says it may receive, as it is written there."""
    pacing_cap: str | None = None
    """On the pod network, what its mover is told that it may send, as it is written there."""
    ready_since: datetime | None = None
    """When it became ready; None while it is not and where the kubelet does not say."""
    knows_path: bool = False
    """A sender whose advisor was told what is on the path and does not probe it as a whole."""


def latest_attempt_of(pods: Iterable[MoverPod]) -> int:
    """Number of the latest attempt that has a sender or a receiver among `pods`, 0 without any."""
    return max((pod.attempt for pod in pods if pod.role is not Role.CLEANER), default=0)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a mover listens or sends from, as it reported over HTTP."""

    interface: str
    address: str
    port: int
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """A mover's last progress report. Totals are None until the listing is complete."""

    stage: str
    bytes_total: int | None
    bytes_transferred: int
    bytes_skipped: int
    files_total: int | None
    files_transferred: int
    files_skipped: int
    rate_bytes_per_second: float
    seconds_since_progress: float
    streams: int = 0
    congestion_control: str = ""
    bytes_resumed: int = 0
    """What earlier attempts had left; part of `bytes_transferred`."""
    wire_bytes: int | None = None
    """IP bytes that this end's sockets have sent, retransmissions included; None at the receiver."""
    interface_bytes_sent: int | None = None
    """What the mover's interface has sent since it came up, everybody's traffic included; None where the mover does not say."""
    interface_bytes_received: int | None = None
    read_at: float = 0.0
    """When the report was read, in seconds of Unix time."""

    @property
    def flows(self) -> bool:
        """Whether data is on its way: only then is the rate one of the network."""
        return self.stage == "Transferring"

    @property
    def arrived(self) -> Arrived:
        """At the receiver, what has arrived in this attempt."""
        return Arrived(self.read_at, self.bytes_transferred - self.bytes_resumed, self.streams)

    @property
    def has_flowed(self) -> bool:
        """Whether all data has arrived. What the receiver then does, and its rate, concerns its disk."""
        return self.stage in ("Verifying", "Publishing", "Done")


@dataclass(frozen=True, slots=True)
class Reports:
    """What the running pods said over HTTP this pass; None where nobody answered. Information, never a verdict."""

    receiver_endpoint: Endpoint | None = None
    sender_endpoint: Endpoint | None = None
    receiver: Progress | None = None
    sender: Progress | None = None
    path: PathReport | None = None
    decision: DecisionReport | None = None
    outcome: OutcomeReport | None = None
    advisor_silent_seconds: float = 0.0
    """For how long looks at a sender that transfers have found no decision beside it."""


@dataclass(frozen=True, slots=True)
class KnownBackground:
    """What else was on a path, as an advisor saw it at `measured_at`."""

    class_name: str
    probability: float
    probabilities: Mapping[str, float]
    any_bbr: float
    confidence: float
    abstained: bool
    model: str
    measured_at: datetime


@dataclass(frozen=True, slots=True)
class KnownPath:
    """What earlier transfers have learnt of a path; None for what nobody knows. `stream_coefficient` in 1/bit.

    `beside_own`: other transfers run there now, so that a higher RTT is their queue. `competes`: others' traffic need not be spared.
    """

    rtt_minimum_seconds: float | None = None
    capacity_bps: float | None = None
    stream_coefficient: float | None = None
    background: KnownBackground | None = None
    beside_own: bool = False
    competes: bool = False


class Probing(StrEnum):
    """How a new transfer comes to know its path."""

    OWN = "Own"
    """It probes; nobody else does."""
    KNOWN = "Known"
    """The path has just been measured."""
    LEASED = "Leased"
    """Another job is probing it."""


@dataclass(frozen=True, slots=True)
class PathStanding:
    """What the job's path means for the sender that it is about to start."""

    probing: Probing = Probing.OWN
    known: KnownPath = KnownPath()


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """A persistent volume claim; `node` is set where its volume is bound to a single node."""

    exists: bool
    bound: bool = False
    node: str | None = None


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node the job names."""

    exists: bool
    ready: bool = False


class Admission(StrEnum):
    """Whether a job may start as far as links are concerned."""

    UNDECIDED = "Undecided"
    ADMITTED = "Admitted"
    WAITING = "Waiting"


@dataclass(frozen=True, slots=True)
class Standing:
    """What the policy in force means for one job now."""

    admission: Admission
    cap_bps: int | None = None
    """Its share; None if it crosses no link of the policy."""
    hold: bool = False
    """Leave the cap as it is: nothing is known yet that would change it."""
    at_receiver: bool = False
    """One of the links is what the receiver gets: its pod has the share too."""
    ceiling_bps: int | None = None
    """More than its share can ever be, others' traffic and other jobs left out; None if it crosses no link of the policy."""
    reason: Reason = Reason.WAITING_FOR_LINK
    message: str = ""
    """Why it waits, or why its guarantee is less than it asks for."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything one pass looks at. `pods` holds only pods owned by this job's UID."""

    job: TransferJob
    pods: tuple[MoverPod, ...] = ()
    reports: Reports = field(default_factory=Reports)
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    claims: Mapping[str, ClaimFacts] = field(default_factory=dict)
    ports_in_use: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Port bases taken by other jobs' pods, by node name; key `""` holds those of pods not yet placed."""
    settings: Settings = field(default_factory=Settings)
    fairness: Standing | None = None
    """What the FairnessPolicy in force means for this job; None without a policy."""
    asked_bps: float | None = None
    """The highest cap that was in force while the movers measured their present rate; None if that is not known."""
    excess: CapExcess | None = None
    """By how much what arrived was ahead of the caps, at the receiver's report before; None before the first."""
    path: PathStanding | None = None
    """What is known of its path; None where its nodes are not known yet, or it leads nowhere."""
    refusal: str = ""
    """What the API server said if it refused the creations of the pass before (a quota, an admission policy, a missing right)."""

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


@dataclass(frozen=True, slots=True)
class CreateCredentials:
    """Make the attempt's Secret (one immutable object with both ends' pairs)."""

    attempt: int


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Make a mover pod, with its cap from the start, if it has one.

    `bucket_bps` is the rate of what is made as the pod starts and stays so, such as a CNI plugin's token bucket; None for the cap's.
    A sender is told where to connect (`receiver`) and what is known of `path`. `probe`: whether its advisor probes the path as a whole.
    """

    role: Role
    attempt: int
    node: str | None
    port_base: int
    receiver: Endpoint | None = None
    cap_bps: int | None = None
    bucket_bps: int | None = None
    path: KnownPath = KnownPath()
    probe: bool = True


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Remove exactly this pod (UID and resourceVersion are preconditions)."""

    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class AnnotatePod:
    """Set annotations on a live pod, e.g. its bandwidth cap."""

    name: str
    uid: str
    annotations: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """A Kubernetes event on the job. `warning` picks the type."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What one pass wants done, carried out in the order of the fields.

    `status` is the whole desired status, or None to leave it; `apply` writes it only where it differs.
    `finalizer` is True to hold the job, False to let it go, None to leave it.
    `delete_job` removes the job itself (time to live after it finished).
    """

    finalizer: bool | None = None
    credentials: tuple[CreateCredentials, ...] = ()
    deletes: tuple[DeletePod, ...] = ()
    creates: tuple[CreatePod, ...] = ()
    annotations: tuple[AnnotatePod, ...] = ()
    status: TransferJobStatus | None = None
    events: tuple[EmitEvent, ...] = ()
    delete_job: bool = False
    asks_for_links: bool = False
    """The job could start, as far as anything but shared links is concerned."""
    requeue_after: timedelta | None = None
