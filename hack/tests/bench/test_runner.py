from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fairlead_advisor.errors import NoModelError
from fairlead_dev.bench.fairness.__main__ import BENCH as FAIRNESS
from fairlead_dev.bench.fairness.__main__ import PROPERTY_TESTS
from fairlead_dev.bench.mover.__main__ import BENCH as MOVER
from fairlead_dev.bench.mover.plan import GOALS, PARTS
from fairlead_dev.bench.rows import Goal, Row, RowStore, judged, line, not_available, write
from fairlead_dev.bench.runner import BenchCommand, PartsBench, choose
from fairlead_dev.checkout import BENCH_RESULTS, CHECKOUT
from fairlead_dev.errors import CommandUsageError, LabError


@pytest.mark.parametrize(
    ("row", "ok"),
    [
        (Row("memory_1", 20, "Gb/s", 25, 0.8), False),
        (Row("memory_1", 23, "Gb/s", 25, 0.92), True),
        (Row("rss_1m_files", 127, "MiB"), True),
        (Row("rss_1m_files", 129, "MiB"), False),
        (Row("switch_streams_lost", 0, "streams"), True),
        (Row("switch_streams_lost", 1, "streams"), False),
        (Row("cpu_s_per_gb_send", 0.7, "s/GB"), None),
        (not_available("disk_vs_rclone", "Gb/s", "no package"), False),
    ],
)
def test_a_row_is_held_against_its_goal(row: Row, ok: bool | None) -> None:
    (row,) = judged([row], GOALS)
    assert row.ok is ok
    assert {True: "yes", False: "NO", None: "-"}[ok] in line(row)


@pytest.mark.parametrize(
    ("goal", "figure", "margin"),
    [
        (Goal("at_least", 0.8), 0.4, 0.5),
        (Goal("at_most", 5), 2.5, 2.0),
        (Goal("at_most", 0), 3, None),
        (Goal("at_most", 5), 0, None),
        (Goal("at_least", 0.8), None, None),
        (Goal("within", 0.8, upper=1.25), 0.4, 0.5),
        (Goal("within", 0.8, upper=1.25), 2.5, 0.5),
        (Goal("within", 0.8, upper=1.25), 1.0, 1.25),
        (Goal("within", 0.8, upper=1.25), None, None),
    ],
)
def test_a_margin_above_one_is_better_than_the_goal(goal: Goal, figure: float | None, margin: float | None) -> None:
    assert goal.margin(figure) == margin


@pytest.mark.parametrize(("figure", "ok"), [(0.79, False), (0.8, True), (1.25, True), (1.26, False)])
def test_a_goal_of_two_sides_is_reached_between_them(figure: float, ok: bool) -> None:
    goal = Goal("within", 0.8, "value", upper=1.25)
    row = Row("share", figure, "", goal=goal)
    assert (row.ok, row.to_json()["target"], str(goal)) == (ok, "0.8..1.25", "0.8..1.25")


def test_what_is_not_there_has_no_figure_but_a_reason(tmp_path: Path) -> None:
    write([not_available("disk_vs_rclone", "Gb/s", "rclone is missing")], tmp_path / "out" / "mover.json")
    (row,) = json.loads((tmp_path / "out" / "mover.json").read_text())
    assert row["value"] is None
    assert row["ratio"] is None
    assert "rclone is missing" in row["note"]


def test_the_file_has_the_agreed_keys(tmp_path: Path) -> None:
    write([Row("memory_1", 23.0, "Gb/s", 25.0, 0.92, more={"runs": [22.0, 23.0]})], tmp_path / "mover.json")
    (row,) = json.loads((tmp_path / "mover.json").read_text())
    assert {"name", "value", "unit", "reference", "ratio"} <= row.keys()
    assert row["runs"] == [22.0, 23.0]


def test_an_interrupted_run_keeps_its_rows_for_the_same_program_only(tmp_path: Path) -> None:
    path = tmp_path / "state"
    rows = [Row("rss_64_streams", 30.5, "MiB", note="n", more={"send": 20.0})]
    RowStore(path, {"mover": "a"}).put("streams", rows)
    assert RowStore(path, {"mover": "a"}).get("streams") == rows
    assert RowStore(path, {"mover": "a"}).get("files") is None
    assert RowStore(path, {"mover": "b"}).get("streams") is None
    path.write_text("{torn")
    assert RowStore(path, {"mover": "a"}).get("streams") is None


@pytest.mark.parametrize("bench", [MOVER, FAIRNESS], ids=lambda bench: bench.name)
def test_every_goal_is_a_row_of_one_part(bench: PartsBench[Any]) -> None:
    rows = [row for part in bench.parts for row in part.rows]
    assert len(rows) == len(set(rows))
    assert bench.goals.keys() <= set(rows)


def test_parts_are_chosen_by_their_name_or_a_row() -> None:
    assert [part.name for part in choose(PARTS, ["disk_4gib", "memory"])] == ["memory", "disk"]
    assert [part for part in PARTS if part not in choose(PARTS, [])] == choose(PARTS, ["before"])
    with pytest.raises(CommandUsageError, match="nonsense"):
        choose(PARTS, ["nonsense"])


def command(run: Callable[[argparse.Namespace], int]) -> BenchCommand:
    def add_options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--quick", action="store_true")

    return BenchCommand("one", "", add_options, run, is_partial=lambda options: bool(options.quick))


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ((), BENCH_RESULTS / "one.json"),
        (("--quick",), BENCH_RESULTS / "one-partial.json"),
        (("--quick", "--output", "/elsewhere.json"), Path("/elsewhere.json")),
    ],
)
def test_a_partial_run_leaves_the_file_of_a_whole_one_alone(arguments: Sequence[str], output: Path) -> None:
    written: list[Path] = []
    assert command(lambda options: written.append(options.output) or 0).main(arguments) == 0
    assert written == [output]


@pytest.mark.parametrize("error", [CommandUsageError("no such part"), LabError("no room"), NoModelError("no model")])
def test_an_error_ends_a_bench_with_its_code_after_a_line_with_the_benchs_name(
    error: LabError | CommandUsageError | NoModelError, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_options: argparse.Namespace) -> int:
        raise error

    assert command(fail).main([]) == error.exit_code
    assert capsys.readouterr().err == f"bench-one: {error}\n"


def test_the_property_tests_that_the_fairness_bench_runs_exist() -> None:
    assert (CHECKOUT / PROPERTY_TESTS).is_file()
