"""Recorded transfers give the decisions that they gave when they were recorded.

Each of `recordings/` is the event log of a real transfer over an emulated path, beside what the sidecar of that time asked of the mover,
published and recorded, as `replayed_json` has it. They cover all six backgrounds, backgrounds that change, stream searches, moving caps,
known paths, the user's choice and a sidecar without a model.
"""

import asyncio
import gzip
import json
from pathlib import Path

import pytest

from fairlead_advisor.replay.run import replay, replayed_json
from fairlead_advisor.replay.world import read_events

ADDED_SINCE = {"source_limited_ratio", "cap_limited_ratio"}
"""Fields of an outcome that no recording has; they have tests of their own."""

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.events.jsonl.gz"))


def test_there_are_recordings_of_every_background() -> None:
    names = [file.name for file in RECORDINGS]
    assert len(names) >= 60
    for background in ("b0-c0", "b0-c1", "b1-c0", "b1-c1", "b1-b1", "c1-c1", "bbr-visits-cubic", "bbr-visits-nobody"):
        assert sum(f"__{background}" in name for name in names) >= 4


@pytest.mark.parametrize("events", RECORDINGS, ids=lambda file: file.name.removesuffix(".events.jsonl.gz"))
def test_a_recorded_transfer_gives_the_same_choices_times_and_messages(events: Path) -> None:
    expected = events.with_name(events.name.replace(".events.jsonl.gz", ".decisions.json.gz"))
    replayed = json.loads(json.dumps(replayed_json(asyncio.run(replay(read_events(events))))), object_hook=_without_what_was_added)
    recorded = json.loads(gzip.decompress(expected.read_bytes()))
    # Metrics that were added since the recording have tests of their own, as have counters that begin at 0. The order of series is free.
    recorded["metrics"].sort()
    then = {line.partition("{")[0].partition(" ")[0] for line in recorded["metrics"]}
    known = [line for line in replayed["metrics"] if line.partition("{")[0].partition(" ")[0] in then]
    replayed["metrics"] = [line for line in sorted(known) if line in recorded["metrics"] or not line.endswith("} 0.0")]
    assert replayed == recorded


def _without_what_was_added(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if name not in ADDED_SINCE}
