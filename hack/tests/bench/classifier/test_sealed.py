"""The classifier's bench on sealed recordings."""

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.models.store import find_model
from fairlead_dev.bench.classifier import inputs
from fairlead_dev.bench.classifier.__main__ import BENCH
from fairlead_dev.testbed.dataset.pack import pack
from fairlead_dev.testbed.dataset.plan import PlannedRun, plan_runs
from fairlead_dev.testbed.runs.batch import RUNS
from fairlead_dev.testbed.runs.record import scenario_digest
from fairlead_dev.testbed.sealed.openings import LoggedOpening
from fairlead_dev.testbed.sealed.sets import CLASSIFIER_2, list_with, specification

from ...testbed.build import good_direction, good_flows, good_probe
from ..caricature import caricature
from .made import arguments, made

REASON = "the first figures, for the page"


def recorded(run: PlannedRun, folder: Path) -> None:
    """What the test bed leaves of a good run, with a made trace."""
    target, scenario = folder / RUNS / run.name, run.scenario
    target.mkdir(parents=True)
    trace = caricature(run.background, seconds=scenario.duration_s, rate_hz=scenario.probe.rate_hz, base_ms=scenario.path.rtt_ms, seed=1)
    manifest = {
        "scenario_digest": scenario_digest(scenario),
        "verdict": {"good": True, "faults": []},
        "emulator": {way: good_direction(packets_dropped_buffer=5) for way in ("ab", "ba")},
        "probe": good_probe(scenario),
        "flows": good_flows(scenario),
        "machine": {"kernel": "6.18", "cpus": 2},
        "versions": {"python": "3.11.7"},
    }
    (target / "manifest.json").write_text(json.dumps(manifest))
    rows = [f"{time_s:.6f},{'' if rtt_ms is None else f'{rtt_ms:.4f}'}" for time_s, rtt_ms in trace.rows()]
    (target / "trace.csv").write_text("\n".join(["send_time_s,rtt_ms", *rows]) + "\n")


def test_a_packed_plan_without_training_runs_gives_all_figures_once_it_is_opened(
    tmp_path: Path, log: Path, training: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = list_with(CLASSIFIER_2).of(CLASSIFIER_2).paths
    chosen = {next(name for name, path in paths.items() if (path.rate_bps > 100e6) is fast) for fast in (True, False)}
    of = specification(CLASSIFIER_2)
    plan = [run for run in plan_runs(of) if run.path_id in chosen and run.seed_name == "s0"]
    for run in plan:
        recorded(run, tmp_path / "recorded")
    pack(of, plan, tmp_path / "recorded", tmp_path / "packed")
    output = tmp_path / "out" / "classifier.json"
    wanted = arguments(tmp_path / "packed", output, "--train-data", str(training), "--incomplete", "--reason", REASON)
    assert BENCH.main(wanted) == 0
    (opening,) = json.loads(log.read_text())
    assert (opening["set"], opening["reason"], len(opening["measured"])) == (CLASSIFIER_2, REASON, 64)
    rows = {row["name"]: row for row in json.loads(output.read_text())}
    assert (rows["about"]["set"], rows["about"]["recordings"], rows["about"]["paths"]) == ("sealed", 12, 2)
    assert (rows["any_bbr_paths"]["target"], rows["any_bbr_paths_low"]["target"]) == (">= 0.97", ">= 0.95")
    assert rows["macro_f1_paths_fast"]["value"] is not None and rows["product_test_paths_fast_10s"]["paths"] == 1
    assert (rows["abstains_or_says_so_fair_queue"]["value"], rows["abstains_or_says_so_fair_queue"]["ok"]) == (None, False)
    assert rows["rival_1-NN DTW_test_paths"]["windows"] == 2 * len(CLASSES) * 3
    shown = capsys.readouterr().out
    assert "95 % of draws" in shown and " yes" in shown
    assert all(f"{name} " in shown for name in ("macro_f1_paths", "ece_paths", "any_bbr_paths_low"))


def test_the_products_figures_are_written_before_rivals_are_fitted(tmp_path: Path, training: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise RuntimeError("no fit")

    monkeypatch.setattr("fairlead_dev.bench.classifier.__main__.rivals.evaluate", fail)
    output = tmp_path / "classifier.json"
    with pytest.raises(RuntimeError):
        BENCH.main(arguments(made(tmp_path / "x", "test_paths", ["x"]), output, "--train-data", str(training)))
    rows = {row["name"]: row for row in json.loads(output.read_text())}
    assert rows["about"]["note"] == "without rivals" and rows["any_bbr_paths"]["value"] is not None


def test_recordings_with_a_fair_queue_count_by_whether_it_abstains_or_says_so(tmp_path: Path, training: Path) -> None:
    output = tmp_path / "classifier.json"
    data = made(tmp_path / "x", "test_paths", ["x"], queue="fq-codel")
    assert BENCH.main(arguments(data, output, "--train-data", str(training))) == 0
    rows = {row["name"]: row for row in json.loads(output.read_text())}
    assert rows["abstains_or_says_so_fair_queue"]["target"] == ">= 0.9" and 0 <= rows["abstains_or_says_so_fair_queue"]["value"] <= 1
    assert "any_bbr_paths" not in rows


@pytest.mark.parametrize(
    ("path", "more", "about", "message"),
    [
        (["sealed-f07"], ["--incomplete"], {}, "these paths are the sealed set 'classifier-2'"),
        (["sealed-f07"], ["--reason", REASON], {}, "of 40 sealed paths 39 lack a class"),
        (["sealed-f07"], ["--reason", REASON], {}, "`make dataset DATASET=sealed-2` goes on"),
        (["sealed-f07", "sealed-f08", "sealed-d1"], ["--reason", REASON, "--incomplete"], {}, "sealed-d1: sealed for something else"),
        (["sealed-d1"], ["--reason", REASON, "--incomplete"], {}, "sealed for something else"),
        (["sealed-f07"], ["--reason", REASON, "--incomplete"], {"faults": ["late"]}, "disturbed by the machine"),
        (["sealed-f07", "a"], ["--reason", REASON, "--incomplete"], {}, "names of paths in"),
        (["sealed-f07"], ["--reason", REASON, "--incomplete", "--output", "/proc/x/classifier.json"], {}, "cannot be made"),
        (["sealed-f07"], ["--reason", REASON, "--incomplete", "--train-data", "/nowhere"], {}, "no such directory"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_before_the_set_is_opened(
    tmp_path: Path,
    log: Path,
    training: Path,
    capsys: pytest.CaptureFixture[str],
    path: list[str],
    more: list[str],
    about: dict[str, Any],
    message: str,
) -> None:
    data, output = made(tmp_path / "x", "test_paths", path, **about), tmp_path / "classifier.json"
    assert BENCH.main(arguments(data, output, "--train-data", str(training), *more)) == 2
    assert message in capsys.readouterr().err
    assert (output.exists(), json.loads(log.read_text())) == (False, [])


def test_what_the_model_was_trained_on_is_no_test_of_it(tmp_path: Path, training: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learnt = find_model(None).metadata.trained_paths[0]
    data, output = made(tmp_path / "x", "test_paths", [learnt, "x"]), tmp_path / "classifier.json"
    assert BENCH.main(arguments(data, output, "--train-data", str(training))) == 2
    assert f"{learnt}: background-" in (told := capsys.readouterr().err) and "was trained on them" in told
    assert not output.exists()


def test_rivals_learn_from_a_sealed_set_once_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(inputs, "read_openings", lambda: [LoggedOpening("2026-11-29", "classifier", "classifier", REASON, "", "")])
    data, output = made(tmp_path / "x", "test_paths", ["x"]), tmp_path / "classifier.json"
    opened, sealed = made(tmp_path / "opened", "test_paths", ["sealed-c07"]), made(tmp_path / "sealed", "test_paths", ["sealed-d1"])
    learnt = ("--train-whole-data", str(opened))
    assert BENCH.main(arguments(data, output, *learnt, "--train-whole-data", str(sealed))) == 2
    assert "sealed-d1: sealed paths: nothing is trained on them" in capsys.readouterr().err
    assert BENCH.main(arguments(data, output, *learnt)) == 0
    rows = {row["name"]: row for row in json.loads(output.read_text())}
    assert rows["rival_1-NN DTW_test_paths"]["windows"] > 0
