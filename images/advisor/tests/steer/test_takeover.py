"""What an advisor that is started in mid-transfer takes over, from the sockets and from the record of the one before it."""

from collections.abc import Sequence
from typing import Any

import pytest

from fairlead_advisor.decide.model import DecisionReason
from fairlead_advisor.decide.transfer import MoverStats, StreamStats
from fairlead_advisor.record.journal import Entry
from fairlead_advisor.steer.takeover import what_stands

PATH = {"rtt_seconds": 0.0601, "rtt_minimum_seconds": 0.06, "loss_ratio": 0.0, "samples": 200}


def with_open(streams: int) -> MoverStats:
    sockets = (StreamStats(number, 0, 0, 0.08, 0.07, "bbr") for number in range(streams))
    return MoverStats("Transferring", frozenset({"cubic", "bbr"}), tuple(sockets))


def decided(streams: Any, reason: str = "Classified") -> Entry:
    decision = {"congestion_control": "bbr", "streams": streams, "reason": reason, "message": "as told"}
    return {"kind": "decision", "path": PATH, "decision": decision}


def tried(kept: Any) -> Entry:
    return {"kind": "streams", "from": 4, "tried": 99, "kept": kept}


@pytest.mark.parametrize(
    ("record", "open_now", "streams"),
    [
        pytest.param([], 3, 3, id="nothing on record"),
        pytest.param([], 0, 1, id="nothing at all"),
        pytest.param([decided(4)], 4, 4, id="as recorded"),
        pytest.param([decided(4), tried(8), tried(12)], 2, 12, id="in the middle of a reconnect, after a search"),
        pytest.param([decided(12)], 2, 12, id="in the middle of a reconnect, before any trial"),
        pytest.param([decided(12)], 0, 12, id="none is open"),
        pytest.param([decided(4), tried(4)], 8, 8, id="in the middle of a trial of more"),
        pytest.param([decided(12), tried(8)], 2, 8, id="fewer were found to do"),
        pytest.param([decided(4), tried(12), decided(4)], 2, 12, id="a switch is recorded with the count published last"),
        pytest.param([decided(4), tried(12), decided(6, "InForce")], 2, 6, id="taken over once before"),
        pytest.param([decided(4), decided(6)], 2, 6, id="decided twice before the data"),
        pytest.param([decided("many"), tried(-1), tried(None)], 2, 2, id="a record of something else"),
    ],
)
def test_the_count_is_the_last_on_record_unless_more_are_open(record: Sequence[Entry], open_now: int, streams: int) -> None:
    _, decision = what_stands(with_open(open_now), record)
    assert (decision.streams, decision.reason) == (streams, DecisionReason.IN_FORCE)


def test_what_is_still_missing_is_told() -> None:
    told = "keeps bbr with 12 streams, of which 2 are open now (as told)"
    assert told in what_stands(with_open(2), [decided(12)])[1].message
    assert "keeps bbr with 12 streams, which are in force (as told)" in what_stands(with_open(12), [decided(12)])[1].message


def test_the_path_is_the_recorded_one_else_what_the_sockets_see() -> None:
    recorded, _ = what_stands(with_open(2), [decided(4), tried(8)])
    assert (recorded.rtt_minimum_s, recorded.whole) == (0.06, False)
    assert what_stands(with_open(2), [])[0].rtt_minimum_s == 0.07


def test_over_several_paths_the_count_is_that_of_one() -> None:
    sockets = tuple(StreamStats(number, 0, 0, 0.08, 0.07, "bbr", path=number % 2) for number in range(8))
    stats = MoverStats("Transferring", frozenset({"cubic", "bbr"}), sockets)
    assert what_stands(stats, [])[1].streams == 4
