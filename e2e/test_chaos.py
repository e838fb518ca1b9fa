"""A dozen rounds of `make chaos`: each disturbance that no other job meets, beside the other tests."""

from __future__ import annotations

import pytest

from e2e.chaos.disturbances import DISTURBANCES, OF_ONE_JOB, destination_disk
from e2e.chaos.rounds import Round, drawn
from e2e.chaos.transfer import disturbed
from e2e.chaos.verdict import MISSED
from e2e.lib.lab import Lab
from fairlead_dev.cluster.client import LocalCluster

SEED = 1
ROUNDS = [each for each in drawn(SEED, len(DISTURBANCES), list(DISTURBANCES)) if each.disturbance in OF_ONE_JOB]


def disk_marks(disturbance: str) -> list[pytest.MarkDecorator]:
    """The destination's disk that a disturbance needs."""
    disk = destination_disk(disturbance)
    return [] if disk.size is None else [pytest.mark.destination_size(disk.size, on_device=disk.on_device)]


@pytest.mark.long(50)
@pytest.mark.parametrize("chaos", [pytest.param(each, id=each.disturbance, marks=disk_marks(each.disturbance)) for each in ROUNDS])
def test_a_transfer_that_is_disturbed_ends_as_it_may(chaos: Round, lab: Lab, cluster: LocalCluster) -> None:
    if chaos.disturbance == "disk-slow" and not cluster.can_slow_disks():
        pytest.skip("this machine's kernel cannot slow a disk")
    verdict = disturbed(chaos, lab, cluster)
    assert not verdict.problem, f"{verdict.problem}: {verdict.detail}"
    if verdict.missed:
        pytest.skip(MISSED)
