"""What is kept of finished runs for calls on other machines."""

import json
import math
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead_advisor.probe.trace import Trace, read_trace, write_trace
from fairlead_dev.bench.decisions.kept import Kept, packed, read_kept, sampled_in, unpacked
from fairlead_dev.bench.decisions.loaded_classification import watched
from fairlead_dev.bench.decisions.matrix import Cell, Policy
from fairlead_dev.bench.decisions.outcomes import read_outcomes
from fairlead_dev.bench.decisions.paper.recordings import TrainingRecording, recordings_of
from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.dataset.specification import DATASETS, Specification
from fairlead_dev.testbed.runs.batch import RUNS
from fairlead_dev.testbed.runs.plans import TRACE
from fairlead_dev.testbed.runs.record import MANIFEST, scenario_digest
from fairlead_dev.testbed.scenario.load import load_toml

from ..caricature import caricature
from .made import PATHS, cell, manifest

DIGEST = "d" * 64
SPECIFICATION = load_toml(DATASETS / "full.toml", Specification)
RECORDING = next(one for one in recordings_of({"new-30": PATHS["new-30"]}, SPECIFICATION, "f" * 64) if one.planned.background == "B1-C0")
FIXED, OURS = cell("B1-C0", Policy.CUBIC), cell("B1-C0", Policy.OURS)


def ran(folder: Path, of: Cell, goodput_bps: int = 5_000_000) -> Path:
    """A finished run's folder, with more in its manifest than any figure needs."""
    run = folder / RUNS / of.name
    run.mkdir(parents=True)
    told: dict[str, Any] = {**manifest(of), "scenario": {"much": "more"}}
    told["own"]["goodput_bps"] = goodput_bps
    (run / MANIFEST).write_text(json.dumps(told))
    write_trace(run / TRACE, caricature("B1-C0", seconds=220, rate_hz=20, base_ms=60, seed=1))
    return run


def recorded(folder: Path, of: TrainingRecording) -> Path:
    """A finished training recording's folder."""
    run = folder / RUNS / of.name
    run.mkdir(parents=True)
    (run / MANIFEST).write_text(json.dumps({"verdict": {"good": True}, "scenario_digest": scenario_digest(of.scenario)}))
    trace = caricature("B1-C0", seconds=120, rate_hz=50, base_ms=60, seed=1)
    lost = array("d", [math.nan if 2500 <= number < 2600 else rtt_ms for number, rtt_ms in enumerate(trace.rtts_ms)])
    write_trace(run / TRACE, Trace(trace.send_times_s, lost))
    return run


@pytest.fixture
def part(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "kept" / "20270102T000000Z-0a1b2c3d.jsonl", DIGEST)


def test_what_is_kept_is_what_the_folder_tells_and_no_more(tmp_path: Path, part: Kept) -> None:
    for one in (FIXED, OURS):
        part.add(one, ran(tmp_path, one))
    again = read_kept(tmp_path / "kept", DIGEST)
    assert list(again.outcomes([FIXED, OURS])) == list(read_outcomes([FIXED, OURS], tmp_path))
    beside = watched(read_trace(tmp_path / RUNS / FIXED.name / TRACE))
    assert list(again.trace(FIXED.name).rows()) == list(beside.rows())
    first, second = map(json.loads, next((tmp_path / "kept").iterdir()).read_text().splitlines())
    figures = {"measured", "run", "scenario_digest", "own", "flows", "settled_flows_bps", "machine"}
    # What was watched matters beside a fixed choice alone.
    assert (first.keys(), second.keys()) == (figures | {"watched"}, figures)


def test_a_run_is_kept_in_a_few_kilobytes(tmp_path: Path, part: Kept) -> None:
    part.add(FIXED, ran(tmp_path, FIXED))
    assert next((tmp_path / "kept").iterdir()).stat().st_size < 30_000


@pytest.mark.parametrize("times_s", [[0.0, 0.1, 0.299999], [12.345678, 12.345678, 219.999999]])
def test_a_trace_is_the_same_to_the_last_bit(tmp_path: Path, times_s: list[float]) -> None:
    write_trace(tmp_path / TRACE, Trace(array("d", times_s), array("d", [60.1234, math.nan, 0.0001])))
    trace = read_trace(tmp_path / TRACE)
    found = unpacked(packed(trace))
    assert found.send_times_s == trace.send_times_s
    assert list(found.rows()) == list(trace.rows())


def test_the_first_of_two_counts(tmp_path: Path, part: Kept) -> None:
    later = Kept(tmp_path / "kept" / "20270103T000000Z-4e5f6071.jsonl", DIGEST)
    later.add(OURS, ran(tmp_path / "later", OURS, goodput_bps=9_000_000))
    part.add(OURS, ran(tmp_path, OURS))
    part.add(OURS, tmp_path / "later" / RUNS / OURS.name)
    (found,) = read_kept(tmp_path / "kept", DIGEST).outcomes([OURS])
    assert found.own_bps == 5e6


def test_a_run_of_something_else_does_not_count(tmp_path: Path, part: Kept) -> None:
    part.add(FIXED, ran(tmp_path, FIXED))
    Kept(tmp_path / "kept" / "another.jsonl", "e" * 64).add(OURS, ran(tmp_path, OURS))
    kept = read_kept(tmp_path / "kept", DIGEST)
    assert (kept.has(FIXED), kept.has(OURS), kept.has(cell("B1-C0", Policy.CUBIC, fingerprint="e" * 64))) == (True, False, False)
    with pytest.raises(CommandUsageError, match=r"its runs are of dddddddddddd, eeeeeeeeeeee, and here cccccccccccc"):
        read_kept(tmp_path / "kept", "c" * 64)


def test_a_line_that_was_cut_off_does_not_count(tmp_path: Path, part: Kept) -> None:
    part.add(FIXED, ran(tmp_path, FIXED))
    part.add(OURS, ran(tmp_path, OURS))
    (file,) = (tmp_path / "kept").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    kept = read_kept(tmp_path / "kept", DIGEST)
    assert (kept.has(FIXED), kept.has(OURS)) == (True, False)


@pytest.mark.parametrize("line", ["<<<<<<< HEAD", "[]", "{}", '{"measured": "d", "scene": "clean"}'])
def test_a_damaged_file_is_named_with_its_line(tmp_path: Path, part: Kept, line: str) -> None:
    part.add(OURS, ran(tmp_path, OURS))
    (file,) = (tmp_path / "kept").iterdir()
    with file.open("a") as damaged:
        damaged.write(f"{line}\n")
    with pytest.raises(CommandUsageError, match=r"0a1b2c3d\.jsonl, line 2: is no kept run"):
        read_kept(tmp_path / "kept", DIGEST)


def test_of_a_training_recording_the_samples_are_kept_to_the_last_bit(tmp_path: Path, part: Kept) -> None:
    part.add(RECORDING, recorded(tmp_path, RECORDING))
    kept = read_kept(tmp_path / "kept", DIGEST)
    found, there = kept.sampled(RECORDING), sampled_in(tmp_path / RUNS, RECORDING)
    assert kept.has(RECORDING)
    assert (found.path, found.class_name) == (there.path, there.class_name) == ("new-30", "B1-C0")
    assert np.array_equal(found.rtts_ms, there.rtts_ms, equal_nan=True)
    assert np.isnan(found.rtts_ms).sum() == 2
    (file,) = (tmp_path / "kept").iterdir()
    assert file.stat().st_size < 4_000


def test_the_rows_of_a_scene_are_kept_once_with_their_machine(tmp_path: Path, part: Kept) -> None:
    part.add_scene("clean", [{"name": "parallelism_clean_4", "value": 1.0}])
    part.add_scene("clean", [])
    assert read_kept(tmp_path / "kept", DIGEST).scenes() == {"clean": [{"name": "parallelism_clean_4", "value": 1.0}]}
    assert json.loads(next((tmp_path / "kept").iterdir()).read_text())["machine"].keys() == {"description", "boot"}
