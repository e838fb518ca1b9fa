"""Networks in which links depend on each other in large circles."""

from __future__ import annotations

import math
import random

import pytest
from allocation_reference import Shares, jobs_that_could_take_more

from fairlead.core.allocation import AllocationJob, AllocationLink, AllocationTenant, allocate, balance, solver

Network = tuple[list[AllocationLink], list[AllocationTenant], list[AllocationJob]]


def dense(seed: int, *, jobs: int = 120, links: int = 40, tenants: int = 12, hops: int = 8) -> Network:
    """Jobs over many links each, the links drawn at random."""
    chance = random.Random(seed)
    names = [f"link-{n}" for n in range(links)]
    return (
        [AllocationLink(name, chance.choice([1.0, 2.5, 10.0])) for name in names],
        [AllocationTenant(f"tenant-{n}", chance.choice([1, 2, 4])) for n in range(tenants)],
        [
            AllocationJob(
                name=f"job-{n}",
                tenant=f"tenant-{chance.randrange(tenants)}",
                links=tuple(chance.sample(names, hops)),
                weight=chance.choice([50, 100, 200]),
                limit_bps=chance.choice([math.inf, math.inf, 0.05]),
            )
            for n in range(jobs)
        ],
    )


@pytest.mark.parametrize("seed", range(6))
def test_dense_networks_get_rates_that_obey_the_rule(seed: int) -> None:
    network = dense(seed)
    allocation = allocate(*network)
    assert allocation.approximated == 0
    assert jobs_that_could_take_more(Shares.of(*network, allocation), 1e-7) == []


@pytest.mark.parametrize("seed", range(3))
def test_large_circles_are_averaged_and_agree_with_the_rule_too(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance, "_LARGEST_SYSTEM", 0)
    network = dense(seed)
    allocation = allocate(*network)
    assert allocation.approximated == 0
    assert jobs_that_could_take_more(Shares.of(*network, allocation), 1e-7) == []


def test_a_thousand_jobs_over_eight_links_each_are_not_approximated() -> None:
    allocation = allocate(*dense(0, jobs=1000, links=200, tenants=100))
    assert allocation.approximated == 0


@pytest.mark.parametrize("seed", range(3))
def test_without_a_balance_rates_stay_within_every_link_and_the_number_of_jobs_is_told(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "balanced_rates", lambda *_: None)
    links, tenants, jobs = dense(seed)
    allocation = allocate(links, tenants, jobs)
    assert allocation.approximated > 0
    for link in links:
        assert allocation.links[link.name].allocated_bps <= link.available_bps * (1 + 1e-9)
    assert all(0.0 <= allocation.jobs[job.name] <= job.ceiling_bps for job in jobs)
