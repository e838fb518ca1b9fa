"""A recorded decision and what came of it, in words."""

from collections.abc import Iterable, Sequence

from fairlead_advisor.decide.buffers import mebibytes
from fairlead_advisor.errors import RecordError
from fairlead_advisor.record.journal import Entry, EntryKind

_WORTH_TELLING = 0.1
# The decision itself, and samples, which are of no use to a person.
_UNTOLD = (EntryKind.DECISION, EntryKind.SURVEY)


def explain(entries: Sequence[Entry], number: int | None = None) -> str:
    """Tells decision `number`, or the last one. Raises RecordError if it is not there or lacks what a decision has."""
    decisions = [entry for entry in entries if entry.get("kind") == EntryKind.DECISION]
    if not decisions:
        raise RecordError("the record holds no decision yet: the path is still being measured, or nothing was transferred")
    if number is None:
        chosen = decisions[-1]
    else:
        found = [entry for entry in decisions if entry.get("number") == number]
        if not found:
            known = ", ".join(str(entry.get("number")) for entry in decisions)
            raise RecordError(f"the record holds no decision {number}, only {known}")
        chosen = found[-1]
    followed = [entry for entry in entries if entry.get("number") == chosen.get("number") and entry.get("kind") not in _UNTOLD]
    return "\n".join([*_decision(chosen), *_changes(chosen, followed)]) + "\n"


def _decision(entry: Entry) -> Iterable[str]:
    decision = _object(entry, "decision")
    streams = decision.get("streams")
    yield f"{decision.get('protocol')}, {decision.get('congestion_control')}, {streams} stream{'' if streams == 1 else 's'}"
    yield f"  decided    {decision.get('decided_at', 'at an unknown time')}, {'in force' if entry.get('applied') else 'not in force'}"
    yield f"  because    {decision.get('message')} ({decision.get('reason')})"
    yield f"  path       {_path(_object(entry, 'path'))}"
    yield f"  background {_background(decision)}"
    if text := _buffer(decision):
        yield f"  buffer     {text}"
    for other in _objects(decision.get("rejected")):
        yield f"  rejected   {other.get('congestion_control')}: {other.get('why_not')}"


def _buffer(decision: Entry) -> str:
    asked, needed = decision.get("socket_buffer_bytes"), decision.get("socket_buffer_needed_bytes")
    sizes = [f"set to {mebibytes(asked)} a stream" if isinstance(asked, int) else "left to the kernel"]
    sizes += [f"{mebibytes(needed)} needed"] if isinstance(needed, int) else []
    return ", ".join(sizes) if isinstance(asked, int) or isinstance(needed, int) else ""


def _path(path: Entry) -> str:
    rtt_s, minimum_s, loss_ratio = path.get("rtt_seconds"), path.get("rtt_minimum_seconds"), path.get("loss_ratio")
    if not isinstance(rtt_s, int | float) or not isinstance(minimum_s, int | float):
        return f"not measured ({path.get('samples')} requests sent)"
    loss = f"{loss_ratio:.1%} lost" if isinstance(loss_ratio, int | float) else "loss unknown"
    return f"RTT {rtt_s * 1000:.1f} ms (least {minimum_s * 1000:.1f}), {loss} of {path.get('samples')} requests"


def _background(decision: Entry) -> str:
    probabilities = decision.get("probabilities")
    if not isinstance(probabilities, dict) or not all(isinstance(value, int | float) for value in probabilities.values()):
        return "not classified"
    ranked = sorted(probabilities.items(), key=lambda item: -item[1])
    text = ", ".join(f"{name} {value:.0%}" for name, value in ranked if value >= 0.005)
    confidence = decision.get("confidence")
    sure = f", confidence {confidence:.0%}" if isinstance(confidence, int | float) else ""
    return f"{text}{sure}{', abstained' if decision.get('abstained') else ''} (model {decision.get('model')})"


def _changes(chosen: Entry, followed: Sequence[Entry]) -> Iterable[str]:
    # A published body has no entries after it, but its latest changes within.
    for change in _objects(chosen.get("changes")) if not followed else ():
        yield f"  then       {change.get('at')} {change.get('what')} {change.get('from')} → {change.get('to')}: {change.get('why')}"
    for entry in followed:
        yield f"  then       {entry.get('at')} {_follow_up(entry)}"


def _follow_up(entry: Entry) -> str:
    match entry.get("kind"):
        case EntryKind.STREAMS:
            return f"streams {entry.get('from')} → {entry.get('tried')} tried, {entry.get('why')}"
        case EntryKind.SWITCH:
            undone = "taken back" if entry.get("undo") else "switched"
            return f"congestion control {undone} {entry.get('from')} → {entry.get('to')}: {entry.get('why')}"
        case EntryKind.OUTCOME:
            ratio = entry.get("goodput_ratio")
            measured = f"{ratio:.0%} of the goodput before" if isinstance(ratio, int | float) else "not measured"
            return f"{entry.get('congestion_control')} {'kept' if entry.get('kept') else 'given up'}: {measured}"
        case EntryKind.BUFFER:
            asked = entry.get("to")
            return f"send buffers set to {mebibytes(asked) if isinstance(asked, int) else asked} a stream: {entry.get('why')}"
        case EntryKind.LOOK:
            quiet_s = entry.get("quiet_seconds")
            stood = f" of {quiet_s:.1f} s" if isinstance(quiet_s, int | float) else ""
            text = (
                f"no answer: {entry.get('failure')}" if entry.get("failure") else _background({**entry, "abstained": not entry.get("sure")})
            )
            return f"quiet look{stood}, {entry.get('story')}: {text}"
        case EntryKind.END:
            goodput_bps = entry.get("goodput_bps")
            rate = f"{goodput_bps / 1e6:.1f} Mb/s" if isinstance(goodput_bps, int | float) else "an unknown rate"
            return f"ended with {entry.get('congestion_control')} and {entry.get('streams')} streams, {rate} in the mean{_held_back(entry)}"
        case other:
            return f"{other}"


def _held_back(entry: Entry) -> str:
    """What held the streams back beside the path, where it did for more than a moment."""
    shares = {
        "the send buffer": entry.get("send_buffer_limited_ratio"),
        "the receiver's window": entry.get("receive_window_limited_ratio"),
        "the source": entry.get("source_limited_ratio"),
        "the cap": entry.get("cap_limited_ratio"),
    }
    text = [f"{name} for {share:.0%}" for name, share in shares.items() if isinstance(share, int | float) and share >= _WORTH_TELLING]
    return f", held back by {' and '.join(text)} of the time" if text else ""


def _object(entry: Entry, name: str) -> Entry:
    value = entry.get(name)
    if not isinstance(value, dict):
        raise RecordError(f"the record's decision {entry.get('number')} has no {name}: it was not written by this program")
    return value


def _objects(value: object) -> list[Entry]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
