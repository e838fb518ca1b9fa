"""Runs the sidecar in the world of an event log, and collects what it asks for and publishes."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlead_advisor.errors import RecordError
from fairlead_advisor.record.board import DecisionBoard
from fairlead_advisor.record.journal import Entry, EntryKind, Journal, read_record
from fairlead_advisor.record.metrics import AdvisorMetrics
from fairlead_advisor.record.published import Published, as_json
from fairlead_advisor.replay import codec
from fairlead_advisor.replay.world import REMEDY, Event, EventsEndError, MoverRequest, World
from fairlead_advisor.steer.sidecar import Files, Sidecar

_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""What reading an event raises that another program wrote, or nobody."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A decision as it was published, at so many seconds of the log."""

    at_s: float
    published: Published


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the present code makes of an event log: what it asks of the mover, publishes and records.

    `missing`: calls that the log has no answer to, since the present code took another course than the recorded one.
    """

    requests: tuple[MoverRequest, ...]
    publications: tuple[Publication, ...]
    record: tuple[Entry, ...]
    last: Published | None
    metrics: bytes
    missing: tuple[str, ...]


class _PublishingMetrics(AdvisorMetrics):
    """Keeps every publication with its time."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.publications: list[Publication] = []

    def decided(self, published: Published) -> None:
        super().decided(published)
        self.publications.append(Publication(self._world.now_s, published))


async def replay(events: Sequence[Event]) -> Replayed:
    """Replays the events until the log has no more statistics. Raises RecordError for events that lack what their kind needs."""
    try:
        return await _replay(events)
    except _UNREADABLE as error:
        raise _unreadable(error) from error
    except ExceptionGroup as group:
        unreadable, other = group.split(_UNREADABLE)
        if unreadable is None or other is not None:
            raise
        raise _unreadable(_first(unreadable)) from group


def _unreadable(error: Exception) -> RecordError:
    return RecordError(f"the log has an event that cannot be read ({type(error).__name__}: {error}): {REMEDY}")


def _first(group: ExceptionGroup[Exception]) -> Exception:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error


async def _replay(events: Sequence[Event]) -> Replayed:
    world = World(events)
    effects = world.effects()
    metrics = _PublishingMetrics(world)
    with tempfile.TemporaryDirectory(prefix="fairlead-replay-") as folder:
        record = Path(folder) / "decisions.jsonl"
        left = world.start.get("record", [])
        if left:
            record.write_text("".join(f"{json.dumps(entry)}\n" for entry in left))
        journal = Journal(record, effects.now)
        board = DecisionBoard(metrics, journal, effects.now)
        sidecar = Sidecar(
            world,
            effects,
            board,
            codec.read_limits(world.start["limits"]),
            history=codec.read_history(world.start["history"]),
            files=Files(Path(folder) / "trace.csv", journal),
            probe_s=world.start["probe_s"],
            known=codec.read_known(world.start["known"]),
        )
        try:
            await sidecar.run()
        except* EventsEndError:
            pass
        recorded = read_record(record)[len(left) :] if record.exists() else []
        entries = [entry for entry in recorded if entry.get("kind") != EntryKind.SURVEY]
    return Replayed(
        tuple(world.requests), tuple(metrics.publications), tuple(entries), board.published, metrics.exposition(), tuple(world.missing)
    )


def replayed_json(replayed: Replayed) -> codec.Json:
    """Everything that a user could see of the replayed decisions; times in s of the log."""
    return {
        "requests": [{"at_s": round(one.at_s, 3), one.what: one.wanted} for one in replayed.requests],
        "publications": [{"at_s": round(one.at_s, 3), **as_json(one.published)} for one in replayed.publications],
        "record": [dict(entry) for entry in replayed.record],
        "last": None if replayed.last is None else as_json(replayed.last),
        "metrics": [line for line in replayed.metrics.decode().splitlines() if line.startswith("fairlead_") and "_created" not in line],
        "missing": list(replayed.missing),
    }


def replayed_text(replayed: Replayed) -> str:
    """What the sidecar asked of the mover and published, a line each in the order of time (s of the log)."""
    # At the same moment: a decision is published, asked for, and published again once it is in force.
    lines = [(one.at_s, 1, f"asks the mover: {_settings(one)}") for one in replayed.requests]
    for one in replayed.publications:
        applied = one.published.applied
        line = f"publishes, {'in force' if applied else 'not in force'}: {one.published.decision.message}"
        lines.append((one.at_s, 2 if applied else 0, line))
    text = [f"{at_s:8.1f} s  {line}" for at_s, _, line in sorted(lines, key=lambda line: line[:2])]
    text += [f"the event log has no answer to what was asked at {missing}" for missing in replayed.missing]
    return "".join(f"{line}\n" for line in text)


def _settings(request: MoverRequest) -> str:
    if request.what == "hold":
        return f"hold data for {request.wanted['seconds']:g} s"
    return ", ".join(f"{name} {value}" for name, value in request.wanted.items())
