import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from fairlead_advisor.features.vector import NAMES
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.probe.trace import Trace, write_trace
from fairlead_advisor.record.journal import EntryKind, Journal
from fairlead_advisor.record.samples import samples_json
from tests.support.background import caricature
from tests.support.command import run
from tests.support.models import tiny_model, tiny_proto, write_model
from tests.support.traces import steady


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Says B1-C0 the more surely the larger the spread, and finds nothing novel on paths of a usual spread."""
    weights = np.zeros((len(NAMES), len(CLASSES)))
    weights[NAMES.index("log_spread_ms"), 2] = 5.0
    return write_model(tmp_path / "model.onnx", tiny_model(weights=weights))


async def test_classify_answers_in_json(tmp_path: Path, model: Path) -> None:
    write_trace(tmp_path / "trace.csv", caricature("B0-C1"))
    outcome = await run("classify", tmp_path / "trace.csv", "--model", model)
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    told = json.loads(outcome.stdout)
    assert told["class"] == "B1-C0"
    assert list(told["probabilities"]) == list(CLASSES)
    assert sum(told["probabilities"].values()) == pytest.approx(1)
    assert told["any_bbr"] == told["confidence"] > 0.9
    assert (told["abstained"], told["reason"], told["window_s"]) == (False, None, 10.0)
    assert told["model"].startswith("background-1.2.3 (sha256:")


async def test_classify_and_export_need_no_training_package(tmp_path: Path, model: Path) -> None:
    write_trace(tmp_path / "trace.csv", caricature("B0-C1"))
    script = (
        "import sys; from fairlead_advisor.cli import main; "
        f"code = main(['classify', {str(tmp_path / 'trace.csv')!r}, '--model', {str(model)!r}]); "
        f"main(['export', {str(tmp_path)!r}, '--output', {str(tmp_path / 'out')!r}]); "
        "training = {'sklearn', 'lightgbm', 'onnx', 'scipy', 'torch', 'matplotlib'}; "
        "sys.exit(code or len(training & set(sys.modules)))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=DEVNULL, stderr=PIPE)
    _, stderr = await process.communicate()
    assert (process.returncode, b"golden.npz" in stderr) == (0, True), stderr


async def test_classify_abstains_when_unsure(tmp_path: Path) -> None:
    unsure = write_model(tmp_path / "unsure.onnx", tiny_model())
    write_trace(tmp_path / "trace.csv", caricature("B0-C1"))
    told = json.loads((await run("classify", tmp_path / "trace.csv", "--model", unsure, "--window", 5)).stdout)
    assert (told["abstained"], told["reason"], told["confidence"]) == (True, "LowConfidence", 0.5)


async def test_classify_takes_the_installed_model_unless_told_otherwise(tmp_path: Path) -> None:
    write_trace(tmp_path / "trace.csv", caricature("B0-C1", seconds=10.0))
    outcome = await run("classify", tmp_path / "trace.csv")
    assert outcome.exit_code == 0, outcome.stderr
    told = json.loads(outcome.stdout)
    assert told["model"].startswith("background-")
    assert sum(told["probabilities"].values()) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("window", ["0", "-1", "nan", "inf", "1e9", "4.9"])
async def test_a_bad_window_is_refused(tmp_path: Path, window: str) -> None:
    for command in ("classify", "evaluate"):
        outcome = await run(command, tmp_path / "trace.csv", f"--window={window}")
        assert outcome.exit_code == 2
        assert "--window must be 5 to 3600 seconds" in outcome.stderr


async def test_classify_refuses_a_bad_file_and_one_that_is_too_short(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("send_time_s,rtt_ms\n0.0,oops\n")
    write_trace(tmp_path / "short.csv", steady(3))
    bad, short = await run("classify", tmp_path / "bad.csv"), await run("classify", tmp_path / "short.csv")
    assert (bad.exit_code, short.exit_code) == (2, 2)
    assert "bad.csv: line 2: rtt_ms is 'oops'" in bad.stderr
    assert "short.csv: only 3 row(s)" in short.stderr
    assert "Traceback" not in bad.stderr + short.stderr


async def test_a_model_that_reads_other_files_is_refused_before_it_runs(tmp_path: Path) -> None:
    hostile = tiny_proto()
    tensor = hostile.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "/etc/passwd"
    write_trace(tmp_path / "trace.csv", steady())
    outcome = await run("classify", tmp_path / "trace.csv", "--model", write_model(tmp_path / "bad.onnx", hostile.SerializeToString()))
    assert outcome.exit_code == 2
    assert "bad.onnx: is not self-contained" in outcome.stderr


async def test_evaluate_tells_figures_by_class_and_path_of_traces_and_records(tmp_path: Path, model: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    for path, class_name in (("a", "B0-C0"), ("a", "B1-C0"), ("b", "B1-C0")):
        write_trace(folder / f"{path}__{class_name}__1.csv", caricature(class_name, seconds=31, base_ms=100))
    record = Journal(folder / "b__B0-C1__1.jsonl", lambda: datetime(2026, 1, 1, tzinfo=UTC))
    record.followed(EntryKind.SURVEY, samples_json(caricature("B0-C1", seconds=31, base_ms=100)))
    # A sure answer ends a survey early: too short for this window, and no reason to refuse the rest.
    short = Journal(folder / "b__B1-C0__2.jsonl", lambda: datetime(2026, 1, 1, tzinfo=UTC))
    short.followed(EntryKind.SURVEY, samples_json(caricature("B1-C0", seconds=5, base_ms=100)))
    outcome = await run("evaluate", folder, "--model", model)
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    told = json.loads(outcome.stdout)
    assert (told["files"], told["windows"], told["windows_rejected"]) == (5, 12, 0)
    assert told["per_class"]["B1-C0"]["recall"] == 1.0
    assert told["per_class"]["B0-C1"]["recall"] == 0.0
    assert sum(map(sum, told["confusion"])) == 12
    assert {name: figures["windows"] for name, figures in told["per_path"].items()} == {"a": 6, "b": 6}
    for name in ("accuracy", "macro_f1", "any_bbr_accuracy", "coverage", "accuracy_when_confident", "expected_calibration_error"):
        assert 0 <= told[name] <= 1, name


@pytest.mark.parametrize(
    ("name", "rows", "complaint"),
    [
        ("a__B0-C0__1.csv", 3, "only 3 row(s)"),
        ("a__B0-C0__1.csv", 150, "shorter than the window of 10 s"),
        ("a__B0-C9__1.csv", 300, "'B0-C9' in its name is no class"),
        ("trace.csv", 300, "its name must be <path>__<class>__<seed>.csv"),
    ],
)
async def test_evaluate_refuses_what_it_cannot_judge(tmp_path: Path, model: Path, name: str, rows: int, complaint: str) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    write_trace(folder / name, steady(rows))
    outcome = await run("evaluate", folder, "--model", model)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert complaint in outcome.stderr and name in outcome.stderr


async def test_evaluate_names_each_bad_file_at_the_end_and_goes_on_with_the_others(tmp_path: Path, model: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "a__B0-C0__1.csv").write_text("send_time_s,rtt_ms\n0.0,oops\n")
    write_trace(folder / "a__B0-C0__2.csv", steady(3))
    write_trace(folder / "a__B0-C9__1.csv", steady(300))
    write_trace(folder / "notes.csv", steady(300))
    write_trace(folder / "b__B1-C0__1.csv", caricature("B1-C0", seconds=31, base_ms=100))
    outcome = await run("evaluate", folder, "--model", model)
    told = json.loads(outcome.stdout)
    assert (told["files"], told["windows"]) == (1, 3)
    complaints = (
        "a__B0-C0__1.csv: line 2: rtt_ms is 'oops'",
        "a__B0-C0__2.csv: only 3 row(s)",
        "a__B0-C9__1.csv: 'B0-C9' in its name is no class",
        "notes.csv: its name must be",
    )
    *named, last = outcome.stderr.splitlines()
    for complaint, rejected, line in zip(complaints, told["files_rejected"], named, strict=True):
        assert complaint in rejected and complaint in line
    assert "4 of 5 files are not in the figures" in last
    # Figures of a part of the folder are none of the folder.
    assert outcome.exit_code == 2


async def test_evaluate_takes_requests_that_were_sent_at_the_same_time(tmp_path: Path, model: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    trace = caricature("B1-C0", seconds=31, base_ms=100)
    times_s = trace.send_times_s[:]
    # A coarse clock: every second request has the time of the one before.
    times_s[1::2] = times_s[0 : len(times_s) // 2 * 2 : 2]
    write_trace(folder / "a__B1-C0__1.csv", Trace(times_s, trace.rtts_ms))
    outcome = await run("evaluate", folder, "--model", model)
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    told = json.loads(outcome.stdout)
    assert (told["files"], told["windows"], told["windows_rejected"], told["accuracy"]) == (1, 3, 0, 1.0)


async def test_evaluate_counts_silent_windows_and_refuses_a_folder_of_them_alone(tmp_path: Path, model: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    write_trace(folder / "a__B0-C0__1.csv", steady(300, rtt_ms=None))
    outcome = await run("evaluate", folder, "--model", model)
    assert outcome.exit_code == 2
    assert "no usable window of 10 s in 1 file(s), 1 rejected" in outcome.stderr
    write_trace(folder / "a__B0-C0__2.csv", steady(300))
    told = json.loads((await run("evaluate", folder, "--model", model)).stdout)
    assert (told["windows"], told["windows_rejected"]) == (1, 1)
