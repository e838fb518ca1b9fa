"""The rule for fair shares, case by case, with rates worked out by hand."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import pytest
from allocation_reference import Shares, jobs_that_could_take_more

from fairlead.core.allocation import AllocationJob, AllocationLink, AllocationTenant, allocate, jain_index


@dataclass(frozen=True)
class Case:
    name: str
    links: list[AllocationLink]
    tenants: list[AllocationTenant]
    jobs: list[AllocationJob]
    expected: dict[str, float]
    guarantee_ratios: dict[str, float] = field(default_factory=dict)
    """Of links and tenants, by name; 1 for those that are not named."""


ONE = [AllocationLink("wan", 100)]
A, B = AllocationTenant("a"), AllocationTenant("b")


def job(name: str, tenant: str = "a", links: str = "wan", **options: float) -> AllocationJob:
    return AllocationJob(name, tenant, tuple(links.split()), **options)


CASES = [
    Case("weights 1:2:4", ONE, [A], [job("x"), job("y", weight=2), job("z", weight=4)], {"x": 100 / 7, "y": 200 / 7, "z": 400 / 7}),
    Case("headroom is left alone", [AllocationLink("wan", 100, 20)], [A], [job("x")], {"x": 80}),
    Case(
        "many jobs do not make a tenant bigger",
        ONE,
        [A, B],
        [job("x"), job("y"), job("z"), job("other", "b")],
        {"x": 50 / 3, "y": 50 / 3, "z": 50 / 3, "other": 50},
    ),
    Case(
        "what a job leaves goes to its own tenant's jobs first",
        ONE,
        [A, B],
        [job("x", demand_bps=10), job("y"), job("other", "b")],
        {"x": 10, "y": 40, "other": 50},
    ),
    Case(
        "what a tenant leaves goes to the other tenants",
        ONE,
        [A, B],
        [job("x", demand_bps=10), job("other", "b")],
        {"x": 10, "other": 90},
    ),
    Case("everyone gets the demand if all fits", ONE, [A, B], [job("x", demand_bps=30), job("y", "b", limit_bps=20)], {"x": 30, "y": 20}),
    Case("a guarantee lifts above the level in its tenant", ONE, [A], [job("x", guarantee_bps=70), job("y")], {"x": 70, "y": 30}),
    Case(
        "a guarantee comes out of its own tenant's share",
        ONE,
        [A, B],
        [job("x", guarantee_bps=40), job("y"), job("z", "b")],
        {"x": 40, "y": 10, "z": 50},
    ),
    Case(
        "a guarantee above its tenant's share is cut to that",
        ONE,
        [A, B],
        [job("x", guarantee_bps=80), job("y", guarantee_bps=20), job("z", "b")],
        {"x": 40, "y": 10, "z": 50},
        {"a": 0.5},
    ),
    Case(
        "a tenant's guarantee is what its jobs' guarantees come out of",
        ONE,
        [AllocationTenant("a", guarantee_bps=80), B],
        [job("x", guarantee_bps=60), job("y"), job("z", "b")],
        {"x": 60, "y": 20, "z": 20},
    ),
    Case(
        "what another tenant cannot use is there for guarantees",
        ONE,
        [A, B],
        [job("x", guarantee_bps=80), job("y"), job("z", "b", demand_bps=5)],
        {"x": 80, "y": 15, "z": 5},
    ),
    Case(
        "five hundred jobs with guarantees that never start take next to nothing",
        ONE,
        [A, B],
        [*(job(f"x{n}", guarantee_bps=100, demand_bps=0.01) for n in range(500)), job("y", "b")],
        {**{f"x{n}": 0.01 for n in range(500)}, "y": 95},
    ),
    Case(
        "five hundred jobs with guarantees take no more than their tenant's share",
        ONE,
        [A, B],
        [*(job(f"x{n}", guarantee_bps=100) for n in range(500)), job("y", "b")],
        {**{f"x{n}": 0.1 for n in range(500)}, "y": 50},
        {"a": 0.001},
    ),
    Case("a guarantee below the level changes nothing", ONE, [A, B], [job("x", guarantee_bps=40), job("y", "b")], {"x": 50, "y": 50}),
    Case(
        "a guarantee that the job cannot use is free for others",
        ONE,
        [A, B],
        [job("x", guarantee_bps=70, demand_bps=20), job("y", "b")],
        {"x": 20, "y": 80},
    ),
    Case(
        "a tenant's guarantee is for its jobs together",
        ONE,
        [AllocationTenant("a", guarantee_bps=80), B],
        [job("x"), job("y", weight=3), job("z", "b")],
        {"x": 20, "y": 60, "z": 20},
    ),
    Case(
        "a tenant's limit is for its jobs together",
        ONE,
        [AllocationTenant("a", limit_bps=30), B],
        [job("x"), job("y"), job("z", "b")],
        {"x": 15, "y": 15, "z": 70},
    ),
    Case(
        "a tenant's limit holds on each link by itself",
        [AllocationLink("l1", 100), AllocationLink("l2", 100)],
        [AllocationTenant("a", limit_bps=30)],
        [job("x", links="l1"), job("y", links="l2")],
        {"x": 30, "y": 30},
    ),
    Case(
        "tenants' guarantees above a link shrink in proportion",
        ONE,
        [AllocationTenant("a", guarantee_bps=150), AllocationTenant("b", guarantee_bps=50)],
        [job("x", guarantee_bps=50), job("y", guarantee_bps=25), job("z", "b")],
        {"x": 50, "y": 25, "z": 25},
        {"wan": 0.5},
    ),
    Case(
        "a job's guarantee takes nothing of another tenant's",
        ONE,
        [A, AllocationTenant("b", guarantee_bps=100)],
        [job("x", guarantee_bps=75), job("y", guarantee_bps=25), job("z", "b")],
        {"x": 0, "y": 0, "z": 100},
        {"a": 0},
    ),
    Case(
        "a single guarantee above its link is cut to the link",
        ONE,
        [A],
        [job("x", guarantee_bps=200), job("y")],
        {"x": 100, "y": 0},
        {"a": 0.5},
    ),
    Case(
        "a guarantee cut on one link reserves no more on another",
        [AllocationLink("l1", 100), AllocationLink("l2", 100)],
        [A, B],
        [job("x", links="l1 l2", guarantee_bps=100), job("y", "b", "l1", guarantee_bps=100), job("z", "b", "l2")],
        {"x": 50, "y": 50, "z": 50},
        {"a": 0.5, "b": 0.5},
    ),
    Case(
        "a long job competes on its narrowest link only",
        [AllocationLink("l1", 100), AllocationLink("l2", 1000)],
        [A],
        [job("long", links="l1 l2"), job("x", links="l1"), job("y", links="l2")],
        {"long": 50, "x": 50, "y": 950},
    ),
    Case(
        "company on an idle link costs nothing on a full one",
        [AllocationLink("l1", 100), AllocationLink("l2", 100_000)],
        [A],
        [job("long", links="l1 l2"), job("x", links="l1"), *(job(f"idle-{n}", links="l2", demand_bps=1) for n in range(9))],
        {"long": 50, "x": 50, **{f"idle-{n}": 1 for n in range(9)}},
    ),
    Case(
        "a tenant counts with its whole weight on every link",
        [AllocationLink("l1", 100), AllocationLink("l2", 100)],
        [A, B],
        [
            *(job(f"a{n}", links="l1") for n in range(4)),
            job("b0", "b", "l1"),
            *(job(f"b{n}", "b", "l2") for n in (1, 2)),
            job("a4", links="l2"),
        ],
        {"a0": 12.5, "a1": 12.5, "a2": 12.5, "a3": 12.5, "b0": 50, "b1": 25, "b2": 25, "a4": 50},
    ),
    Case(
        "two links of equal share stop a job together",
        [AllocationLink("l1", 100), AllocationLink("l2", 100)],
        [A, B],
        [job("x", links="l1 l2"), job("y", "b", "l1"), job("z", "b", "l2")],
        {"x": 50, "y": 50, "z": 50},
    ),
    Case(
        "links that depend on each other in a circle agree",
        [AllocationLink("l1", 2), AllocationLink("l2", 2)],
        [A, B],
        [job("x", links="l1 l2"), job("p", links="l1"), job("y", "b", "l1 l2"), job("q", "b", "l2")],
        {"x": 2 / 3, "p": 2 / 3, "y": 2 / 3, "q": 2 / 3},
    ),
    Case(
        "where the rule leaves a choice, the middle is taken",
        [AllocationLink("l1", 2), AllocationLink("l2", 2)],
        [A, B],
        [job("x", links="l1 l2"), job("p", links="l1", limit_bps=0.5), job("y", "b", "l1 l2"), job("q", "b", "l2", limit_bps=0.5)],
        {"x": 0.75, "p": 0.5, "y": 0.75, "q": 0.5},
    ),
    Case("a job without demand gets nothing", ONE, [A], [job("x", demand_bps=0), job("y")], {"x": 0, "y": 100}),
    Case("no jobs", ONE, [A], [], {}),
    Case("nothing at all", [], [], [], {}),
    Case(
        "the worked example of docs/explanation/fair-shares.md",
        [AllocationLink("dtn-a-out", 10e9, 1e9), AllocationLink("wan", 2e9), AllocationLink("dtn-b-in", 1e9, 0.1e9)],
        [AllocationTenant("astro", 2), AllocationTenant("bio", 1, 100e6, 800e6)],
        [
            job("sky", "astro", "dtn-a-out wan"),
            job("radio", "astro", "dtn-a-out wan dtn-b-in", weight=3),
            job("genome", "bio", "wan dtn-b-in", limit_bps=500e6),
            job("cells", "bio", demand_bps=100e6),
        ],
        {"sky": 1000e6, "radio": 600e6, "genome": 300e6, "cells": 100e6},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rates(case: Case) -> None:
    allocation = allocate(case.links, case.tenants, case.jobs)
    assert dict(allocation.jobs) == pytest.approx(case.expected)
    ratios = {name: share.guarantee_ratio for shares in (allocation.links, allocation.tenants) for name, share in shares.items()}
    assert ratios == pytest.approx({named.name: case.guarantee_ratios.get(named.name, 1.0) for named in (*case.links, *case.tenants)})


def test_over_several_links_more_capacity_can_lower_a_single_rate() -> None:
    jobs = [job("x", links="l1"), job("y", links="l1 l2"), job("z", links="l2")]
    before = allocate([AllocationLink("l1", 10), AllocationLink("l2", 100)], [A], jobs)
    after = allocate([AllocationLink("l1", 100), AllocationLink("l2", 100)], [A], jobs)
    assert (before.jobs["z"], after.jobs["z"]) == pytest.approx((95, 50))


def test_a_tenants_limit_below_its_jobs_guarantees_is_reported_for_the_tenant() -> None:
    jobs = [job("x", guarantee_bps=60), job("y", guarantee_bps=20)]
    allocation = allocate(ONE, [AllocationTenant("a", limit_bps=40)], jobs)
    assert dict(allocation.jobs) == pytest.approx({"x": 30, "y": 10})
    assert allocation.tenants["a"].guarantee_ratio == pytest.approx(0.5)
    assert allocation.links["wan"].guarantee_ratio == 1.0


@pytest.mark.parametrize("seed", range(6))
def test_shares_of_a_large_network_are_fair(seed: int) -> None:
    chance = random.Random(seed)
    links = [AllocationLink(f"l{n}", chance.choice([1e9, 2.5e9, 1e10, 1e11])) for n in range(60)]
    tenants = [
        AllocationTenant(f"t{n}", chance.choice([1, 2, 4]), chance.choice([0, 1e6]), chance.choice([math.inf, 5e9])) for n in range(10)
    ]
    jobs = [
        AllocationJob(
            f"j{n}",
            f"t{chance.randrange(10)}",
            tuple(f"l{link}" for link in chance.sample(range(60), chance.randint(1, 5))),
            chance.choice([1, 10, 100]),
            chance.choice([0, 0, 2e6]),
            chance.choice([math.inf, 1e9]),
            chance.choice([math.inf, chance.uniform(2e6, 1e9)]),
        )
        for n in range(400)
    ]
    shares = Shares.of(links, tenants, jobs, allocate(links, tenants, jobs))
    assert all(total <= shares.links[link].available_bps * (1 + 1e-9) for link, total in shares.total.items())
    assert jobs_that_could_take_more(shares, 1.0) == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((238, 253), 0.9991),
        ((415, 75.6), 0.6763),
        ((398, 85.3), 0.7049),
        ((412, 485), 0.9934),
        ((738, 109), 0.6445),
        ((591, 161), 0.7536),
        ((1, 0), 0.5),
        ((1, 1, 1, 0), 0.75),
        ((1, 2, 3, 4), 0.833333),
        ((4, 1), 0.735294),
    ],
)
def test_jains_index_of_published_rates(values: tuple[float, ...], expected: float) -> None:
    assert jain_index(values) == pytest.approx(expected, abs=5e-5)


def test_jains_index_of_nothing_is_undefined() -> None:
    assert jain_index([]) is None
    assert jain_index([0.0, 0.0]) is None


def test_jains_index_counts_weights_on_links_in_tenants_and_overall() -> None:
    fair = allocate(ONE, [A, AllocationTenant("b", 3)], [job("x", weight=5), job("y"), job("z", "b")])
    assert (fair.jain, fair.links["wan"].jain, fair.tenants["a"].jain) == pytest.approx((1, 1, 1))
    held_back = allocate(ONE, [A, B], [job("x", demand_bps=25), job("y", "b")])
    assert held_back.links["wan"].jain == pytest.approx(jain_index([25, 75]))
