"""`TransferJob.status`: what the operator reports. Nothing in it is asked for, everything was observed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fairlead.api.reasons import ConditionType
from fairlead.api.shared.fields import Condition
from fairlead.api.shared.quantity import RateError, parse_rate
from fairlead.api.shared.resource import ApiModel, Timestamp
from fairlead.api.shared.schema import marks
from fairlead.api.transferjob.spec import MOST_INTERFACES

Phase = Literal["Pending", "Probing", "Transferring", "Verifying", "Succeeded", "Failed", "Suspended"]
Enforcement = Literal["Pacing", "Annotation", "TrafficControl", "VirtualFunction", "None"]
ProtocolInForce = Literal["TCP", "QUIC", "UDT"]
CapBound = Literal["JobLimit", "TenantLimit", "Link"]

EngineVerdict = Literal["Chosen", "Slower", "Tied", "NotMeasured", "UdpBlocked", "UdpLossy", "CpuScarce", "NeedsCap", "NotAllowed"]

MOST_ENGINES = 3
MOST_ALTERNATIVES = 4
MOST_SWITCHES = 5
MOST_PODS = 16
MOST_CHECKS = 32

PreflightEnd = Literal["source", "destination"]
PreflightResult = Literal["Passed", "Warning", "Failed"]


class ProgressStatus(ApiModel):
    """How far the job is. Written at most every 10 seconds; rates for graphs are in the movers' metrics."""

    bytes_total: int | None = None
    """Bytes of all files to move; absent until the source has been listed."""

    bytes_transferred: int | None = None
    """Bytes that arrived verified at the destination."""

    bytes_skipped: int | None = None
    """Bytes that did not need to be sent because the destination has them."""

    files_total: int | None = None
    """Files to move; absent until the source has been listed."""

    files_transferred: int | None = None
    """Files that arrived whole."""

    files_skipped: int | None = None
    """Files that did not need to be sent."""

    percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """Share of `bytesTotal` that has arrived or was skipped, rounded down."""

    rate: str | None = None
    """Mean rate of the 10 seconds before this was written, in decimal bits per second, e.g. `187M`; of the whole bulk phase once the job
    has succeeded."""

    eta: str | None = None
    """Time left at that rate, e.g. `42s`."""

    last_progress_time: Timestamp | None = None
    """When the count of bytes was last seen to grow."""


class EndpointInterface(ApiModel):
    """One of several interfaces that carry the data at once."""

    name: str
    """Name on the node."""

    address: str | None = None
    """Address of the interface."""

    numa_node: int | None = None
    """NUMA node of the interface, where it has one."""

    allocated: str | None = None
    """At the source: the part of the cap in force that is this interface's, in decimal bits per second, where each path has a cap of its
    own."""


class EndpointStatus(ApiModel):
    """Where one end runs."""

    node: str | None = None
    """Node of the mover pod."""

    pod: str | None = None
    """Name of the mover pod."""

    interface: str | None = None
    """Network interface that carries the data."""

    address: str | None = None
    """Address of that interface."""

    numa_node: int | None = None
    """NUMA node of that interface, where it has one."""

    cpus: Annotated[str, Field(max_length=2048)] | None = None
    """CPUs that the mover's threads are pinned to, e.g. `0-7,16-23`; absent where they are not."""

    interfaces: Annotated[tuple[EndpointInterface, ...], Field(max_length=MOST_INTERFACES)] | None = Field(
        default=None, json_schema_extra=marks(list_type="map", list_map_keys=("name",))
    )
    """All interfaces that carry the data, where there are several."""


class EndpointsStatus(ApiModel):
    """Where both ends run."""

    source: EndpointStatus | None = None
    """The sender."""

    destination: EndpointStatus | None = None
    """The receiver."""


class PlacedEnd(ApiModel):
    """What was chosen for one end."""

    node: str | None = None
    """Node of the mover; absent where the scheduler picks it."""

    interfaces: Annotated[tuple[str, ...], Field(max_length=MOST_INTERFACES)] | None = Field(
        default=None, json_schema_extra=marks(list_type="atomic")
    )
    """Interfaces that carry the data; absent where the mover picks one."""


class PlacementStatus(ApiModel):
    """Where the present attempt runs, chosen as it began. The next attempt is placed anew."""

    source: PlacedEnd = Field(default_factory=PlacedEnd)
    """The sender."""

    destination: PlacedEnd = Field(default_factory=PlacedEnd)
    """The receiver."""

    reason: Annotated[str, Field(max_length=1024)] = ""
    """Why these, in words."""


class PathStatus(ApiModel):
    """What was measured on the path before the data started."""

    rtt: str | None = None
    """Median round-trip time, e.g. `60.2ms`."""

    rtt_minimum: str | None = None
    """Least round-trip time."""

    loss: str | None = None
    """Share of probes that were lost, e.g. `0.001`."""


class Background(ApiModel):
    """What else is on the path."""

    class_: str = Field(alias="class")
    """Class of the background traffic."""

    probability: str | None = None
    """Probability of that class, e.g. `0.93`."""


class Alternative(ApiModel):
    """A congestion control that was weighed and not chosen."""

    congestion_control: str
    """Its name."""

    why_not: str | None = None
    """What spoke against it, in words."""


class TransportSwitch(ApiModel):
    """A change of congestion control while the transfer ran."""

    time: Timestamp
    """When."""

    from_: str = Field(alias="from")
    """What was in force before."""

    to: str
    """What was from then on."""

    why: str | None = None
    """What was seen, in words."""


class DecisionStatus(ApiModel):
    """What the advisor chose, and why."""

    protocol: str
    """Protocol of the data when it was last decided."""

    congestion_control: str
    """Chosen congestion control."""

    streams: int
    """Chosen number of parallel streams; it moves within the bounds while the transfer runs."""

    abstained: bool
    """Whether the advisor made no prediction and used the safe default or the user's choice."""

    reason: str
    """Why, as a constant."""

    message: str | None = None
    """Why, in words."""

    background: Background | None = None
    """What else was seen on the path."""

    any_bbr: str | None = Field(default=None, alias="anyBBR")
    """Probability that any BBR is in the background, which the choice follows, e.g. `0.97`."""

    confidence: str | None = None
    """Confidence of the choice, e.g. `0.88`."""

    alternatives: Annotated[tuple[Alternative, ...], Field(max_length=MOST_ALTERNATIVES)] = Field(
        default=(), json_schema_extra=marks(list_type="atomic")
    )
    """What else was weighed."""

    switches: Annotated[tuple[TransportSwitch, ...], Field(max_length=MOST_SWITCHES)] = Field(
        default=(), json_schema_extra=marks(list_type="atomic")
    )
    """Changes of congestion control while the transfer ran, the last ones, oldest first."""

    model: str | None = None
    """Version of the model that chose."""

    decided_at: Timestamp | None = None
    """When it was decided."""


class EngineWeighed(ApiModel):
    """What was known of one transport protocol on the job's path, and what followed from it."""

    protocol: ProtocolInForce
    """The protocol."""

    goodput: str | None = None
    """What transfers over it got on average, and no more than this job may take, in decimal bits per second; absent where none was
    measured."""

    measurements: int = 0
    """Transfers that were measured."""

    resent: str | None = None
    """Payload bytes sent for each one delivered, less one, on average."""

    cpu_seconds_per_gigabyte: str | None = None
    """Processor time of a sender for each gigabyte, on average."""

    verdict: EngineVerdict
    """`Chosen`, or why not. `Tied`: within 5 % of TCP, or of what was chosen. `NotMeasured`: not within a week, or TCP was not.
    `UdpBlocked` and `UdpLossy`: UDP did not get through there, or lost far more than TCP, since the protocol last did well. `CpuScarce`:
    the sender has not the processors for it, or what it takes of them was not measured. `NeedsCap`: within the share of a FairnessPolicy
    alone, as it does not share a path as TCP does. `NotAllowed`: not with the job's `encryption` or `congestionControl`."""


class EngineChoice(ApiModel):
    """Which transport protocol was chosen for the latest attempt, by what jobs of the namespace had measured on its path."""

    protocol: ProtocolInForce
    """The protocol."""

    message: Annotated[str, Field(max_length=300)] = ""
    """Why, in words."""

    weighed: Annotated[tuple[EngineWeighed, ...], Field(max_length=MOST_ENGINES)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("protocol",))
    )
    """All protocols, with what was known of them."""


class BandwidthStatus(ApiModel):
    """What the job was given of the network and what it uses."""

    allocated: str | None = None
    """The cap in force, in decimal bits per second; absent without one."""

    measured: str | None = None
    """Rate at which this attempt's data last arrived, measured at the receiver in decimal bits per second; not that of its disk."""

    enforced_by: Enforcement = "None"
    """What holds the job to its cap."""

    bound_by: CapBound | None = None
    """What keeps the cap from being higher: the job's own `bandwidth.limit`, its tenant's limit on a link, or a `Link` that is shared with
    other jobs. Absent without a cap."""

    bottleneck: str | None = None
    """Name of the FairnessPolicy's link that keeps the cap from being higher. Absent where the job's own limit does."""

    tenant: str | None = None
    """The tenant of the FairnessPolicy that the job belongs to; absent if it crosses no link of a policy."""

    @property
    def allocated_bps(self) -> int | None:
        """The cap in force in bits per second; None without one, and where somebody else has written what is no rate."""
        try:
            return None if self.allocated is None else parse_rate(self.allocated)
        except RateError:
            return None


class FailureStatus(ApiModel):
    """How the last failed attempt ended."""

    attempt: int
    """Number of the attempt, from 1."""

    reason: str
    """Why, as a documented constant."""

    message: Annotated[str, Field(max_length=32768)]
    """Why, in words."""

    time: Timestamp
    """When the operator saw it."""

    taken_ports: Annotated[tuple[int, ...], Field(max_length=2)] | None = Field(default=None, json_schema_extra=marks(list_type="atomic"))
    """First ports of the movers' blocks in which something else on the node had a port. The next attempt uses others if there are any."""


class PodRecord(ApiModel):
    """A mover pod that the operator created."""

    uid: str
    """UID of the pod, as the API server gave it when the pod was created."""

    name: str
    """Name of the pod."""

    role: str
    """Part of the pod: `sender`, `receiver` or `cleaner`."""

    attempt: int
    """Number of its attempt, from 1."""


class PreflightCheckStatus(ApiModel):
    """One check before the data."""

    end: PreflightEnd
    """The end that checked."""

    check: str
    """Name of the check, such as `PathMtu`."""

    result: PreflightResult
    """What was found. A warning does not keep the job from running."""

    reason: str | None = None
    """Why it warns or failed, as a documented constant."""

    message: Annotated[str, Field(max_length=1024)] = ""
    """What was found, and the remedy."""


class TransferJobStatus(ApiModel):
    """What has become of the job."""

    phase: Phase | None = None
    """A summary for people, derived from the conditions. Programs read the conditions."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("type",))
    )
    """What holds for the job."""

    progress: ProgressStatus | None = None
    """How far the job is."""

    endpoints: EndpointsStatus | None = None
    """Where both ends run."""

    placement: PlacementStatus | None = None
    """What was chosen for both ends of the latest attempt; absent where no DataTransferNode describes either."""

    preflight: Annotated[tuple[PreflightCheckStatus, ...], Field(max_length=MOST_CHECKS)] | None = Field(
        default=None, json_schema_extra=marks(list_type="atomic")
    )
    """With `spec.preflightOnly`, what the movers checked."""

    protocol: ProtocolInForce | None = None
    """Transport protocol that carries the data of the latest attempt, as its sender says; absent before data flow."""

    engine_choice: EngineChoice | None = None
    """With protocol `Auto`, how the transport protocol of the latest attempt was chosen; absent where nothing but TCP was measured on its
    path, which means TCP."""

    path: PathStatus | None = None
    """What was measured on the path."""

    decision: DecisionStatus | None = None
    """What the advisor chose."""

    bandwidth: BandwidthStatus | None = None
    """What the job was given of the network and what it uses."""

    attempts: int | None = None
    """Number of attempts started."""

    failures: int | None = None
    """Number of attempts that failed and count against `spec.backoffLimit`; suspension does not."""

    last_failure: FailureStatus | None = None
    """How the last failed attempt ended."""

    pods: Annotated[tuple[PodRecord, ...], Field(max_length=MOST_PODS)] | None = Field(
        default=None, json_schema_extra=marks(list_type="map", list_map_keys=("uid",))
    )
    """Mover pods that the operator created for the latest attempt, and earlier ones that still exist. A pod that is not listed is not the
    job's, whatever its labels and owner are."""

    attempt_start_time: Timestamp | None = None
    """When the present attempt was started."""

    start_time: Timestamp | None = None
    """When the first attempt was started."""

    completion_time: Timestamp | None = None
    """When the job succeeded or failed."""

    observed_generation: int | None = None
    """The generation of the spec that this status answers."""

    @property
    def pod_uids(self) -> frozenset[str]:
        """UIDs of the pods that the operator created for the job."""
        return frozenset(record.uid for record in self.pods or ())

    @property
    def receiver_node(self) -> str | None:
        """The node on which the latest receiver was seen."""
        return None if self.endpoints is None or self.endpoints.destination is None else self.endpoints.destination.node

    @property
    def cap_bps(self) -> int | None:
        """The cap in force in bits per second, None without one."""
        return None if self.bandwidth is None else self.bandwidth.allocated_bps

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, None if it was never set."""
        return next((condition for condition in self.conditions if condition.type == kind), None)

    def is_true(self, kind: str) -> bool:
        """Whether the condition of that type is True."""
        condition = self.condition(kind)
        return condition is not None and condition.status == "True"

    @property
    def finished(self) -> bool:
        """Whether the job has reached its end, with or without success."""
        return self.is_true(ConditionType.SUCCEEDED) or self.is_true(ConditionType.FAILED)
