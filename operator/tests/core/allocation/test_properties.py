"""What holds for every network, against a reference made of linear programs."""

from __future__ import annotations

import math
import os
import random
from dataclasses import replace

import pytest
from allocation_cases import Network, networks
from allocation_reference import (
    Sharer,
    Shares,
    jobs_that_could_take_more,
    lexicographic_max_min,
    on_one_link,
    rates_within_slices,
    slice_ceiling,
)
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fairlead.core.allocation import Allocation, AllocationJob, allocate

TOLERANCE = 1e-5
NO_GUARANTEES = st.just(0.0)
BIG_GUARANTEES = st.one_of(st.just(0.0), st.floats(0.1, 3.0))

EFFORT = int(os.environ.get("FAIRLEAD_TEST_EFFORT", "1"))
"""How many times as many examples to try as in a quick run."""

by_program = settings(max_examples=20 * EFFORT, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
by_rule = settings(max_examples=60 * EFFORT, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def guarantees_fit(allocation: Allocation) -> bool:
    shares = [*allocation.links.values(), *allocation.tenants.values()]
    return all(share.guarantee_ratio == 1.0 for share in shares)


def assert_same_rates(actual: Allocation, expected: dict[str, float]) -> None:
    assert dict(actual.jobs) == pytest.approx(expected, abs=TOLERANCE)


@by_rule
@given(networks(guarantees=BIG_GUARANTEES))
def test_no_link_tenant_or_job_gets_more_than_it_may(network: Network) -> None:
    links, tenants, jobs = network
    allocation = allocate(*network)
    shares = Shares.of(links, tenants, jobs, allocation)
    for job in jobs:
        assert 0.0 <= allocation.jobs[job.name] <= job.ceiling_bps
    for link in links:
        assert shares.total[link.name] <= link.available_bps * (1 + 1e-9)
    for (tenant, _), held in shares.held.items():
        assert held <= shares.tenants[tenant].limit_bps * (1 + 1e-9)


@by_rule
@given(networks(most_jobs=14, most_links=6, most_tenants=4))
def test_nobody_can_get_more_without_taking_from_one_with_a_smaller_or_equal_share_per_weight(network: Network) -> None:
    allocation = allocate(*network)
    assume(guarantees_fit(allocation))
    assert jobs_that_could_take_more(Shares.of(*network, allocation), 1e-6) == []


@by_program
@given(networks())
def test_rates_in_each_tenant_are_the_programs_max_min_over_its_slices(network: Network) -> None:
    allocation = allocate(*network)
    assume(guarantees_fit(allocation))
    assert_same_rates(allocation, rates_within_slices(Shares.of(*network, allocation), 1e-7))


@by_program
@given(networks(most_links=1, most_jobs=8, most_tenants=4))
def test_one_link_is_shared_as_the_program_shares_it_tenants_first(network: Network) -> None:
    (link,), tenants, jobs = network
    allocation = allocate(*network)
    assume(guarantees_fit(allocation))
    assert_same_rates(allocation, on_one_link(link, tenants, jobs))


@by_program
@given(networks(most_tenants=1))
def test_a_single_tenants_jobs_get_the_programs_weighted_max_min(network: Network) -> None:
    links, (tenant,), jobs = network
    allocation = allocate(*network)
    assume(guarantees_fit(allocation))
    sharers = [Sharer(job.name, job.weight, min(job.guarantee_bps, job.ceiling_bps), job.ceiling_bps, job.links) for job in jobs]
    assert_same_rates(allocation, lexicographic_max_min(sharers, {link.name: min(link.available_bps, tenant.limit_bps) for link in links}))


@by_program
@given(networks(tenant_per_job=True, guarantees=NO_GUARANTEES, most_jobs=6))
def test_tenants_of_one_job_each_get_the_programs_max_min_by_tenant_weight(network: Network) -> None:
    links, tenants, jobs = network
    of = {tenant.name: tenant for tenant in tenants}
    sharers = [Sharer(j.name, of[j.tenant].weight, 0.0, min(j.ceiling_bps, of[j.tenant].limit_bps), j.links) for j in jobs]
    expected = lexicographic_max_min(sharers, {link.name: link.available_bps for link in links})
    assert_same_rates(allocate(*network), expected)


@by_rule
@given(networks(guarantees=BIG_GUARANTEES, most_jobs=10), st.randoms(use_true_random=False))
def test_the_order_of_the_input_changes_no_bit(network: Network, shuffler: random.Random) -> None:
    links, tenants, jobs = (shuffler.sample(items, len(items)) for items in network)
    jobs = [replace(job, links=tuple(shuffler.sample(job.links, len(job.links)))) for job in jobs]
    assert allocate(links, tenants, jobs) == allocate(*network)


@by_rule
@given(networks())
def test_guarantees_that_fit_are_kept(network: Network) -> None:
    allocation = allocate(*network)
    assume(guarantees_fit(allocation))
    for job in network[2]:
        assert allocation.jobs[job.name] >= min(job.guarantee_bps, job.ceiling_bps) - 1e-9


@by_rule
@given(networks(guarantees=BIG_GUARANTEES, most_links=1))
def test_on_one_link_every_job_keeps_the_reported_part_of_its_guarantee(network: Network) -> None:
    allocation = allocate(*network)
    for job in network[2]:
        part = min(allocation.links["link-0"].guarantee_ratio, allocation.tenants[job.tenant].guarantee_ratio)
        assert allocation.jobs[job.name] >= part * min(job.guarantee_bps, job.ceiling_bps) - 1e-9


@by_rule
@given(networks(guarantees=BIG_GUARANTEES, most_jobs=14, most_links=5, most_tenants=4))
def test_a_job_that_could_take_more_is_stopped_where_its_tenant_has_its_part_of_the_link(network: Network) -> None:
    """Whatever the other tenants ask for: the part follows from the tenants' own weights, guarantees and limits."""
    allocation = allocate(*network)
    assume(all(share.guarantee_ratio == 1.0 for share in allocation.links.values()))
    shares = Shares.of(*network, allocation)
    parts = {link: shares.parts(link) for link in shares.links}
    for job in network[2]:
        if shares.rate[job.name] < shares.most(job) - 1e-6:
            assert any(shares.held[job.tenant, link] >= parts[link][job.tenant] - 1e-6 for link in job.links)


@by_rule
@given(
    networks(most_links=1, most_jobs=6, most_tenants=3),
    st.lists(st.tuples(st.floats(0.01, 5.0), st.floats(0.1, 100.0), st.floats(0.0, 5.0)), min_size=1, max_size=40),
)
def test_no_jobs_of_one_tenant_however_many_lower_another_below_its_part(
    network: Network, claims: list[tuple[float, float, float]]
) -> None:
    """Claims are guarantee, weight and demand of further jobs of the first tenant."""
    (link,), tenants, jobs = network
    tenants[0] = replace(tenants[0], limit_bps=math.inf)
    more = [
        AllocationJob(f"claim-{number}", tenants[0].name, (link.name,), weight, guarantee, demand_bps=demand)
        for number, (guarantee, weight, demand) in enumerate(claims)
    ]
    allocation = allocate([link], tenants, [*jobs, *more])
    assume(allocation.links[link.name].guarantee_ratio == 1.0)
    shares = Shares.of([link], tenants, [*jobs, *more], allocation)
    parts = shares.parts(link.name)
    for tenant in tenants[1:]:
        own = shares.jobs.get((tenant.name, link.name), [])
        assert shares.held.get((tenant.name, link.name), 0.0) >= min(parts.get(tenant.name, 0.0), slice_ceiling(tenant, own)) - 1e-6


@by_rule
@given(networks(most_links=1, guarantees=NO_GUARANTEES, most_tenants=4))
def test_on_one_link_tenants_and_their_jobs_that_want_more_share_in_proportion_to_weight(network: Network) -> None:
    links, tenants, jobs = network
    tenants = [replace(tenant, limit_bps=math.inf) for tenant in tenants]
    jobs = [replace(job, limit_bps=math.inf, demand_bps=math.inf) for job in jobs]
    allocation = allocate(links, tenants, jobs)
    active = {tenant.name: tenant.weight for tenant in tenants if any(job.tenant == tenant.name for job in jobs)}
    for tenant, weight in active.items():
        share = links[0].available_bps * weight / sum(active.values())
        total = sum(job.weight for job in jobs if job.tenant == tenant)
        for job in jobs:
            if job.tenant == tenant:
                assert allocation.jobs[job.name] == pytest.approx(share * job.weight / total)
    assert allocation.jain == pytest.approx(1.0)
    assert allocation.links["link-0"].jain == pytest.approx(1.0)


@by_rule
@given(networks(most_links=1, most_jobs=10, most_tenants=4), st.floats(1.0, 3.0))
def test_on_one_link_more_capacity_lowers_nobodys_rate(network: Network, factor: float) -> None:
    (link,), tenants, jobs = network
    before = allocate(*network)
    assume(guarantees_fit(before))
    after = allocate([replace(link, capacity_bps=link.capacity_bps * factor, headroom_bps=link.headroom_bps)], tenants, jobs)
    for name, rate in before.jobs.items():
        assert after.jobs[name] >= rate - 1e-9


@by_rule
@given(networks(most_tenants=1, guarantees=NO_GUARANTEES), st.floats(1.0, 3.0), st.integers(0, 3))
def test_in_one_tenant_more_capacity_never_worsens_the_sorted_shares(network: Network, factor: float, which: int) -> None:
    """Over several links single rates may fall (see test_rule.py); what cannot fall is the sorted vector of shares per weight."""
    links, tenants, jobs = network
    wider = [replace(link, capacity_bps=link.capacity_bps * factor) if number == which else link for number, link in enumerate(links)]

    def sorted_shares(allocation: Allocation) -> list[float]:
        return sorted(round(allocation.jobs[job.name] / job.weight, 7) for job in jobs)

    assert sorted_shares(allocate(wider, tenants, jobs)) >= sorted_shares(allocate(*network))


@by_rule
@given(networks(most_jobs=10), st.sampled_from([1e3, 1e9]), st.sampled_from([0.125, 64.0]))
def test_units_and_the_scale_of_weights_do_not_matter(network: Network, unit: float, scale: float) -> None:
    links, tenants, jobs = network
    scaled = allocate(
        [replace(link, capacity_bps=link.capacity_bps * unit, headroom_bps=link.headroom_bps * unit) for link in links],
        [replace(t, guarantee_bps=t.guarantee_bps * unit, limit_bps=t.limit_bps * unit, weight=t.weight * scale) for t in tenants],
        [
            replace(
                job,
                guarantee_bps=job.guarantee_bps * unit,
                limit_bps=job.limit_bps * unit,
                demand_bps=job.demand_bps * unit,
                weight=job.weight * (scale if job.tenant == "tenant-0" else 1.0),
            )
            for job in jobs
        ],
    )
    assert {name: rate / unit for name, rate in scaled.jobs.items()} == pytest.approx(dict(allocate(*network).jobs), abs=1e-7)
