"""A few of the plans of `make faults`, one of each family, as part of the suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from control_plane import ControlPlane
from lab import Lab

from faults.bed import Bed
from faults.places import bed_of
from faults.plans import read_plan
from faults.runs import clear, run
from faults.workloads import WORKLOADS

pytestmark = pytest.mark.asyncio

PLANS = (
    "create/killed-unanswered@CREATE pods job-receiver-1#1",
    "create/504-applied@PATCH transferjobs/status job#1",
    "create/truncated@MODIFIED pods job-receiver-1#2",
    "create/dropped@MODIFIED pods job-sender-1#4",
)


@pytest.fixture
async def bed(lab: Lab, control_plane: ControlPlane, admin_kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Bed]:
    async with bed_of(control_plane, admin_kubeconfig, lab.namespace, tmp_path) as made:
        yield made
        await clear(made)


@pytest.mark.long
async def test_a_job_ends_as_it_does_without_a_fault(bed: Bed) -> None:
    workload = WORKLOADS["create"]
    usual = await run(bed, workload)
    assert usual.problems == ()
    for text in PLANS:
        outcome = await run(bed, workload, read_plan(text), usual.trace)
        assert outcome.problems == (), f"{text}\n{outcome.log.read_text()}"
        assert outcome.reached, f"{text} is no point of {sorted(set(usual.trace.seen))}"
