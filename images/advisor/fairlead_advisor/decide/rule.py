"""The choice of protocol, congestion control and stream count."""

from dataclasses import dataclass
from enum import StrEnum

DEFAULT_STREAMS = 4
DEFAULT_CONGESTION_CONTROL = "cubic"
LAST_RESORT_CONGESTION_CONTROL = "reno"


class Reason(StrEnum):
    """Why a decision is what it is; part of the contract with the operator."""

    NO_MODEL = "NoModel"
    USER_CHOICE = "UserChoice"
    PROBE_FAILED = "ProbeFailed"


@dataclass(frozen=True, slots=True)
class PathMeasurement:
    """What the probe found. RTTs are None when no request was answered, the ratio when none was sent."""

    rtt_s: float | None
    rtt_minimum_s: float | None
    loss_ratio: float | None
    samples: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What the job and the host allow. `congestion_control` is the user's choice; None leaves it to us.

    `available` lists what the kernel offers to the mover; None when it is not known.
    """

    streams_minimum: int = 1
    streams_maximum: int = 32
    congestion_control: str | None = None
    available: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice of transport. `abstained`: there was no ground for a choice, so that the safe default stands."""

    congestion_control: str
    streams: int
    abstained: bool
    reason: Reason
    message: str
    protocol: str = "TCP"


def decide(path: PathMeasurement, limits: Limits) -> Decision:
    """The transport for a job within `limits` over `path`: the user's choice, or the safe default."""
    streams = max(limits.streams_minimum, min(limits.streams_maximum, DEFAULT_STREAMS))
    chosen = limits.congestion_control
    if chosen is not None:
        return Decision(
            congestion_control=chosen,
            streams=streams,
            abstained=False,
            reason=Reason.USER_CHOICE,
            message=f"{_measured(path)}; {chosen} with {_counted(streams)}: the job asks for {chosen}",
        )
    fallback = _safe_congestion_control(limits.available)
    failed = path.rtt_s is None
    ground = (
        "nothing is known about the path, so that the safe default stands"
        if failed
        else "no classifier is installed to tell the background traffic, so that the safe default stands"
    )
    return Decision(
        congestion_control=fallback,
        streams=streams,
        abstained=True,
        reason=Reason.PROBE_FAILED if failed else Reason.NO_MODEL,
        message=f"{_measured(path)}; {fallback} with {_counted(streams)}: {ground}",
    )


def _safe_congestion_control(available: frozenset[str] | None) -> str:
    if available is None or DEFAULT_CONGESTION_CONTROL in available:
        return DEFAULT_CONGESTION_CONTROL
    return LAST_RESORT_CONGESTION_CONTROL


def _measured(path: PathMeasurement) -> str:
    if path.rtt_s is None:
        return f"The echo service answered none of {path.samples} requests" if path.samples else "The path could not be probed"
    return f"The path has an RTT of {path.rtt_s * 1000:.1f} ms and lost {path.loss_ratio or 0:.1%} of {path.samples} requests"


def _counted(streams: int) -> str:
    return "1 stream" if streams == 1 else f"{streams} streams"
