"""The path and decision when the sidecar starts in mid-transfer: a probe would take the transfer's own load for the background."""

from collections.abc import Sequence

from fairlead_advisor.decide.model import DEFAULT_CONGESTION_CONTROL, Decision, DecisionReason, PathMeasurement
from fairlead_advisor.decide.rule import counted
from fairlead_advisor.decide.transfer import MoverStats
from fairlead_advisor.record.journal import Entry, EntryKind

_BEFORE_THE_DATA = frozenset({"Waiting", "Listing", "AwaitingTransport"})


def is_under_way(stats: MoverStats) -> bool:
    """Whether data flows already, or has flowed."""
    return stats.stage not in _BEFORE_THE_DATA


def what_stands(stats: MoverStats, record: Sequence[Entry]) -> tuple[PathMeasurement, Decision]:
    """What the sockets have in force; the path as the process before measured it, else as the sockets see it.

    The count is the last on record if fewer are open: in the middle of a reconnect the rest is on its way.
    """
    last = next((entry for entry in reversed(record) if entry.get("kind") == EntryKind.DECISION), None)
    controls = stats.congestion_controls
    before = last.get("decision") if last else None
    recorded = before if isinstance(before, dict) else {}
    control = controls.most_common(1)[0][0] if controls else str(recorded.get("congestion_control") or DEFAULT_CONGESTION_CONTROL)
    open_now = stats.streams_per_path
    streams = max(open_now, _last_count(record))
    reason = str(recorded.get("message") or "what had been decided before is not on record")
    stands = "which are in force" if streams == open_now else f"of which {open_now or 'none'} are open now"
    message = f"The advisor was started again in mid-transfer and keeps {control} with {counted(streams)}, {stands} ({reason})"
    buffer_bytes = stats.buffers.set_bytes if stats.buffers else None
    decision = Decision(
        control,
        streams,
        abstained=True,
        reason=DecisionReason.IN_FORCE,
        message=message,
        protocol=stats.protocol,
        socket_buffer_bytes=buffer_bytes,
    )
    return _path(last.get("path") if last else None) or _path_of_sockets(stats), decision


def _last_count(record: Sequence[Entry]) -> int:
    """The count that stood last, at least 1: that of the latest trial, or of a decision before any."""
    count, tried = 1, False
    for entry in record:
        decided = entry.get("decision")
        if entry.get("kind") == EntryKind.STREAMS:
            count, tried = _count(entry.get("kept"), count), True
        elif isinstance(decided, dict) and (not tried or decided.get("reason") == DecisionReason.IN_FORCE):
            # In mid-search a decision has the count that was published last, which lags behind.
            count, tried = _count(decided.get("streams"), count), False
    return count


def _count(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and value > 0 else otherwise


def _path(recorded: object) -> PathMeasurement | None:
    if not isinstance(recorded, dict):
        return None
    rtt_s, minimum_s, loss_ratio, samples = (recorded.get(name) for name in ("rtt_seconds", "rtt_minimum_seconds", "loss_ratio", "samples"))
    if not isinstance(rtt_s, float) or not isinstance(minimum_s, float) or not isinstance(samples, int):
        return None
    return PathMeasurement(rtt_s, minimum_s, loss_ratio if isinstance(loss_ratio, float) else None, samples, whole=False)


def _path_of_sockets(stats: MoverStats) -> PathMeasurement:
    minima_s = [stream.rtt_minimum_s for stream in stats.streams if stream.rtt_minimum_s]
    minimum_s = min(minima_s, default=None)
    # The smoothed RTTs have the transfer's own queue in them: the least one is the nearest to the path's own.
    return PathMeasurement(minimum_s, minimum_s, None, 0, whole=False)
