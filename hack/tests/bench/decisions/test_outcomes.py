import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead_dev.bench.decisions.matrix import Policy
from fairlead_dev.bench.decisions.outcomes import machines, read_outcomes
from fairlead_dev.bench.decisions.timeline import ControlSpan
from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.runs.batch import RUNS, BatchRules, BatchState, generate
from fairlead_dev.testbed.runs.packing import Budget
from fairlead_dev.testbed.runs.quality import QualityVerdict
from fairlead_dev.testbed.runs.record import MANIFEST

from .made import cell, manifest, outcome

CELLS = [cell("B1-C0"), cell("B0-C1")]


def leave(folder: Path, of: Any, content: Any) -> None:
    file = folder / RUNS / of.name / MANIFEST
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(content))


def test_only_good_runs_of_the_same_programs_count(tmp_path: Path) -> None:
    leave(tmp_path, CELLS[0], manifest(CELLS[0]))
    leave(tmp_path, CELLS[1], manifest(CELLS[1], "the machine was busy"))
    (found,) = read_outcomes(CELLS, tmp_path)
    assert (found.own_bps, found.own_settled_bps, found.flows_bps, found.flows_settled_bps) == (5e6, 6e6, (7e6,), (8e6,))
    assert found.in_force == (ControlSpan("bbr", 10, 200),)
    assert len(list(read_outcomes(CELLS, tmp_path, disturbed_too=True))) == 2
    assert list(read_outcomes([cell("B1-C0", fingerprint="e" * 64)], tmp_path)) == []


def test_every_machine_is_told_with_its_runs_and_its_speed() -> None:
    made = [
        replace(outcome("B1-C0", Policy.OURS, 1.0, number=number), machine=name, squares_s=taken_s)
        for number, (name, taken_s) in enumerate((("a", 0.06), ("b", 0.09), ("a", 0.05)))
    ]
    assert machines(made) == [
        {"machine": "a", "runs": 2, "squares_s": [0.05, 0.06]},
        {"machine": "b", "runs": 1, "squares_s": [0.09, 0.09]},
    ]


def test_a_damaged_manifest_is_named_with_its_remedy(tmp_path: Path) -> None:
    leave(tmp_path, CELLS[0], {**manifest(CELLS[0]), "own": {}})
    with pytest.raises(CommandUsageError, match=rf"{CELLS[0].name}.*measure it again"):
        list(read_outcomes(CELLS[:1], tmp_path))


async def test_a_second_call_runs_what_is_missing_and_what_other_programs_made(tmp_path: Path) -> None:
    ran: list[str] = []

    async def recorder(run: Any, folder: Path, _number: int) -> QualityVerdict:
        ran.append(run.name)
        shutil.rmtree(folder, ignore_errors=True)
        leave(tmp_path, run, manifest(run))
        return QualityVerdict(())

    def silent(_state: BatchState) -> None:
        return

    rules = BatchRules(Budget(cores=1.5, runs=4))
    await generate(CELLS, tmp_path, recorder, rules, silent)
    assert sorted(ran) == sorted(one.name for one in CELLS)
    ran.clear()
    renewed = cell("B0-C1", fingerprint="e" * 64)
    state = await generate([CELLS[0], renewed], tmp_path, recorder, rules, silent)
    assert ran == [renewed.name]
    assert state.done == 2
