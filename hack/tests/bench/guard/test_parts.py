from __future__ import annotations

import pytest

from fairlead.guard.senders import JobRef, read_sender
from fairlead_dev.bench.guard.node import JOB_UID, sender
from fairlead_dev.bench.guard.parts import CAP_BPS, GOALS, PARTS, shares
from fairlead_dev.bench.lab.rates import InterfaceSample


def test_a_burst_across_two_seconds_counts_though_neither_is_over_the_cap() -> None:
    second_bytes = CAP_BPS // 8
    samples = [InterfaceSample(number * 0.01, _sent(number * 0.01, second_bytes)) for number in range(401)]
    whole, worst = shares(samples, 4.0)
    assert whole == [pytest.approx(share, abs=0.01) for share in (0.5, 1.0, 1.0, 0.5)]
    assert worst == pytest.approx(1.5, rel=0.02)


def _sent(time_s: float, second_bytes: int) -> int:
    """Half of the cap, with as much again in the half seconds before and after 2 s."""
    return int(second_bytes * (0.5 * time_s + min(max(time_s - 1.5, 0.0), 1.0)))


def test_the_guard_knows_the_benchs_pod() -> None:
    found = read_sender(sender("98b2a419-b64a-4316-952f-c12db992268f", "198.18.0.2:24000", "100M"))
    assert found is not None
    assert found.job == JobRef("bench", "job", JOB_UID)
    assert found.annotated_bps == CAP_BPS


def test_every_goal_is_of_a_row() -> None:
    assert set(GOALS) <= {row for part in PARTS for row in part.rows}
