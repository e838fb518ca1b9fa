"""Random networks for the property tests. Rates are around 1, where a linear program is at its most precise."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from fairlead.core.allocation import AllocationJob, AllocationLink, AllocationTenant

Network = tuple[list[AllocationLink], list[AllocationTenant], list[AllocationJob]]

WEIGHTS = st.sampled_from([1.0, 1.0, 2.0, 4.0, 3.5])
RATES = st.one_of(st.sampled_from([0.25, 0.5, 1.0, 2.0]), st.floats(0.05, 4.0).map(lambda rate: round(rate, 3)))
SMALL_RATES = st.one_of(st.just(0.0), st.just(0.0), st.floats(0.01, 0.2).map(lambda rate: round(rate, 3)))
CEILINGS = st.one_of(st.just(math.inf), st.just(math.inf), RATES)


@st.composite
def networks(
    draw: st.DrawFn,
    *,
    most_links: int = 4,
    most_tenants: int = 3,
    most_jobs: int = 7,
    guarantees: st.SearchStrategy[float] = SMALL_RATES,
    tenant_per_job: bool = False,
) -> Network:
    """A network whose guarantees fit if `guarantees` are small or zero (see `guarantees_fit`)."""
    links = [
        AllocationLink(f"link-{number}", capacity := draw(RATES) + 0.5, draw(st.sampled_from([0.0, 0.0, 0.1])) * capacity)
        for number in range(draw(st.integers(1, most_links)))
    ]
    jobs_count = draw(st.integers(1, most_jobs))
    tenants = []
    for number in range(jobs_count if tenant_per_job else draw(st.integers(1, most_tenants))):
        guarantee = draw(guarantees)
        tenants.append(AllocationTenant(f"tenant-{number}", draw(WEIGHTS), guarantee, max(draw(CEILINGS), guarantee, 0.01)))
    jobs = []
    names = [link.name for link in links]
    for number in range(jobs_count):
        guarantee = draw(guarantees)
        route = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        tenant = f"tenant-{number}" if tenant_per_job else draw(st.sampled_from(tenants)).name
        limit, demand = max(draw(CEILINGS), guarantee, 0.01), draw(st.one_of(CEILINGS, st.just(0.0)))
        jobs.append(AllocationJob(f"job-{number}", tenant, tuple(route), draw(WEIGHTS), guarantee, limit, demand))
    return links, tenants, jobs
