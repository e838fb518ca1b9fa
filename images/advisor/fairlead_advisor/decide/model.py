"""What a decision is made of, and what it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fairlead_advisor.decide.background import Background

DEFAULT_STREAMS = 4
TCP = "TCP"
"""The protocol of movers that name none."""

DEFAULT_CONGESTION_CONTROL = "cubic"
LAST_RESORT_CONGESTION_CONTROL = "reno"


class DecisionReason(StrEnum):
    """Why a decision is what it is; part of the contract with the operator."""

    NO_MODEL = "NoModel"
    USER_CHOICE = "UserChoice"
    PROBE_FAILED = "ProbeFailed"
    CLASSIFIED = "Classified"
    UNSURE = "Unsure"
    KNOWN = "Known"
    IN_FORCE = "InForce"


@dataclass(frozen=True, slots=True)
class PathMeasurement:
    """What the probe found. RTTs are None when no request was answered, the ratio when none was sent.

    `whole`: sampled at length without own data; False for a glance at a known path, and for what the sockets measure under load.
    """

    rtt_s: float | None
    rtt_minimum_s: float | None
    loss_ratio: float | None
    samples: int
    whole: bool = True


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """What the sending host makes of a stream's send buffer, in bytes.

    `automatic_bytes`: to which the kernel grows it by itself; `settable_bytes`: the most that may be asked for, of which it keeps twice
    as much; `set_bytes`: what is asked for now, None if nothing.
    """

    automatic_bytes: int
    settable_bytes: int
    set_bytes: int | None = None
    set_by_user: bool = False


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """What the job and the host allow. `congestion_control` is the user's choice; None leaves it to us.

    `protocol` carries the data. `available` lists what it offers to the mover, by the kernel or of its own, `buffers` what the kernel
    allows; None when it is not known. `cap_bps` bounds all streams together; `allocated`: it is the job's share of a link that is divided,
    so that the job need not leave more of it to others.
    `others_weight` is what a loss of others counts against a loss of our own; `shares` how many flows' part of a full path is ours where
    others are to be spared.
    """

    streams_minimum: int = 1
    streams_maximum: int = 32
    congestion_control: str | None = None
    available: frozenset[str] | None = None
    protocol: str = TCP
    cap_bps: float | None = None
    allocated: bool = False
    others_weight: float = 1.0
    shares: int = 1
    buffers: BufferLimits | None = None

    @property
    def offerer(self) -> str:
        """Whose the congestion controls are."""
        return "the kernel" if self.protocol == TCP else self.protocol

    @property
    def spares_others(self) -> bool:
        """Whether what others lose counts at all."""
        return self.others_weight > 0

    @property
    def fair_streams(self) -> int | None:
        """So many streams are our part of a path that is full; None where others need not be spared."""
        return self.shares if self.spares_others else None


@dataclass(frozen=True, slots=True)
class TriedControl:
    """A congestion control and what it was tried beside: what it brings beside BBR does not hold for a path without."""

    congestion_control: str
    beside_bbr: bool


@dataclass(frozen=True, slots=True)
class MeasuredGain:
    """Own measurements on this path: how many, and the mean goodput relative to the safe default's."""

    count: int
    goodput_ratio: float


@dataclass(frozen=True, slots=True)
class History:
    """What is known of the path from before. `stream_coefficient` is in 1/bit, `capacity_bps` what one transfer can get there.

    `beside_own`: transfers of ours run there, which a background that was handed on does not have in it. `loses_alone`: own packets were
    lost there without a queue while nobody else was there, and BBR had more than CUBIC.
    """

    capacity_bps: float | None = None
    stream_coefficient: float | None = None
    measured: Mapping[TriedControl, MeasuredGain] = field(default_factory=dict)
    beside_own: bool = False
    loses_alone: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """A congestion control that was weighed and not taken. `utility` is minus its expected loss of share, None if not weighed."""

    congestion_control: str
    utility: float | None
    why_not: str


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice of transport. `abstained`: there was no ground for a choice, so that the safe default is used.

    `socket_buffer_bytes` is what the send buffer of each stream is set to; None leaves it to the kernel. `needed` is what it must hold
    to fill the stream's part of the path, None while no rate is known.
    """

    congestion_control: str
    streams: int
    abstained: bool
    reason: DecisionReason
    message: str
    protocol: str = TCP
    socket_buffer_bytes: int | None = None
    socket_buffer_needed_bytes: int | None = None
    background: Background | None = None
    utility: float | None = None
    rejected: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True)
class TransferSummary:
    """How a transfer went as a whole. `stream_coefficient` in 1/bit is what a later job may start from; None unless a count settled.

    `send_buffer_limited_ratio` and `receive_window_limited_ratio` are the shares of the time under way in which a buffer alone held the
    streams back, `source_limited_ratio` is the share of all time in which they had nothing to send, `cap_limited_ratio` that at the cap.
    None where the mover does not tell.
    """

    congestion_control: str
    streams: int
    goodput_bps: float | None
    seconds: float
    stream_coefficient: float | None
    send_buffer_limited_ratio: float | None = None
    receive_window_limited_ratio: float | None = None
    source_limited_ratio: float | None = None
    cap_limited_ratio: float | None = None
