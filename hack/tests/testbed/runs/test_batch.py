import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from fairlead_dev.errors import CommandUsageError, LabError
from fairlead_dev.testbed.dataset.plan import PlannedRun, plan_runs
from fairlead_dev.testbed.runs.batch import ATTEMPTS, RUNS, BatchRules, BatchState, generate, is_recorded
from fairlead_dev.testbed.runs.packing import Budget
from fairlead_dev.testbed.runs.quality import QualityVerdict
from fairlead_dev.testbed.runs.record import scenario_digest

from ..build import specification

PLAN = plan_runs(specification())[:24]
RULES = BatchRules(Budget(cores=1.5, runs=4))


class Recorder:
    """Writes the manifests that a machine would, disturbed as told."""

    def __init__(self, disturbed_times: dict[str, int] | None = None, broken: frozenset[str] = frozenset()) -> None:
        self.disturbed_times = disturbed_times or {}
        self.broken = broken
        self.calls: Counter[str] = Counter()
        self.numbers: list[int] = []
        self.side_by_side = 0
        self.most_side_by_side = 0

    async def __call__(self, run: PlannedRun, folder: Path, number: int) -> QualityVerdict:
        self.calls[run.name] += 1
        self.numbers.append(number)
        self.side_by_side += 1
        self.most_side_by_side = max(self.most_side_by_side, self.side_by_side)
        await asyncio.sleep(0)
        self.side_by_side -= 1
        if run.name in self.broken:
            raise LabError("the emulator did not start")
        faults = ("the machine was busy",) if self.calls[run.name] <= self.disturbed_times.get(run.name, 0) else ()
        write_manifest(run, folder, faults)
        return QualityVerdict(faults)


def write_manifest(run: PlannedRun, folder: Path, faults: tuple[str, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {"verdict": {"good": not faults, "faults": faults}, "scenario_digest": scenario_digest(run.scenario)}
    (folder / "manifest.json").write_text(json.dumps(manifest))


async def generated(folder: Path, recorder: Recorder, rules: BatchRules = RULES) -> BatchState:
    return await generate(PLAN, folder, recorder, rules, lambda _state: None)


async def test_every_run_is_recorded_once_and_none_beyond_the_limit_at_a_time(tmp_path: Path) -> None:
    recorder = Recorder()
    state = await generated(tmp_path, recorder)
    assert (state.done, state.waiting, state.given_up) == (24, [], {})
    assert set(recorder.calls.values()) == {1}
    assert len(set(recorder.numbers)) == 24
    assert recorder.most_side_by_side == 4


async def test_what_is_there_is_kept(tmp_path: Path) -> None:
    await generated(tmp_path, Recorder())
    again = Recorder()
    state = await generated(tmp_path, again)
    assert state.done == 24
    assert not again.calls


async def test_a_recording_of_another_scenario_is_made_again(tmp_path: Path) -> None:
    await generated(tmp_path, Recorder())
    manifest = tmp_path / RUNS / PLAN[3].name / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "scenario_digest": "other"}))
    (tmp_path / RUNS / PLAN[5].name / "manifest.json").write_text("{ half a fi")
    again = Recorder()
    await generated(tmp_path, again)
    assert set(again.calls) == {PLAN[3].name, PLAN[5].name}


async def test_a_disturbed_run_is_repeated(tmp_path: Path) -> None:
    recorder = Recorder({PLAN[0].name: 2})
    state = await generated(tmp_path, recorder)
    assert recorder.calls[PLAN[0].name] == 3
    assert (state.done, state.given_up) == (24, {})
    log = [json.loads(line) for line in (tmp_path / ATTEMPTS).read_text().splitlines()]
    assert [entry["good"] for entry in log if entry["run"] == PLAN[0].name] == [False, False, True]


async def test_a_run_that_stays_disturbed_is_given_up_and_nothing_of_it_kept(tmp_path: Path) -> None:
    recorder = Recorder({PLAN[0].name: 9})
    state = await generated(tmp_path, recorder)
    assert recorder.calls[PLAN[0].name] == 3
    assert state.given_up == {PLAN[0].name: "the machine was busy"}
    assert not (tmp_path / RUNS / PLAN[0].name).exists()


async def test_disturbed_runs_are_kept_only_when_asked_for_and_never_count_as_good(tmp_path: Path) -> None:
    rules = BatchRules(RULES.budget, keep_disturbed=True)
    await generated(tmp_path, Recorder({PLAN[0].name: 9}), rules)
    assert is_recorded(PLAN[0], tmp_path, disturbed_too=True)
    assert not is_recorded(PLAN[0], tmp_path)
    again = Recorder()
    await generated(tmp_path, again)
    assert set(again.calls) == {PLAN[0].name}


async def test_a_run_that_could_not_be_run_is_repeated_too(tmp_path: Path) -> None:
    recorder = Recorder(broken=frozenset({PLAN[1].name}))
    state = await generated(tmp_path, recorder)
    assert recorder.calls[PLAN[1].name] == 3
    assert state.given_up == {PLAN[1].name: "the emulator did not start"}


async def test_nothing_is_started_that_would_not_end_in_time(tmp_path: Path) -> None:
    recorder = Recorder()
    state = await generated(tmp_path, recorder, BatchRules(RULES.budget, stop_after_s=10))
    assert not recorder.calls
    assert state.out_of_time
    assert len(state.waiting) == 24


async def test_two_generations_do_not_work_on_one_folder(tmp_path: Path) -> None:
    class Meddler(Recorder):
        async def __call__(self, run: PlannedRun, folder: Path, number: int) -> QualityVerdict:
            if not self.calls:
                with pytest.raises(CommandUsageError, match="another generation"):
                    await generated(tmp_path, Recorder())
            return await super().__call__(run, folder, number)

    state = await generated(tmp_path, Meddler())
    assert state.done == 24


async def test_what_a_killed_generation_left_half_written_is_removed(tmp_path: Path) -> None:
    leftover = tmp_path / RUNS / ".p00__B0-C0__s0.x1y2"
    leftover.mkdir(parents=True)
    await generated(tmp_path, Recorder())
    assert not leftover.exists()
