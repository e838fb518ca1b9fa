"""What movers and advisors report: over HTTP while they run, and in their termination messages (docs/contracts.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from fairlead.api.transferjob.status import ProtocolInForce
from fairlead.core.cap_excess import Arrived


@dataclass(frozen=True, slots=True)
class PreflightCheck:
    """What a mover checked before any byte of data; `result` is `Passed`, `Warning` or `Failed`."""

    check: str
    result: Literal["Passed", "Warning", "Failed"]
    reason: str | None
    message: str


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
    seconds: float = 0.0
    bulk_seconds: float = 0.0
    checks: tuple[PreflightCheck, ...] = ()
    blocks_damaged: int = 0
    """Blocks that arrived damaged, or came back so from the disk, and were sent again."""
    protocol: ProtocolInForce | None = None
    """What carried the data in the end; None before data flowed, and at a receiver."""
    bytes_resent: int = 0
    """Payload that the mover sent in vain: damaged, or lost with a connection."""
    retransmitted_bytes: int | None = None
    """Payload that the transport itself sent again; None where it is not reported, and at a receiver."""
    cpu_seconds: float | None = None
    """Processor time of the mover; None where it is not reported."""

    @property
    def bytes_sent(self) -> int:
        """What this attempt itself moved."""
        return max(0, self.bytes_transferred - self.bytes_resumed)


@dataclass(frozen=True, slots=True)
class PathReport:
    """What the advisor measured of the path. `whole`: at length and without the job's own data; None where it does not report that."""

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
    """The classifier abstained: no decision rests on its answer."""
    recalled: bool = False
    """The background is what an earlier transfer measured, handed on to this one."""
    rejected: tuple[Rejected, ...] = ()
    switches: tuple[SwitchReport, ...] = ()
    """Those in mid-transfer, oldest first."""

    @property
    def switched(self) -> bool:
        """Whether there was one: the path was then measured under the transfer's own load."""
        return bool(self.switches)


@dataclass(frozen=True, slots=True)
class OutcomeReport:
    """How the advisor saw a transfer end. `stream_coefficient` in 1/bit, None unless its search for a stream count had ended.

    The ratios are the shares of the time in which something else than the path held the transfer back; 0 where the advisor does not tell.
    """

    congestion_control: str
    streams: int
    stream_coefficient: float | None = None
    receive_window_limited_ratio: float = 0.0
    source_limited_ratio: float = 0.0
    cap_limited_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class Advice:
    """What the advisor measured and chose, as one message."""

    path: PathReport
    decision: DecisionReport
    outcome: OutcomeReport | None = None


@dataclass(frozen=True, slots=True)
class ReportRefusal:
    """Something that a mover of `role` reported and that is not believed; `message` goes on after the name of its pod."""

    role: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Reports:
    """What the running pods reported over HTTP; None where nobody has answered for some time. Information, never a verdict."""

    receiver_endpoint: MoverEndpoint | None = None
    sender_endpoint: MoverEndpoint | None = None
    receiver: MoverProgress | None = None
    sender: MoverProgress | None = None
    receiver_age_seconds: float = 0.0
    """How old `receiver` is: it counts until the mover is asked again, and while it gives no other for some time more."""
    sender_age_seconds: float = 0.0
    receiver_unheard_seconds: float | None = None
    """For how long the receiver has been asked for its progress in vain; None where it answered when it was last asked."""
    endpoint_unheard_seconds: float | None = None
    """The same of the receiver's endpoint."""
    sender_unheard_seconds: float | None = None
    advisor_unheard_seconds: float | None = None
    """The same of the advisor and its decision."""
    path: PathReport | None = None
    decision: DecisionReport | None = None
    outcome: OutcomeReport | None = None
    advisor_silent_seconds: float = 0.0
    """For how long a sender has been transferring without a decision of its advisor."""
    refusals: tuple[ReportRefusal, ...] = ()
    """What was reported and is not believed; it is missing above."""

    @property
    def unheard_seconds(self) -> float | None:
        """For how long the one has been asked in vain that fell silent last; None while all answer."""
        each = (
            self.receiver_unheard_seconds,
            self.endpoint_unheard_seconds,
            self.sender_unheard_seconds,
            self.advisor_unheard_seconds,
        )
        return min((seconds for seconds in each if seconds is not None), default=None)

    @property
    def is_receiver_unasked(self) -> bool:
        """Whether nobody has asked the receiver anything yet, as after a change of the leader."""
        return self.receiver is None and self.receiver_unheard_seconds is None


@dataclass(frozen=True, slots=True)
class SwitchReport:
    """A change of congestion control in mid-transfer."""

    at: datetime
    before: str
    after: str
    why: str


@dataclass(frozen=True, slots=True)
class EndpointPlace:
    """Where a mover's end of one path is."""

    interface: str
    address: str
    port: int
    numa_node: int | None = None


@dataclass(frozen=True, slots=True)
class MoverEndpoint:
    """Where a mover listens or sends from, as it reported over HTTP: on one of its paths, and with several on each, in their order."""

    interface: str
    address: str
    port: int
    numa_node: int | None = None
    several: tuple[EndpointPlace, ...] = ()
    """Empty with one path."""
    cpus: str | None = None
    """The kernel's list of the CPUs that its threads are pinned to; None where they are not."""

    @property
    def places(self) -> tuple[EndpointPlace, ...]:
        """Its ends of all paths, at least one."""
        return self.several or (EndpointPlace(self.interface, self.address, self.port, self.numa_node),)


@dataclass(frozen=True, slots=True)
class PathState:
    """The sender's interface of a path, and whether the path is in use."""

    interface: str
    up: bool


@dataclass(frozen=True, slots=True)
class InterfaceTraffic:
    """What one of a mover's interfaces has carried, everybody's traffic included, and what its own path has sent; None for what it does
    not report."""

    interface: str
    bytes_sent: int | None = None
    bytes_received: int | None = None
    wire_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class MoverProgress:
    """A mover's last progress report. Totals are None until the listing is complete."""

    stage: str
    bytes_total: int | None
    bytes_transferred: int
    bytes_skipped: int
    files_total: int | None
    files_transferred: int
    files_skipped: int
    rate_bytes_per_second: float
    streams: int = 0
    congestion_control: str = ""
    bytes_resumed: int = 0
    """What earlier attempts had left; part of `bytes_transferred`."""
    quiet_seconds: float = 0.0
    """For how long data was held back on purpose so far, to probe the path."""
    seconds_since_progress: float | None = None
    """How long ago bytes last went over this end's sockets, or to or from its disk; None where the mover does not report it."""
    wire_bytes: int | None = None
    """IP bytes that this end's sockets have sent, retransmissions included; None at the receiver."""
    interface_bytes_sent: int | None = None
    """What the mover's interface has sent since it came up, everybody's traffic included; None where the mover does not report it."""
    interface_bytes_received: int | None = None
    read_at: float = 0.0
    """When the report was read, in seconds of Unix time."""
    blocks_damaged: int = 0
    """Blocks that arrived damaged, or came back so from the disk, and were sent again."""
    paths: tuple[PathState, ...] = ()
    """Of a sender with several interfaces, in their order; empty otherwise."""
    interfaces: tuple[InterfaceTraffic, ...] = ()
    """Of each path, in their order."""
    protocol: ProtocolInForce | None = None
    """What carries the data; None before data flow, and at a receiver."""
    preflight_warnings: tuple[PreflightCheck, ...] | None = None
    """What the checks before the data warn of; None until they have all passed at this end."""

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
