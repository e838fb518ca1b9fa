"""Which runs are made again, and what the file says of them."""

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fairlead_dev.bench.shares import __main__ as main
from fairlead_dev.bench.shares.plan import DEVELOPMENT_SEED, OPENED_SEEDS, SCENES, ShareRun
from fairlead_dev.checkout import CHECKOUT

Measure = Callable[[ShareRun, threading.Event], dict[str, Any]]


class Digests:
    """In place of those of real programs."""

    programs: ClassVar[dict[str, str]] = {"fairlead-mover": "m" * 64, "fairlead-wan": "w" * 64}
    advisor = "a" * 64

    def of(self, run: ShareRun) -> str:
        return f"{self.programs} {run}"


def good(run: ShareRun, _stop: threading.Event, faults: tuple[str, ...] = ()) -> dict[str, Any]:
    direction = {"write_lateness_us": {"p50": 10.0, "p99": 100.0, "max": 900.0}}
    jobs = [{"mbps": 10.0, "controls": ["cubic"]}] * run.jobs
    seconds = range(int(SCENES[run.scene].seconds))
    samples = [{"time_s": second + 1.0, "own_mbps": 10.0 * run.jobs, "all_mbps": 21.0, "jobs": jobs} for second in seconds]
    verdict = {"good": not faults, "faults": list(faults)}
    return {"samples": samples, "emulator": {"ab": direction, "ba": direction}, "busy_share": 0.5, "verdict": verdict}


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, list[str], dict[str, Any]]]:
    """Runs the bench with a measurement in place of a real one: its exit code, the runs that it made, its rows."""
    monkeypatch.setattr(main, "missing", lambda: None)
    monkeypatch.setattr(main, "remove_leftovers", lambda: None)
    monkeypatch.setattr(main, "Digests", Digests)
    monkeypatch.setattr(main, "description", lambda: "a machine")

    def go(*arguments: str, measure: Measure = good) -> tuple[int, list[str], dict[str, Any]]:
        made: list[str] = []

        def noted(run: ShareRun, stop: threading.Event) -> dict[str, Any]:
            made.append(run.name)
            return measure(run, stop)

        monkeypatch.setattr(main, "measure", noted)
        output = tmp_path / "shares.json"
        settings = ("--paths", "1", "--repeats", "1", "--folder", str(tmp_path / "runs"), "--output", str(output))
        scenes = () if "--seed" in arguments else ("--scene", "cubic")
        output.unlink(missing_ok=True)
        code = main.BENCH.main([*settings, *scenes, *arguments])
        rows = {row["name"]: row for row in json.loads(output.read_text())} if output.exists() else {}
        return code, made, rows

    return go


def test_what_is_there_is_kept_and_other_programs_make_it_again(
    bench: Callable[..., tuple[int, list[str], dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, made, rows = bench()
    assert (code, len(made), "jain_ours_default_cubic" in rows) == (0, len(set(made)), True)
    assert bench()[1] == []
    monkeypatch.setattr(Digests, "programs", {**Digests.programs, "fairlead-mover": "n" * 64})
    assert sorted(bench()[1]) == sorted(made)


def test_runs_of_several_machines_are_told_apart_and_kept(
    bench: Callable[..., tuple[int, list[str], dict[str, Any]]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code, made, _ = bench("--minutes", "10")
    (tmp_path / "runs" / f"{made[0]}.json.gz").write_bytes(b"cut off")
    monkeypatch.setattr(main, "description", lambda: "another machine")
    code, again, rows = bench()
    assert (code, again, rows["about"]["machines"]) == (0, made[:1], {"a machine": 2, "another machine": 1})


def test_a_disturbed_run_is_repeated_and_one_that_stays_so_is_in_no_figure(
    bench: Callable[..., tuple[int, list[str], dict[str, Any]]],
) -> None:
    def disturbed(run: ShareRun, stop: threading.Event) -> dict[str, Any]:
        return good(run, stop, ("ab: late",) if run.fixed is None else ())

    code, made, rows = bench(measure=disturbed)
    ours = [name for name in made if "__ours__" in name]
    assert (code, len(ours), len(set(ours))) == (1, main.ATTEMPTS, 1)
    assert rows["about"]["disturbed"] == {ours[0]: ["ab: late"]}
    assert (rows["about"]["runs_in_complete_blocks"], "jain_ours_default_cubic" in rows) == (0, False)
    code, made, rows = bench()
    assert (code, made, rows["about"]["disturbed"]) == (0, ours[:1], {})


def test_the_file_says_what_it_is_of(bench: Callable[..., tuple[int, list[str], dict[str, Any]]]) -> None:
    about = bench()[2]["about"]
    assert (about["set"], about["seed"], about["mover"], about["machines"]) == ("development", DEVELOPMENT_SEED, "m" * 12, {"a machine": 3})
    assert {"date", "commit", "wan", "advisor", "paths"} <= about.keys()
    assert bench("--seed", str(DEVELOPMENT_SEED))[2]["about"]["set"] == "development"
    about = bench("--seed", "7", "--reason", "the figures of the page")[2]["about"]
    assert (about["set"], about["reason"]) == ("sealed", "the figures of the page")


def test_nothing_is_shown_of_new_paths_before_all_is_measured(
    bench: Callable[..., tuple[int, list[str], dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    new = ("--seed", "7", "--reason", "the figures of the page")
    code, made, rows = bench(*new, "--scene", "two")
    assert (code, len(made), rows) == (1, 1, {})
    shown = capsys.readouterr().out
    assert "1 of " in shown and "jain" not in shown
    code, made, rows = bench(*new)
    assert (code, rows["about"]["set"], rows["jain_own_two"]["value"], "bystander_harm_worst" in rows) == (0, "sealed", 1.0, True)
    assert not any("__two__" in name for name in made)


def test_paths_that_nobody_has_looked_at_need_a_reason(
    bench: Callable[..., tuple[int, list[str], dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("--seed", "7")[:2] == (2, [])
    assert "--reason" in capsys.readouterr().err


def test_the_seeds_that_were_opened_are_those_of_the_page() -> None:
    page = (CHECKOUT / "docs" / "explanation" / "decisions-bench.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \d{4}-\d\d-\d\d \| (\d+)", page.partition("**Openings of drawn paths.**")[2], re.MULTILINE)
    assert {int(seed) for seed in listed} == OPENED_SEEDS
