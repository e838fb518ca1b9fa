"""The vocabulary of network paths: their ends, what is known of them, and what jobs measure there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fairlead.api.transferjob.status import ProtocolInForce


@dataclass(frozen=True, slots=True)
class End:
    """One end of a job; None for what is not known yet."""

    node: str | None
    interface: str | None


@dataclass(frozen=True, slots=True)
class PathEnds:
    """Both ends of a path. An interface of None is one that is not known, or any."""

    source_node: str
    source_interface: str | None
    destination_node: str
    destination_interface: str | None

    @property
    def nodes(self) -> tuple[str, str]:
        """Sending and receiving node."""
        return self.source_node, self.destination_node

    def may_be(self, other: PathEnds) -> bool:
        """Whether both may mean the same path."""
        return (
            self.nodes == other.nodes
            and _may_be(self.source_interface, other.source_interface)
            and _may_be(self.destination_interface, other.destination_interface)
        )


def _may_be(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one == other


@dataclass(frozen=True, slots=True)
class PathProbe:
    """What a probe of the path without the job's own traffic found. Times in seconds. `beside_own`: other jobs' data flowed there."""

    at: datetime
    rtt_seconds: float
    rtt_minimum_seconds: float
    loss_ratio: float | None
    beside_own: bool = False


@dataclass(frozen=True, slots=True)
class PathTransfer:
    """What a transfer got of a path that alone held it back. `stream_coefficient` in 1/bit."""

    at: datetime
    congestion_control: str
    streams: int
    rate_bps: float
    stream_coefficient: float | None


@dataclass(frozen=True, slots=True)
class EngineResult:
    """What one attempt showed of the transport protocol that it was to use. `goodput_bps` is None where UDP did not get through."""

    at: datetime
    protocol: ProtocolInForce
    goodput_bps: float | None
    at_cap: bool = False
    """Whether its cap held it back, so that it may be faster than this."""
    resent_ratio: float | None = None
    """Payload bytes sent for each one delivered, less one."""
    cpu_seconds_per_gb: float | None = None
    """Processor time of the sender's mover."""


@dataclass(frozen=True, slots=True)
class EngineEvidence:
    """What is known of the transport protocols on the path of a job that leaves the choice."""

    results: tuple[EngineResult, ...]
    rtt_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one attempt of one job has measured on its path so far; None for what it has not."""

    job: str
    attempt: int
    probe: PathProbe | None = None
    background: KnownBackground | None = None
    transfer: PathTransfer | None = None
    namespace: str = ""
    engine: EngineResult | None = None

    @property
    def latest(self) -> datetime | None:
        """When the newest part was measured, None without any."""
        times = [part.at for part in (self.probe, self.transfer, self.engine) if part is not None]
        times += [self.background.measured_at] if self.background is not None else []
        return max(times, default=None)

    def completed_by(self, earlier: Measurement) -> Measurement:
        """With the parts that an earlier pass over the same attempt had and this one has not."""
        return Measurement(
            self.job,
            self.attempt,
            self.probe or earlier.probe,
            self.background or earlier.background,
            self.transfer or earlier.transfer,
            self.namespace,
            self.engine or earlier.engine,
        )


@dataclass(frozen=True, slots=True)
class Lease:
    """Who probes a path, and until when at most."""

    job: str
    attempt: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class PathEvidence:
    """A job on its path. `live`: it may still report more; `flowing`: its sender runs, and the transport has been decided."""

    job: str
    ends: PathEnds
    live: bool
    flowing: bool
    lease: Lease | None
    measurement: Measurement | None
    congestion_control: str | None = None
    """What its sender has in force, as far as it has told."""


@dataclass(frozen=True, slots=True)
class KnownBackground:
    """What else was on a path, as an advisor saw it at `measured_at`; `own`: the congestion controls of other jobs of ours that flowed."""

    class_name: str
    probability: float
    probabilities: Mapping[str, float]
    any_bbr: float
    confidence: float
    abstained: bool
    model: str
    measured_at: datetime
    own: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownPath:
    """What earlier transfers have measured of a path; None for what is not known. `stream_coefficient` in 1/bit.

    `beside_own`: other transfers run there now, so that a higher RTT is their queue. `competes`: others' traffic need not be spared;
    elsewhere a job may have the part of so many flows as it has `shares`.
    """

    rtt_minimum_seconds: float | None = None
    capacity_bps: float | None = None
    stream_coefficient: float | None = None
    background: KnownBackground | None = None
    beside_own: bool = False
    competes: bool = False
    shares: int = 1


class Probing(StrEnum):
    """How a new transfer comes to know its path."""

    OWN = "Own"
    """It probes; nobody else does."""
    KNOWN = "Known"
    """The path has just been measured."""
    LEASED = "Leased"
    """Another job is probing it."""


@dataclass(frozen=True, slots=True)
class ProbeAssignment:
    """Whether the sender that is about to start probes its path, and what is known of that."""

    probing: Probing = Probing.OWN
    known: KnownPath = KnownPath()
