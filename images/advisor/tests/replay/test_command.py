"""`fairlead-advisor replay`, and a log of the recorder read back."""

import gzip
import json
from pathlib import Path

import pytest

from fairlead_advisor.cli import main
from fairlead_advisor.errors import RecordError
from fairlead_advisor.replay.world import read_events

RECORDING = Path(__file__).parent / "recordings" / "new-30__bbr-visits-cubic.events.jsonl.gz"


def test_prints_what_is_asked_of_the_mover_and_published_by_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(RECORDING)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[-1] for line in lines if "congestion_control" in line] == [
        "asks the mover: congestion_control cubic, streams 1",
        "asks the mover: congestion_control bbr",
        "asks the mover: congestion_control cubic",
    ]
    times_s = [float(line.split(" s ")[0]) for line in lines]
    assert times_s == sorted(times_s)
    assert sum("publishes, in force" in line for line in lines) == 3


def test_prints_everything_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(RECORDING), "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    assert [entry["to"] for entry in replayed["record"] if entry["kind"] == "switch"] == ["bbr", "cubic"]
    assert replayed["last"]["decision"]["congestion_control"] == "cubic"


def write(file: Path, text: str) -> Path:
    file.write_bytes(gzip.compress(text.encode()))
    return file


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "does not begin with a start"),
        ("{", "line 1: not JSON"),
        ("[]", "line 1: no event"),
        ('{"kind":"stats","at_s":1}', "does not begin with a start"),
        ('{"kind":"start","version":2,"at_s":0}', "does not begin with a start of version 1"),
    ],
)
def test_anything_but_an_event_log_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(RecordError, match=complaint):
        read_events(write(tmp_path / "events.gz", text))


def test_a_missing_plain_or_cut_file_is_refused_with_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, cut = tmp_path / "plain", tmp_path / "cut.gz"
    plain.write_text("{}")
    cut.write_bytes(RECORDING.read_bytes()[:2000])
    for file, complaint in ((tmp_path / "none", "cannot be read"), (plain, "cannot be read"), (cut, "ends early")):
        assert main(["replay", str(file)]) == 2
        assert complaint in capsys.readouterr().err


START = json.loads(gzip.decompress(RECORDING.read_bytes()).splitlines()[0])


@pytest.mark.parametrize(
    "lines",
    [
        [{"kind": "start", "version": 1, "at_s": 0}],
        [START, {"at_s": 1}],
        [START, {"kind": "samples", "at_s": 1, "sent_s": [1], "rtts_ms": []}],
        [{**START, "limits": {"more": 1}}],
        [{**START, "began_at": "yesterday"}],
    ],
    ids=["start without its fields", "no kind", "samples of two lengths", "unknown limit", "no time"],
)
def test_an_event_without_what_its_kind_needs_is_refused_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[dict[str, object]]
) -> None:
    file = write(tmp_path / "events.gz", "".join(json.dumps(line) + "\n" for line in lines))
    assert main(["replay", str(file)]) == 2
    assert "the log has an event that cannot be read" in capsys.readouterr().err


def test_an_event_that_breaks_the_loop_in_mid_run_is_refused_with_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [json.loads(line) for line in gzip.decompress(RECORDING.read_bytes()).splitlines()]
    broken = [{"kind": "stats", "at_s": event["at_s"], "asked_s": event["at_s"]} if event["kind"] == "stats" else event for event in events]
    file = write(tmp_path / "events.gz", "".join(json.dumps(line) + "\n" for line in broken))
    assert main(["replay", str(file)]) == 2
    assert "the log has an event that cannot be read (KeyError: 'stats')" in capsys.readouterr().err


def test_a_file_that_is_damaged_in_the_middle_is_refused_with_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray(RECORDING.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 8] = b"\xff" * 8
    file = tmp_path / "events.gz"
    file.write_bytes(content)
    assert main(["replay", str(file)]) == 2
    assert str(file) in capsys.readouterr().err
