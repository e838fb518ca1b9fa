"""The classifier's bench on recordings of another emulator and behind fair queues."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead_advisor.assess.metrics import Scores
from fairlead_dev.bench.classifier.__main__ import BENCH
from fairlead_dev.bench.classifier.product import FAIR_QUEUE, intervals

from .made import arguments, made

NONE, CUBIC = 0, 1
OTHER, FAIR = "--other-emulator-data", "--fair-queue-data"


def rows_of(output: Path) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(output.read_text())}


def test_other_sets_have_rows_of_their_own_with_intervals_and_change_no_other_row(tmp_path: Path, training: Path) -> None:
    data = made(tmp_path / "x", "test_paths", ["x"])
    other = made(tmp_path / "other", "test_paths", ["k0", "k1"], emulator="kernel")
    fair = made(tmp_path / "fair", "test_paths", ["q0", "q1"], queue="fq-codel")
    alone, both = tmp_path / "alone.json", tmp_path / "both.json"
    assert BENCH.main(arguments(data, alone, "--train-data", str(training))) == 0
    assert BENCH.main(arguments(data, both, "--train-data", str(training), OTHER, str(other), FAIR, str(fair))) == 0
    without, rows = rows_of(alone), rows_of(both)
    goals = {
        "any_bbr_other_emulator": ">= 0.96",
        "macro_f1_other_emulator": ">= 0.82",
        "ece_other_emulator": "<= 0.06",
        "abstains_or_says_so_fair_queue": ">= 0.9",
    }
    for name, target in goals.items():
        assert rows[name]["target"] == target and 0 <= rows[name]["value"] <= 1
        low, high = rows[name]["interval_95"]
        assert 0 <= low <= high <= 1
        assert (without[name]["value"], without[name]["ok"]) == (None, False)
    assert OTHER in without["macro_f1_other_emulator"]["note"] and FAIR in without["abstains_or_says_so_fair_queue"]["note"]
    for name in ("abstains_fair_queue", "answers_none_fair_queue", "none_to_traffic_fair_queue"):
        assert "target" not in rows[name] and "interval_95" in rows[name] and name not in without
    assert (rows["abstains_fair_queue"]["windows"], rows["abstains_fair_queue"]["paths"]) == (2 * 6 * 2, 2)
    assert rows["product_other_emulator_10s"]["paths"] == 2
    assert (len(rows["about"]["other_emulator_data"]), len(rows["about"]["fair_queue_data"])) == (12, 12)
    timed = {"about", "inference_ms", "features_ms", *goals}
    assert {name: row for name, row in without.items() if name not in timed}.items() <= rows.items()


@pytest.mark.parametrize(
    ("flag", "paths", "about", "message"),
    [
        pytest.param(OTHER, ["k0"], {}, "on `fairlead-wan`, or on what its line does not say", id="emulator not told"),
        pytest.param(OTHER, ["k0"], {"emulator": "fairlead-wan"}, "recorded on `fairlead-wan`", id="the same emulator"),
        pytest.param(FAIR, ["q0"], {"queue": "codel"}, "recorded behind another queue than a fair one", id="no fair queue"),
        pytest.param(OTHER, ["a"], {"emulator": "kernel"}, "a: names of paths that are trained on", id="a path trained on"),
        pytest.param(OTHER, ["sealed-c07"], {"emulator": "kernel"}, "sealed paths, which are looked at with --data alone", id="sealed"),
        pytest.param(FAIR, ["q0"], {"queue": "fq-codel", "faults": ["late"]}, "disturbed by the machine", id="disturbed"),
    ],
)
def test_sets_that_would_give_a_row_another_meaning_are_refused(
    tmp_path: Path, training: Path, capsys: pytest.CaptureFixture[str], flag: str, paths: list[str], about: dict[str, Any], message: str
) -> None:
    data, output = made(tmp_path / "x", "test_paths", ["x"]), tmp_path / "classifier.json"
    beside = made(tmp_path / "beside", "test_paths", paths, **about)
    assert BENCH.main(arguments(data, output, "--train-data", str(training), flag, str(beside))) == 2
    assert message in capsys.readouterr().err
    assert not output.exists()


def test_a_set_without_test_runs_is_refused(tmp_path: Path, training: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, output = made(tmp_path / "x", "test_paths", ["x"]), tmp_path / "classifier.json"
    assert BENCH.main(arguments(data, output, "--train-data", str(training), OTHER, str(training))) == 2
    assert "has no run of test_seeds" in capsys.readouterr().err


def scores(*windows: tuple[int, int, bool]) -> Scores:
    """Windows by their true class, the one answered, and whether it is relied on."""
    truth, said, relied_on = (np.array(column) for column in zip(*windows, strict=True))
    return Scores(np.eye(6)[said], truth, relied_on)


def figures(of: Scores) -> dict[str, float | None]:
    return {name: figure(of) for name, figure in FAIR_QUEUE.items()}


def test_behind_a_fair_queue_an_answer_that_is_abstained_from_is_none() -> None:
    windows = scores((CUBIC, NONE, True), (CUBIC, CUBIC, False), (NONE, CUBIC, True), (NONE, CUBIC, False), (NONE, NONE, True))
    assert figures(windows) == {"abstains": 2 / 5, "answers_none": 2 / 5, "none_to_traffic": 1 / 3}
    assert figures(scores((CUBIC, NONE, True)))["none_to_traffic"] is None


def test_shares_behind_fair_queues_have_intervals_over_paths() -> None:
    paths = [scores((CUBIC, NONE, bool(number % 2)), (NONE, NONE, True)) for number in range(6)]
    found = intervals(paths, FAIR_QUEUE)
    low, high = found["abstains"] or (1.0, 0.0)
    assert low < 0.25 < high
    assert found["none_to_traffic"] == (0.0, 0.0)
