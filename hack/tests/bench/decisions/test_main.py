import argparse
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.probe.trace import write_trace
from fairlead_dev.bench import digests, sealed
from fairlead_dev.bench.decisions import __main__ as program
from fairlead_dev.bench.decisions import fingerprints, loaded_classification, stream_counts
from fairlead_dev.bench.decisions.matrix import Matrix
from fairlead_dev.bench.decisions.stream_counts import Sweep
from fairlead_dev.testbed.data import RawTrace, write_runs, write_split
from fairlead_dev.testbed.runs.batch import RUNS
from fairlead_dev.testbed.runs.plans import TRACE
from fairlead_dev.testbed.runs.quality import QualityVerdict
from fairlead_dev.testbed.runs.record import MANIFEST, scenario_digest
from fairlead_dev.testbed.scenario.model import Scenario
from fairlead_dev.wan.emulator import PROGRAM_VARIABLE

from ..caricature import caricature
from .made import manifest


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command line with programs that are there and a small data set, and a machine on which nothing is really run."""
    for name in ("mover", "wan"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    data = tmp_path / "data"
    data.mkdir()
    fill(data, "p", seconds=20)
    monkeypatch.setenv(PROGRAM_VARIABLE, str(tmp_path / "wan"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(program, "remove_abandoned", list)
    # Its sources are many, and read anew for every run.
    (tmp_path / "advisor").mkdir()
    for place in (digests, fingerprints):
        monkeypatch.setattr(place, "ADVISOR", tmp_path / "advisor")
    monkeypatch.setattr(fingerprints, "_LAB", ())
    written = ("--folder", tmp_path / "runs", "--output", tmp_path / "decisions.json")
    return [str(word) for word in ("--data", data, "--mover", tmp_path / "mover", *written)]


def fill(data: Path, path_id: str, *, seconds: int) -> None:
    """A data set of a single path, with one training run of each class."""
    names = {name: f"{path_id}__{name}__s0" for name in CLASSES}
    traces = {name: caricature(name, seconds=seconds, rate_hz=50, base_ms=100, seed=1) for name in CLASSES}
    write_split(data / "train.npz", [RawTrace(names[one], 50.0, list(of.send_times_s), list(of.rtts_ms)) for one, of in traces.items()])
    write_runs(data, [{"name": names[one], "path_id": path_id, "class": one, "seed": "s0", "split": "train"} for one in CLASSES])


class Lab:
    """Leaves the manifests and traces that runs would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ran: list[str] = []
        self.swept = 0
        self.goodputs_bps: dict[str, int] = {}
        self.disturbed_times: dict[str, int] = {}
        self.builds: Path | None = None
        self.recorded: list[str] = []
        monkeypatch.setattr(program, "run_cell", self._run)
        monkeypatch.setattr(program, "record", self._record)
        monkeypatch.setattr(stream_counts, "measure", self._sweep)

    async def _run(self, cell: Any, folder: Path, _bench: object, _number: int) -> QualityVerdict:
        self.ran.append(cell.name)
        shutil.rmtree(folder, ignore_errors=True)
        faults = ("the machine was busy",) if self.ran.count(cell.name) <= self.disturbed_times.get(cell.name, 0) else ()
        told = manifest(cell, *faults)
        told["own"]["goodput_bps"] = self.goodputs_bps.get(cell.name, told["own"]["goodput_bps"])
        leave(folder, told)
        write_trace(folder / TRACE, caricature(cell.scene.classes[0][1], seconds=30, rate_hz=20, base_ms=100, seed=1))
        if self.builds is not None:
            self.builds.write_text("another mover")
        return QualityVerdict(faults)

    async def _record(self, scenario: Scenario, folder: Path, _bench: object, _number: int) -> QualityVerdict:
        self.recorded.append(folder.name)
        faults = ("the machine was busy",) if self.recorded.count(folder.name) <= self.disturbed_times.get(folder.name, 0) else ()
        leave(folder, {"scenario_digest": scenario_digest(scenario), "verdict": {"good": not faults, "faults": list(faults)}})
        class_name = folder.name.split("__")[1].upper()
        write_trace(folder / TRACE, caricature(class_name, seconds=30, rate_hz=50, base_ms=100, seed=scenario.seed))
        return QualityVerdict(faults)

    async def _sweep(self, folder: Path, sweep: Sweep, fingerprint: str, ended: Callable[[], None]) -> None:
        if stream_counts.read_rows(folder, sweep, fingerprint).keys() == set(stream_counts.SCENES):
            return
        self.swept += 1
        (folder / stream_counts.FOLDER).mkdir(exist_ok=True)
        for scene in stream_counts.SCENES:
            counted = [{"name": f"parallelism_{scene}_{who}", "value": 10.0, "unit": "Mb/s"} for who in ("4", "advisor", "falcon")]
            content = {"fingerprint": stream_counts.key(sweep, fingerprint), "rows": counted}
            (folder / stream_counts.FOLDER / f"{scene}.json").write_text(json.dumps(content))
            ended()


def leave(folder: Path, content: object) -> None:
    folder.mkdir(parents=True)
    (folder / MANIFEST).write_text(json.dumps(content))


def rows(tmp_path: Path) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads((tmp_path / "decisions.json").read_text())}


def test_everything_is_measured_once_and_written(tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(monkeypatch)
    assert program.main(arguments) == 0
    assert (len(lab.ran), len(lab.recorded), lab.swept) == (36, 36, 1)
    found = rows(tmp_path)
    assert (found["about"]["runs"], found["about"]["runs_planned"], found["about"]["matrix"]) == (36, 36, "subset")
    assert found["about"]["paths"]["p00"]["in_training"] == "unseen"
    assert found["goodput_vs_oracle_mean"]["value"] == found["goodput_vs_oracle_mean"]["paper_loop_own_path"] == 1.0
    assert found["clean_vs_best_fixed"]["falcon"] == found["parallelism_vs_best_fixed"]["falcon"] == 1.0
    assert found["listening_wrong_share"]["value"] is not None
    assert program.main(arguments) == 0
    assert (len(lab.ran), len(lab.recorded)) == (36, 36)


def test_every_cell_of_the_whole_matrix_is_run_three_times_whatever_comes_out_of_it(
    tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(monkeypatch)
    lab.goodputs_bps = {"new-30__c1-c1__ours": 500_000, "new-30__c1-c1__ours__2": 5_500_000}
    arguments = [*arguments, "--full", "--cell", "new-30__c1-c1"]
    assert program.main(arguments) == 0
    policies = ("cubic", "bbr", "paper", "paper-own-path", "ours")
    assert sorted(lab.ran) == sorted(f"new-30__c1-c1__{policy}{number}" for policy in policies for number in ("", "__2", "__3"))
    found = rows(tmp_path)
    # The unlucky run counts as much as the others.
    assert found["goodput_vs_oracle_worst"]["value"] == pytest.approx((0.5 + 5.5 + 5) / 15, abs=1e-4)
    assert (found["about"]["runs"], found["about"]["repeats"], found["about"]["set"]) == (15, 3, "development")
    assert program.main(arguments) == 0
    assert len(lab.ran) == 15


def test_a_disturbed_run_is_made_again_within_its_block(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(monkeypatch)
    lab.disturbed_times = {"new-30__c1-c1__ours": 2}
    assert program.main([*arguments, "--full", "--cell", "new-30__c1-c1"]) == 0
    blocks = [name.rpartition("__")[2] if name.count("__") == 3 else "1" for name in lab.ran]
    assert blocks == ["1"] * 7 + ["2"] * 5 + ["3"] * 5
    assert lab.ran[5:7] == ["new-30__c1-c1__ours"] * 2


def test_a_cell_that_was_given_up_is_counted_as_missing(
    tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(monkeypatch)
    lab.disturbed_times = {"new-30__c1-c1__ours__2": 3, "new-30__b1-c0__bbr": 3, "new-30__b1-c0__bbr__2": 3}
    asked = [*arguments, "--full", "--cell", "new-30__"]
    assert program.main(asked) == 1
    assert "given up: new-30__c1-c1__ours__2: the machine was busy" in capsys.readouterr().err
    found = rows(tmp_path)
    assert (found["cells_missing"]["value"], found["repeats_counted"]["value"]) == (2, 1)
    assert program.main(asked) == 0
    found = rows(tmp_path)
    assert (found["cells_missing"]["value"], found["repeats_counted"]["value"]) == (0, 3)


def test_a_sealed_set_has_no_verdict_while_a_run_is_given_up(
    tmp_path: Path, of_sealed: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(monkeypatch)
    lab.disturbed_times = {"sealed-d0__b1-c0__ours__3": 3}
    assert program.main([*of_sealed, REASON]) == 1
    assert "29 of 30 runs" in capsys.readouterr().out
    assert not (tmp_path / "decisions.json").exists()
    assert program.main([*of_sealed, REASON]) == 0
    assert rows(tmp_path)["about"]["set"] == "sealed"


def test_the_training_recordings_of_a_path_are_made_before_its_loop_runs_and_of_no_other_path(
    tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(monkeypatch)
    assert program.main([*arguments, "--cell", "new-30__c1-c1__ours"]) == 0
    assert lab.recorded == []
    assert program.main([*arguments, "--cell", "new-30__c1-c1"]) == 0
    assert {name.partition("__")[0] for name in lab.recorded} == {"new-30"}
    assert Counter(name.split("__")[1] for name in lab.recorded) == dict.fromkeys(map(str.lower, CLASSES), 2)
    assert rows(tmp_path)["about"]["paths"]["new-30"]["own_path_training"] == "recorded for it"


def test_without_its_training_recordings_a_loop_is_not_run_and_the_others_are(
    tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(monkeypatch)
    lab.disturbed_times = {"new-30__b0-c0__training-s1": 4}
    asked = [*arguments, "--cell", "new-30__c1-c1"]
    assert program.main(asked) == 1
    assert "given up: new-30__b0-c0__training-s1: the machine was busy" in capsys.readouterr().err
    assert sorted(lab.ran) == [f"new-30__c1-c1__{policy}" for policy in ("bbr", "cubic", "ours", "paper")]
    assert program.main(asked) == 0
    assert lab.ran[4:] == ["new-30__c1-c1__paper-own-path"]
    assert lab.recorded.count("new-30__b0-c0__training-s1") == 5
    assert rows(tmp_path)["cells_missing"]["value"] == 0


def test_a_path_of_the_data_set_with_enough_training_is_not_recorded(
    tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(monkeypatch)
    fill(tmp_path / "data", "overlay-1-tenth", seconds=240)
    assert program.main([*arguments, "--cell", "overlay-1-tenth__b1-c0"]) == 0
    assert lab.recorded == []
    assert rows(tmp_path)["about"]["paths"]["overlay-1-tenth"]["own_path_training"] == "data set"


def test_the_whole_matrix_is_not_run_with_fewer_repetitions(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([*arguments, "--full", "--repeats", "2"]) == 2
    assert "--repeats 2: must be 3 to 100" in capsys.readouterr().err


def test_sealed_paths_are_not_looked_at_without_a_reason(
    log: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(monkeypatch)
    assert program.main([*arguments, "--sealed", "decisions"]) == 2
    assert "say with --reason why they are looked at" in capsys.readouterr().err
    assert (lab.ran, json.loads(log.read_text())) == ([], [])


@pytest.fixture
def of_sealed(log: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command line for a sealed matrix of two cells, three times five runs each, without its reason."""
    assert log.exists()
    small = Matrix((("sealed-d0", "B1-C0"), ("sealed-d1", "B1-C0")), (), (), 220.0)
    monkeypatch.setattr(program, "sealed_matrix", lambda _paths: small)
    return [*arguments, "--sealed", "decisions", "--reason"]


REASON = "the final table of version 2"
MACHINE = "2 cores of a test, boot 0a1b2c3d"


def test_an_opening_is_logged_before_the_runs_and_told_beside_the_figures(
    log: Path, tmp_path: Path, of_sealed: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(monkeypatch)
    monkeypatch.setattr(sealed, "commit", lambda: "abc1234")
    assert program.main([*of_sealed, REASON]) == 0
    assert (len(lab.ran), len(lab.recorded)) == (30, 24)
    about = rows(tmp_path)["about"]
    assert (about["set"], about["sealed"], about["opening"], about["repeats"]) == ("sealed", "decisions", 1, 3)
    monkeypatch.setattr(sealed, "commit", lambda: "def5678")
    assert program.main([*of_sealed, REASON]) == 0
    about = rows(tmp_path)["about"]
    assert (about["opening"], about["commit"], about["opened_at_commit"]) == (1, "def5678", "abc1234")
    assert program.main([*of_sealed, "once more, after a new rule"]) == 0
    assert rows(tmp_path)["about"]["set"] == "development"
    assert [one["reason"] for one in json.loads(log.read_text())] == [REASON, "once more, after a new rule"]


def test_no_figure_of_a_sealed_set_is_shown_before_all_runs_are_there(
    tmp_path: Path, of_sealed: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(monkeypatch)
    assert program.main([*of_sealed, REASON, "--cell", "sealed-d0"]) == 1
    shown = capsys.readouterr().out
    assert "15 of 30 runs and 0 of 3 scenes of stream counts are there; no figure is shown" in shown
    assert "Mb/s" not in shown
    assert "goodput" not in shown
    assert not (tmp_path / "decisions.json").exists()
    assert program.main([*of_sealed, REASON, "--minutes", "0.01"]) == 1
    assert (len(lab.ran), lab.swept) == (15, 0)
    # The last part shows the figures of all.
    assert program.main([*of_sealed, REASON, "--cell", "sealed-d1"]) == 1
    assert program.main([*of_sealed, REASON, "--only", "parallelism"]) == 0
    assert (rows(tmp_path)["about"]["runs"], rows(tmp_path)["about"]["opening"]) == (30, 1)


def test_parts_on_machines_that_keep_nothing_give_the_figures_of_one_machine(
    tmp_path: Path, of_sealed: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(monkeypatch)
    lab.goodputs_bps = {f"sealed-d{path}__b1-c0__ours": 4_000_000 + path for path in range(2)}
    monkeypatch.setattr(program, "classify_window", lambda *_of: loaded_classification._certain("B1-C1"))
    kept = ("--kept", str(tmp_path / "kept"))
    lab.disturbed_times = {"sealed-d0__b1-c0__ours__2": 1}
    assert program.main([*of_sealed, REASON, *kept, "--cell", "sealed-d0"]) == 1
    (first,) = (tmp_path / "kept").iterdir()
    assert len(first.read_text().splitlines()) == 15 + 12
    with first.open("a") as cut_off:
        cut_off.write(first.read_text()[:100])
    lab.ran.clear()
    shutil.rmtree(tmp_path / "runs")
    assert program.main([*of_sealed, REASON, *kept, "--only", "stationary"]) == 1
    assert (len(lab.ran), {name.partition("__")[0] for name in lab.ran}) == (15, {"sealed-d1"})
    shutil.rmtree(tmp_path / "runs")
    assert program.main([*of_sealed, REASON, *kept]) == 0
    shutil.rmtree(tmp_path / "runs")
    # A machine of which nothing is needed but the figures.
    assert program.main([*of_sealed, REASON, *kept]) == 0
    assert (len(lab.ran), lab.swept) == (15, 1)
    in_parts = rows(tmp_path)
    assert in_parts["about"]["set"] == "sealed"
    assert in_parts["about"]["machines"] == [{"machine": MACHINE, "runs": 30, "squares_s": [0.06, 0.06]}]
    assert in_parts["run_sealed-d1_B1-C0_ours_3"]["machine"] == MACHINE
    shutil.rmtree(tmp_path / "runs")
    lab.disturbed_times = {}
    assert program.main([*of_sealed, REASON]) == 0
    assert (len(lab.ran), lab.swept) == (45, 2)
    at_once = rows(tmp_path)
    assert in_parts["listening_found_share"]["value"] is not None
    for both in (in_parts, at_once):
        del both["about"]["date"]
    assert in_parts == at_once


def test_a_run_that_was_not_kept_before_a_call_was_killed_is_kept_by_the_next_one(
    tmp_path: Path, of_sealed: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(monkeypatch)
    assert program.main([*of_sealed, REASON]) == 0
    assert program.main([*of_sealed, REASON, "--kept", str(tmp_path / "kept")]) == 0
    assert len(lab.ran) == 30
    (file,) = (tmp_path / "kept").iterdir()
    assert len(file.read_text().splitlines()) == 30 + 24 + len(stream_counts.SCENES)


def test_who_would_measure_something_else_is_told_before_an_opening_is_logged(
    log: Path, tmp_path: Path, of_sealed: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(monkeypatch)
    kept = ("--kept", str(tmp_path / "kept"))
    assert program.main([*of_sealed, REASON, *kept, "--cell", "sealed-d0"]) == 1
    (tmp_path / "mover").write_text("another compiler's")
    assert program.main([*of_sealed, REASON, *kept]) == 2
    assert "go on with the same sources, compilers" in capsys.readouterr().err
    assert (len(lab.ran), len(json.loads(log.read_text()))) == (15, 1)


def test_disturbed_runs_are_not_put_into_a_folder_to_commit(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([*arguments, "--kept", "nowhere", "--keep-disturbed"]) == 2
    assert "leave out that or --kept" in capsys.readouterr().err


def test_a_changed_advisor_goes_on_with_no_opening_and_with_no_run_of_it(
    log: Path, tmp_path: Path, of_sealed: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(monkeypatch)
    assert program.main([*of_sealed, REASON, "--cell", "sealed-d0"]) == 1
    (tmp_path / "advisor" / "main.py").write_text("another advisor")
    assert program.main([*of_sealed, REASON]) == 0
    assert len(lab.ran) == 15 + 30
    about = rows(tmp_path)["about"]
    assert (about["opening"], about["set"], len(json.loads(log.read_text()))) == (2, "development", 2)


def test_a_run_during_which_a_program_was_built_is_not_kept(
    tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(monkeypatch)
    lab.builds = tmp_path / "mover"
    assert program.main([*arguments, "--cell", "overlay-1-tenth__b1-c0__ours"]) == 2
    assert "programs or sources were changed while it ran" in capsys.readouterr().err
    assert list((tmp_path / "runs" / RUNS).iterdir()) == []


@pytest.mark.parametrize("other", [("--repeats", "4"), ("--seconds", "100")])
def test_another_plan_is_another_opening(
    log: Path, of_sealed: Sequence[str], other: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Lab(monkeypatch)
    assert program.main([*of_sealed, REASON, "--cell", "sealed-d0"]) == 1
    assert program.main([*of_sealed, REASON, "--cell", "sealed-d0", *other]) == 1
    assert len(json.loads(log.read_text())) == 2


def test_disturbed_runs_of_a_sealed_set_are_not_looked_at(log: Path, of_sealed: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main([*of_sealed, REASON, "--keep-disturbed"]) == 2
    assert "--keep-disturbed" in capsys.readouterr().err
    assert json.loads(log.read_text()) == []


def test_a_part_by_its_time_is_not_written_as_the_whole() -> None:
    parser = argparse.ArgumentParser()
    program._add_options(parser)
    assert program._is_partial(parser.parse_args(["--minutes", "20"]))
    assert not program._is_partial(parser.parse_args([]))
    assert not program._is_partial(parser.parse_args(["--sealed", "decisions", "--minutes", "20"]))


def test_another_data_set_makes_the_runs_of_the_papers_loop_again_and_no_others(
    tmp_path: Path, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(monkeypatch)
    asked = [*arguments, "--cell", "b1-c0"]
    assert program.main(asked) == 0
    lab.ran.clear()
    write_runs(tmp_path / "data", [{"name": f"p__{one}__s0", "path_id": "q", "class": one, "seed": "s0"} for one in CLASSES])
    assert program.main(asked) == 0
    assert sorted(lab.ran) == ["overlay-1-tenth__b1-c0__paper", "overlay-1-tenth__b1-c0__paper-own-path"]
    assert len(lab.recorded) == 12, "the recordings have no part in it"


def test_a_part_leaves_the_others_alone(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(monkeypatch)
    assert program.main([*arguments, "--only", "changing"]) == 0
    assert {name.split("__")[1] for name in lab.ran} == {"bbr-visits-cubic"}
    assert lab.swept == 0


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("--data", "nowhere"), "make dataset"),
        (("--mover", "nowhere"), "make rust"),
        (("--seconds", "30"), "90 to 3600"),
        (("--seconds", "nan"), "90 to 3600"),
        (("--cell", "no-such"), "no cell has that in its name"),
    ],
    ids=["no-data", "no-mover", "too-short", "no-number", "no-cell"],
)
def test_wrong_use_is_told_with_its_remedy(
    arguments: Sequence[str], wrong: Sequence[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main([*arguments, *wrong]) == 2
    assert told in capsys.readouterr().err


def test_without_root_nothing_is_tried(
    arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert program.main(arguments) == 2
    assert "root" in capsys.readouterr().err
