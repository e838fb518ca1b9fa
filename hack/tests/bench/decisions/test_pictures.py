import json
from pathlib import Path

from fairlead_dev.bench.decisions.matrix import CHANGING, Matrix, Policy, cells
from fairlead_dev.bench.decisions.outcomes import read_outcomes
from fairlead_dev.bench.decisions.pictures import write_all
from fairlead_dev.testbed.runs.batch import RUNS
from fairlead_dev.testbed.runs.record import MANIFEST

from .made import PATHS, manifest

PLANNED = cells(Matrix((("new-30", "B1-C0"),), ("new-30",), CHANGING, 200.0), PATHS, dict.fromkeys(Policy, "f" * 64))


def test_there_is_a_picture_of_all_cells_and_of_every_changing_run_that_was_made(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for cell in PLANNED:
        if cell.scene.stationary or cell.policy is Policy.OURS:
            folder = runs / RUNS / cell.name
            folder.mkdir(parents=True)
            (folder / MANIFEST).write_text(json.dumps(manifest(cell)))
            (folder / "transfer.csv").write_text("time_s,acknowledged_bytes,congestion_control,streams\n1,0,,0\n2,100000,bbr,1\n")
            (folder / "flows.csv").write_text("time_s,flow,goodput_bps\n-0.2,a,5\n0.2,a,1000\n0.4,a,3000\n")
            (folder / "trace.csv").write_text("send_time_s,rtt_ms\n0.0,60.5\n0.05,\n0.1,61.0\n")
    write_all(tmp_path / "pictures", list(read_outcomes(PLANNED, runs)), runs)
    assert {file.name for file in (tmp_path / "pictures").iterdir()} == {
        "decisions-cells.svg",
        "decisions-bbr-visits-nobody-new-30-ours.svg",
        "decisions-bbr-visits-cubic-new-30-ours.svg",
    }
