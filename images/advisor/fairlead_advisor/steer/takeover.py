"""What stands when the sidecar starts in mid-transfer: probing now would take the transfer's own load for the background."""

from collections import Counter

from fairlead_advisor.decide.model import DEFAULT_CONGESTION_CONTROL, Decision, PathMeasurement, Reason
from fairlead_advisor.decide.rule import counted
from fairlead_advisor.record.journal import Entry
from fairlead_advisor.steer.mover import Stats

_BEFORE_THE_DATA = frozenset({"Waiting", "Listing", "AwaitingTransport"})


def is_under_way(stats: Stats) -> bool:
    """Whether data flows already, or has flowed."""
    return stats.stage not in _BEFORE_THE_DATA


def what_stands(stats: Stats, last: Entry | None) -> tuple[PathMeasurement, Decision]:
    """What the sockets have in force; the path as the process before measured it, else as the sockets see it."""
    controls = Counter(stream.congestion_control for stream in stats.streams if stream.congestion_control)
    before = last.get("decision") if last else None
    recorded = before if isinstance(before, dict) else {}
    control = controls.most_common(1)[0][0] if controls else str(recorded.get("congestion_control") or DEFAULT_CONGESTION_CONTROL)
    streams = len(stats.streams) or _count(recorded.get("streams"))
    reason = str(recorded.get("message") or "what had been decided before is not on record")
    told = f"The advisor was started again in mid-transfer and keeps {control} with {counted(streams)}, which are in force ({reason})"
    buffer_bytes = stats.buffers.set_bytes if stats.buffers else None
    decision = Decision(control, streams, abstained=True, reason=Reason.IN_FORCE, message=told, socket_buffer_bytes=buffer_bytes)
    return _path(last.get("path") if last else None) or _path_of_sockets(stats), decision


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 1


def _path(recorded: object) -> PathMeasurement | None:
    if not isinstance(recorded, dict):
        return None
    rtt_s, minimum_s, loss_ratio, samples = (recorded.get(name) for name in ("rtt_seconds", "rtt_minimum_seconds", "loss_ratio", "samples"))
    if not isinstance(rtt_s, float) or not isinstance(minimum_s, float) or not isinstance(samples, int):
        return None
    return PathMeasurement(rtt_s, minimum_s, loss_ratio if isinstance(loss_ratio, float) else None, samples, whole=False)


def _path_of_sockets(stats: Stats) -> PathMeasurement:
    minima_s = [stream.rtt_minimum_s for stream in stats.streams if stream.rtt_minimum_s]
    minimum_s = min(minima_s, default=None)
    # The smoothed RTTs have the transfer's own queue in them: the least one says most about the path.
    return PathMeasurement(minimum_s, minimum_s, None, 0, whole=False)
