"""The command line of the bench, on a machine on which nothing is really run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fairlead.api.transferjob.status import ProtocolInForce
from fairlead.core.paths.model import EngineResult
from fairlead_dev.bench.engines import __main__ as program
from fairlead_dev.bench.engines.figures import EngineMove
from fairlead_dev.errors import LabError
from fairlead_dev.testbed.sealed.engine_paths import EnginePath
from fairlead_dev.testbed.sealed.sets import engine_specification, sealed_engine_paths


class Lab:
    """Tells what transfers got, QUIC twice as much as TCP where UDP gets through, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.moved: list[ProtocolInForce] = []
        self.scouted = self.flows = 0
        self.fails = False
        monkeypatch.setattr(program, "move", self._move)
        monkeypatch.setattr(program, "scout_bps", self._scout)
        monkeypatch.setattr(program, "flow_bps", self._flow)

    def _scout(self, *_asked: object) -> float:
        self.scouted += 1
        return 20e6

    def _move(self, _lab: object, path: EnginePath, protocol: ProtocolInForce, _size_bytes: int) -> tuple[EngineMove, float]:
        if self.fails:
            raise LabError("the receiver ended")
        self.moved.append(protocol)
        goodput_bps = None if protocol != "TCP" and path.bars_udp else {"TCP": 20e6, "QUIC": 40e6}[protocol]
        kept = EngineResult(datetime.now(UTC), protocol, goodput_bps, cpu_seconds_per_gb=1.0)
        return EngineMove(goodput_bps or 20e6, kept), 50.0

    def _flow(self, _lab: object, _path: object, company: str, *_asked: object) -> tuple[float, float]:
        self.flows += 1
        return {"nobody": 40e6, "cubic": 20e6, "auto": 8e6, "cubic-unlimited": 15e6}[company], 60.0


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command line with programs that are there."""
    for name in ("mover", "wan"):
        (tmp_path / name).write_text("#!/bin/sh\n")
    for name in ("need_root", "need", "remove_leftovers"):
        monkeypatch.setattr(program, name, lambda *_named: None)
    monkeypatch.setattr(program, "install", lambda _programs: None)
    programs = ("--mover", tmp_path / "mover", "--emulator", tmp_path / "wan")
    written = ("--folder", tmp_path / "runs", "--output", tmp_path / "engines.json", "--scratch", tmp_path)
    return [str(word) for word in (*programs, *written)]


def rows(tmp_path: Path) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads((tmp_path / "engines.json").read_text())}


def test_a_development_set_is_measured_once_and_written(tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(monkeypatch)
    assert program.BENCH.main(arguments) == 0
    assert (lab.scouted, len(lab.moved), lab.flows) == (16, 48, 33)
    found = rows(tmp_path)
    assert (found["about"]["set"], found["about"]["runs"], found["about"]["runs_planned"]) == ("development", 81, 81)
    assert found["auto_vs_best_engine_mean"]["value"] == found["auto_vs_best_engine_worst"]["value"] == 1.0
    assert found["auto_without_evidence_vs_best_worst"]["value"] == 0.5
    assert found["auto_udp_where_policed"]["ok"] is True
    assert (found["harm_worst_auto"]["value"], found["harm_worst_auto"]["target"], found["harm_worst_auto"]["ok"]) == (0.8, "<= 0.5", False)
    assert program.BENCH.main(arguments) == 0
    assert len(lab.moved) == 48
    assert program.BENCH.main([*arguments, "--fresh"]) == 0
    assert len(lab.moved) == 96


def test_what_failed_is_measured_by_the_same_command(
    tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(monkeypatch)
    lab.fails = True
    assert program.BENCH.main([*arguments, "--quick"]) == 1
    assert "there is no evidence for the choice on that path yet" in capsys.readouterr().out
    assert rows(tmp_path).keys() == {"about"}
    lab.fails = False
    assert program.BENCH.main([*arguments, "--quick"]) == 0
    assert rows(tmp_path)["about"]["quick"] is True
    # What another mover did is not taken for its own.
    (tmp_path / "mover").write_text("#!/bin/bash\n")
    before = len(lab.moved)
    assert program.BENCH.main([*arguments, "--quick"]) == 0
    assert len(lab.moved) == 2 * before


def test_sealed_paths_are_not_looked_at_without_a_reason(
    log: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(monkeypatch)
    assert program.BENCH.main([*arguments, "--sealed", "engines"]) == 2
    assert "say with --reason why they are looked at" in capsys.readouterr().err
    assert (lab.scouted, json.loads(log.read_text())) == (0, [])


def test_an_opening_is_logged_before_the_runs_and_told_beside_the_figures(
    log: Path, tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(monkeypatch)
    asked = [*arguments, "--sealed", "engines", "--reason"]
    assert program.BENCH.main([*asked, "the first figures of the rule"]) == 0
    about = rows(tmp_path)["about"]
    assert (about["set"], about["sealed"], about["opening"], about["paths"].keys()) == (
        "sealed",
        "engines",
        1,
        sealed_engine_paths().keys(),
    )
    assert program.BENCH.main([*asked, "once more, after a new mover"]) == 0
    assert (rows(tmp_path)["about"]["set"], len(lab.moved)) == ("development", 96)
    assert [one["reason"] for one in json.loads(log.read_text())] == ["the first figures of the rule", "once more, after a new mover"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("--sealed", "engines", "--reason", "to see whether it works", "--quick"), "leave one of the two out"),
        (("--seed", str(engine_specification().seed)), "gives the sealed paths"),
        (("--mover", "nowhere"), "make rust"),
        (("--markdown", "nowhere.json"), "--markdown nowhere.json"),
    ],
    ids=["quick", "the sealed seed", "no mover", "no file"],
)
def test_wrong_use_is_told_with_its_remedy(
    log: Path,
    arguments: Sequence[str],
    wrong: Sequence[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lab = Lab(monkeypatch)
    assert program.BENCH.main([*arguments, *wrong]) == 2
    assert told in capsys.readouterr().err
    assert (lab.scouted, json.loads(log.read_text())) == (0, [])
