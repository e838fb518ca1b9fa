"""A few of the transitions of `make fuzz-spec`, by seed, as part of the suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from control_plane import ControlPlane
from faults.bed import Bed
from faults.places import bed_of
from faults.runs import clear
from lab import Lab

from fuzz.scenes import SCENES
from fuzz.transitions import sample
from fuzz.workers import Performer

pytestmark = pytest.mark.asyncio

SEED = 7
ALLOWED, FORBIDDEN = 4, 12


@pytest.fixture
async def bed(lab: Lab, control_plane: ControlPlane, admin_kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Bed]:
    async with bed_of(control_plane, admin_kubeconfig, lab.namespace, tmp_path) as made:
        yield made
        await clear(made)


@pytest.mark.parametrize("scene", ["job-live", "job-new"])
async def test_a_field_that_took_an_odd_value_leaves_nothing_behind(bed: Bed, scene: str) -> None:
    drawn = sample(SCENES[scene].transitions, SEED, None)
    chosen = [
        *[each for each in drawn if not each.is_allowed][:FORBIDDEN],
        *[each for each in drawn if each.is_allowed][:ALLOWED],
    ]
    performer = Performer(bed)
    try:
        verdicts = [verdict async for verdict in performer.perform(chosen)]
    finally:
        await performer.close()
    assert [(verdict.transition, verdict.problems, verdict.log) for verdict in verdicts if verdict.is_stuck] == []
    assert len(verdicts) == len(chosen)
