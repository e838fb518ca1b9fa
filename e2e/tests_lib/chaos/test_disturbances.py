"""What the sets of disturbances name."""

from __future__ import annotations

import pytest
from e2e.chaos.disturbances import DEVICE, DISTURBANCES, LIMITED_DISK, OF_ONE_JOB


@pytest.mark.parametrize("names", [DEVICE, LIMITED_DISK, OF_ONE_JOB])
def test_a_set_names_disturbances_only(names: frozenset[str]) -> None:
    assert names <= DISTURBANCES.keys()


@pytest.mark.parametrize("name", ["operator-killed", "link-cut", "api-server-frozen", "source-power-cut"])
def test_what_others_would_meet_is_of_no_one_job(name: str) -> None:
    assert name in DISTURBANCES
    assert name not in OF_ONE_JOB
