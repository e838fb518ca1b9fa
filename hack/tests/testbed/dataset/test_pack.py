import json
from pathlib import Path

import numpy as np
import pytest

from fairlead_advisor.probe.trace import read_trace
from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.data import read_burst_packets, read_split
from fairlead_dev.testbed.dataset.pack import export_traces, pack
from fairlead_dev.testbed.dataset.plan import PlannedRun, plan_runs
from fairlead_dev.testbed.runs.batch import RUNS
from fairlead_dev.testbed.runs.record import scenario_digest

from ..build import DRAWN, good_direction, good_flows, good_probe, specification

SPECIFICATION = specification(duration_s=2, probe_rate_hz=10, kinds=[{"kind": "on_off", "paths": 1, "classes": ["B1-C1"]}])
PLAN = plan_runs(SPECIFICATION)


def record(run: PlannedRun, folder: Path, faults: tuple[str, ...] = ()) -> None:
    target = folder / RUNS / run.name
    target.mkdir(parents=True)
    scenario = run.scenario
    direction = {**good_direction(), "packets_dropped_buffer": 5}
    manifest = {
        "scenario_digest": scenario_digest(scenario),
        "verdict": {"good": not faults, "faults": list(faults)},
        "emulator": {"ab": direction, "ba": direction},
        "probe": good_probe(scenario),
        "flows": good_flows(scenario),
        "machine": {"kernel": "6.18", "cpus": 2},
        "versions": {"python": "3.11.7"},
    }
    (target / "manifest.json").write_text(json.dumps(manifest))
    rows = [f"{index / 10:.6f},{'' if index == 7 else scenario.path.rtt_ms + index % 5}" for index in range(20)]
    (target / "trace.csv").write_text("\n".join(["send_time_s,rtt_ms", *rows]) + "\n")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """All runs but the first, and the second disturbed."""
    for number, run in enumerate(PLAN[1:]):
        record(run, tmp_path, faults=() if number else ("the machine was busy",))
    return tmp_path


def test_every_good_run_is_packed_into_its_split_with_its_label(recorded: Path, tmp_path: Path) -> None:
    manifest = pack(SPECIFICATION, PLAN, recorded, tmp_path / "out")
    assert manifest["missing"] == [PLAN[0].name, PLAN[1].name]
    for split in ("train", "test_seeds", "test_paths", "test_kinds"):
        packed = {recording.name: recording.run for recording in read_split(tmp_path / "out", split)}
        assert set(packed) == {run.name for run in PLAN[2:] if run.split == split}
        for run in PLAN[2:]:
            if run.split == split:
                assert (packed[run.name]["class"], packed[run.name]["path_id"]) == (run.background, run.path_id)
    assert "2 of " in (tmp_path / "out/README.md").read_text()


def test_what_is_known_of_a_run_tells_its_flows_and_when_they_were_on(recorded: Path, tmp_path: Path) -> None:
    pack(SPECIFICATION, PLAN, recorded, tmp_path / "out")
    (recording,) = read_split(tmp_path / "out", "test_kinds")
    assert recording.run["kind"] == "on_off"
    assert (recording.run["bbr_flows"], recording.run["cubic_flows"]) >= (1, 1)
    for flow in recording.run["flows"]:
        first, last = flow["on_s"][0], flow["on_s"][-1]
        assert first[0] < 0 and last[1] <= 2
        assert flow["goodput_bps"] > 0
    assert "machine" not in recording.run


def test_what_is_known_of_a_run_tells_how_its_path_treats_packets(tmp_path: Path) -> None:
    treated = {"queue": ["codel"], "police_udp": {"low": 0.1, "high": 0.1}, "police_udp_share": 1, "thin_acks": [4]}
    of = specification(duration_s=2, probe_rate_hz=10, drawn_paths={**DRAWN, **treated})
    run = plan_runs(of)[0]
    record(run, tmp_path)
    pack(of, [run], tmp_path, tmp_path / "out")
    (recording,) = read_split(tmp_path / "out", run.split)
    assert (recording.run["queue"], recording.run["thin_acks"], recording.run["police_bps"]) == ("codel", 4, None)
    assert recording.run["police_udp_bps"] == pytest.approx(0.1 * recording.run["rate_bps"], abs=100_000)
    assert recording.run["dropped_packets"] == 5
    assert recording.run["emulator"] == "fairlead-wan"


def test_what_is_known_of_a_run_and_the_card_tell_that_the_queue_was_the_kernels(tmp_path: Path) -> None:
    of = specification(duration_s=2, probe_rate_hz=10, drawn_paths={**DRAWN, "emulator": "kernel"})
    run = plan_runs(of)[0]
    record(run, tmp_path)
    pack(of, [run], tmp_path, tmp_path / "out")
    (recording,) = read_split(tmp_path / "out", run.split)
    assert recording.run["emulator"] == "kernel"
    assert "carried by the kernel's token bucket and buffer" in (tmp_path / "out/README.md").read_text()


def test_disturbed_runs_are_packed_only_when_asked_for_and_are_marked(recorded: Path, tmp_path: Path) -> None:
    manifest = pack(SPECIFICATION, PLAN, recorded, tmp_path / "out", disturbed_too=True)
    assert manifest["disturbed"] == [PLAN[1].name]
    marked = [recording.run["faults"] for recording in read_split(tmp_path / "out", "train") if recording.name == PLAN[1].name]
    assert marked == [["the machine was busy"]]


def test_bursts_are_packed_beside_the_traces_of_their_runs(tmp_path: Path) -> None:
    with_bursts = specification(duration_s=30, probe_rate_hz=10, burst_seeds=1)
    run = next(run for run in plan_runs(with_bursts) if run.split == "bursts")
    record(run, tmp_path)
    (tmp_path / RUNS / run.name / "bursts.csv").write_text("burst,send_time_s,rtt_ms\n0,20.200000,41.5000\n0,20.200000,\n")
    pack(with_bursts, [run], tmp_path, tmp_path / "out")
    packets = read_burst_packets(tmp_path / "out")[run.name]
    np.testing.assert_allclose(packets.send_times_s, [20.2, 20.2])
    np.testing.assert_allclose(packets.rtts_ms, [41.5, np.nan])
    (recording,) = read_split(tmp_path / "out", "bursts")
    assert [burst["packets"] for burst in recording.run["bursts"]] == [burst.packets for burst in run.scenario.probe.bursts]


def test_an_exported_trace_is_the_recorded_one(recorded: Path, tmp_path: Path) -> None:
    pack(SPECIFICATION, PLAN, recorded, tmp_path / "out")
    count = export_traces(tmp_path / "out", "test_seeds", tmp_path / "csv")
    assert count == len(list((tmp_path / "csv").iterdir()))
    run = next(run for run in PLAN[2:] if run.split == "test_seeds")
    before = read_trace(recorded / RUNS / run.name / "trace.csv")
    after = read_trace(tmp_path / "csv" / f"{run.name}.csv")
    np.testing.assert_allclose(after.rtts_ms, before.rtts_ms, atol=0.002)
    np.testing.assert_allclose(after.send_times_s, before.send_times_s, atol=1e-5)


def test_a_folder_without_recordings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandUsageError, match="no good recording"):
        pack(SPECIFICATION, PLAN, tmp_path, tmp_path / "out")
