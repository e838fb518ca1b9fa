import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairlead_advisor.errors import RecordError
from fairlead_advisor.record.explain import explain
from fairlead_advisor.record.journal import LARGEST_BYTES, EntryKind, Journal, read_record

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
DECISION = {
    "version": 1,
    "path": {"rtt_seconds": 0.0601, "rtt_minimum_seconds": 0.06, "loss_ratio": 0.005, "samples": 200},
    "decision": {
        "protocol": "TCP",
        "congestion_control": "bbr",
        "streams": 4,
        "socket_buffer_bytes": 3 * 2**20,
        "socket_buffer_needed_bytes": 5 * 2**19,
        "probabilities": {"B0-C0": 0.05, "B0-C1": 0.0, "B1-C0": 0.9, "B1-C1": 0.05, "B1-B1": 0.0, "C1-C1": 0.0},
        "any_bbr": 0.95,
        "confidence": 0.9,
        "abstained": False,
        "model": "test-1",
        "rejected": [{"congestion_control": "cubic", "utility": -0.39, "why_not": "expected utility -0.388 against -0.020 of bbr"}],
        "reason": "Classified",
        "message": "beside it cubic would get too little",
        "decided_at": "2026-01-01T12:00:00Z",
    },
    "applied": True,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "decisions.jsonl"


def journal(path: Path) -> Journal:
    return Journal(path, lambda: NOW)


def test_a_decision_and_what_followed_carry_its_number(path: Path) -> None:
    written = journal(path)
    written.decided(DECISION)
    written.followed(EntryKind.STREAMS, {"from": 4, "tried": 8, "kept": 8, "why": "kept 8"})
    written.decided(DECISION)
    written.followed(EntryKind.END, {"goodput_bps": 5})
    assert [(entry["kind"], entry["number"], entry["at"]) for entry in read_record(path)] == [
        ("decision", 1, "2026-01-01T12:00:00Z"),
        ("streams", 1, "2026-01-01T12:00:00Z"),
        ("decision", 2, "2026-01-01T12:00:00Z"),
        ("end", 2, "2026-01-01T12:00:00Z"),
    ]


def test_a_process_that_starts_again_goes_on_with_the_numbers(path: Path) -> None:
    journal(path).decided(DECISION)
    again = journal(path)
    (last,) = again.resume()
    again.decided(DECISION)
    assert last["decision"] == DECISION["decision"]
    assert [entry["number"] for entry in read_record(path)] == [1, 2]


def test_a_line_cut_by_a_kill_is_left_out_and_written_over_by_no_half_line(path: Path) -> None:
    written = journal(path)
    written.decided(DECISION)
    path.write_text(path.read_text() + '{"version": 1, "kind": "str')
    assert len(read_record(path)) == 1
    again = journal(path)
    assert [entry["kind"] for entry in again.resume()] == ["decision"]
    again.followed(EntryKind.END, {})
    assert [entry["kind"] for entry in read_record(path)] == ["decision", "end"]


@pytest.mark.parametrize("garbage", [b"\xff\xfe", b"[1]\n", b'{"version": 2}\n', b"no\nJSON\n"])
def test_a_record_of_something_else_is_begun_again(path: Path, garbage: bytes) -> None:
    path.write_bytes(garbage)
    written = journal(path)
    assert written.resume() == []
    written.decided(DECISION)
    assert len(read_record(path)) == 1


def test_the_record_stays_bounded_and_keeps_the_newest(path: Path) -> None:
    written = journal(path)
    for number in range(2500):
        written.followed(EntryKind.STREAMS, {"from": number, "why": "x" * 1000})
        assert path.stat().st_size <= LARGEST_BYTES
    assert read_record(path)[-1]["from"] == 2499


def test_the_bound_never_costs_the_decision_that_stands(path: Path) -> None:
    written = journal(path)
    written.decided(DECISION | {"applied": False})
    written.decided(DECISION)
    for number in range(5000):
        written.followed(EntryKind.STREAMS, {"from": number, "why": "x" * 1000})
        assert path.stat().st_size <= LARGEST_BYTES
    entries = read_record(path)
    assert [(entry["number"], entry["applied"]) for entry in entries if entry["kind"] == "decision"] == [(2, True)]
    assert [entry["from"] for entry in entries[1:]] == list(range(5000 - len(entries) + 1, 5000))
    assert journal(path).resume()[0]["path"] == DECISION["path"]
    assert explain(entries).startswith("TCP, bbr, 4 streams\n")


def test_a_record_that_cannot_be_written_stops_nothing_and_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written = journal(tmp_path / "missing" / "decisions.jsonl")
    for _ in range(3):
        written.decided(DECISION)
    assert [record.message.split(":")[0] for record in caplog.records] == ["decisions are not recorded"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "no such file"),
        (b"\xff", "not UTF-8"),
        (b"oops\n", "line 1: not JSON"),
        (b"[]\n", "line 1: not a JSON object"),
        (b'{"version": 9}\n', "line 1: version 9"),
        (b"[" * 100_000 + b"\n", "line 1: not JSON"),
    ],
)
def test_what_is_no_record_is_refused_with_the_line(path: Path, content: bytes | None, complaint: str) -> None:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordError, match=complaint):
        read_record(path)


def test_a_decision_is_told_with_what_came_of_it(path: Path) -> None:
    written = journal(path)
    written.decided(DECISION)
    written.followed(EntryKind.STREAMS, {"from": 4, "tried": 8, "kept": 8, "why": "kept 8: 95.0 Mb/s with 8 against 60.0 with 4 (+58.3%)"})
    look = {"why": "the path changed", "story": "the goodput rose", "quiet_seconds": 6.04}
    written.followed(EntryKind.LOOK, look | {"failure": "no answer in time", "sure": False, "news": False})
    answer = {"probabilities": {"B0-C0": 0.98, "B1-C0": 0.02}, "confidence": 0.98, "model": "test-1"}
    written.followed(EntryKind.LOOK, look | answer | {"failure": None, "sure": True, "news": True})
    written.followed(EntryKind.SWITCH, {"from": "bbr", "to": "cubic", "undo": False, "why": "a quiet look"})
    written.followed(EntryKind.OUTCOME, {"congestion_control": "cubic", "before": "bbr", "goodput_ratio": 0.56, "kept": True})
    written.followed(EntryKind.BUFFER, {"from": None, "to": 8 * 2**20, "needed_bytes": 8 * 2**20, "why": "the kernel stops at 4.0 MiB"})
    held = {"send_buffer_limited_ratio": 0.02, "receive_window_limited_ratio": 0.35, "cap_limited_ratio": 0.5}
    written.followed(EntryKind.END, {"congestion_control": "cubic", "streams": 8, "goodput_bps": 90e6} | held)
    told = explain(read_record(path))
    for line in (
        "TCP, bbr, 4 streams",
        "  decided    2026-01-01T12:00:00Z, in force",
        "  because    beside it cubic would get too little (Classified)",
        "  path       RTT 60.1 ms (least 60.0), 0.5% lost of 200 requests",
        "  background B1-C0 90%, B0-C0 5%, B1-C1 5%, confidence 90% (model test-1)",
        "  buffer     set to 3.0 MiB a stream, 2.5 MiB needed",
        "  rejected   cubic: expected utility -0.388 against -0.020 of bbr",
        "  then       2026-01-01T12:00:00Z streams 4 → 8 tried, kept 8: 95.0 Mb/s with 8 against 60.0 with 4 (+58.3%)",
        "  then       2026-01-01T12:00:00Z congestion control switched bbr → cubic: a quiet look",
        "  then       2026-01-01T12:00:00Z quiet look of 6.0 s, the goodput rose: no answer: no answer in time",
        "  then       2026-01-01T12:00:00Z quiet look of 6.0 s, the goodput rose: B0-C0 98%, B1-C0 2%, confidence 98% (model test-1)",
        "  then       2026-01-01T12:00:00Z cubic kept: 56% of the goodput before",
        "  then       2026-01-01T12:00:00Z send buffers set to 8.0 MiB a stream: the kernel stops at 4.0 MiB",
        "  then       2026-01-01T12:00:00Z ended with cubic and 8 streams, 90.0 Mb/s in the mean, "
        "held back by the receiver's window for 35% and the cap for 50% of the time",
    ):
        assert line in told.splitlines()


def test_a_saved_answer_can_be_explained(path: Path) -> None:
    change = {"at": "2026-01-01T12:01:00Z", "what": "streams", "from": 4, "to": 8, "why": "kept 8"}
    path.write_text(json.dumps(DECISION | {"changes": [change]}))
    told = explain(read_record(path))
    assert told.startswith("TCP, bbr, 4 streams\n")
    assert "  then       2026-01-01T12:01:00Z streams 4 → 8: kept 8" in told


@pytest.mark.parametrize(
    ("entries", "number", "complaint"),
    [
        ([], None, "no decision yet"),
        ([{"kind": "decision", "number": 1} | DECISION], 7, "no decision 7, only 1"),
        ([{"kind": "decision", "number": 1}], None, "decision 1 has no decision"),
    ],
)
def test_what_cannot_be_explained_is_said(entries: list[dict[str, object]], number: int | None, complaint: str) -> None:
    with pytest.raises(RecordError, match=complaint):
        explain(entries, number)
