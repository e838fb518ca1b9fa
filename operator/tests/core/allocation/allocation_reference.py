"""Fair shares by linear programs: slow, and sharing no code and no idea with the allocator but the definition.

Lexicographic max-min by repeated programs: raise the smallest share per weight as far as it goes, hold whoever cannot go further
while the others are at least there, and repeat with the rest.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from fairlead.core.allocation import Allocation, AllocationJob, AllocationLink, AllocationTenant

_EXACT = 1e-9
"""How exactly the programs are solved."""
_STUCK = 1e-6
"""Who can rise by no more than this over the level is held at it; far above what rounding lets anyone rise."""


@dataclass(frozen=True)
class Sharer:
    """Something with a rate: at least `floor`, at most `ceiling`, using each of `resources`."""

    name: str
    weight: float
    floor: float
    ceiling: float
    resources: tuple[str, ...]


def lexicographic_max_min(sharers: Sequence[Sharer], capacity: Mapping[str, float]) -> dict[str, float]:
    """The rates whose shares per weight, sorted, are lexicographically largest. Rates should be around 1."""
    rows = [name for name in capacity if math.isfinite(capacity[name])]
    usage = np.array([[float(row in sharer.resources) for sharer in sharers] + [0.0] for row in rows]).reshape(len(rows), len(sharers) + 1)
    room = np.array([capacity[row] for row in rows])
    held: dict[int, float] = {}
    while len(held) < len(sharers):
        level = _maximum(sharers, usage, room, held, None, 0.0)
        free = [number for number in range(len(sharers)) if number not in held]
        highest = {number: _maximum(sharers, usage, room, held, number, level) for number in free}
        stuck = [number for number in free if highest[number] <= level * sharers[number].weight + _STUCK]
        assert stuck, f"nobody is held at level {level}"
        held.update({number: min(highest[number], level * sharers[number].weight) for number in stuck})
    return {sharer.name: held[number] for number, sharer in enumerate(sharers)}


def _maximum(
    sharers: Sequence[Sharer], usage: np.ndarray, room: np.ndarray, held: Mapping[int, float], one: int | None, level: float
) -> float:
    """The highest common level of the free sharers, or the highest rate of one of them while all have the level."""
    count = len(sharers)
    goal = np.zeros(count + 1)
    goal[count if one is None else one] = -1.0
    bounds: list[tuple[float, float | None]] = []
    above_level = []
    for number, sharer in enumerate(sharers):
        ceiling = sharer.ceiling if math.isfinite(sharer.ceiling) else None
        if number in held:
            bounds.append((max(held[number] - _EXACT, 0.0), held[number]))
            continue
        bounds.append((min(sharer.floor, sharer.ceiling), ceiling))
        row = np.zeros(count + 1)
        row[number], row[count] = -1.0, sharer.weight
        above_level.append(row)
    bounds.append((0.0, None) if one is None else (max(level - _EXACT, 0.0), level))
    table = np.vstack([usage, *above_level])
    limits = np.concatenate([room + 10 * _EXACT, np.zeros(len(above_level))])
    options = {"primal_feasibility_tolerance": _EXACT, "dual_feasibility_tolerance": _EXACT}
    result = linprog(goal, table, limits, bounds=bounds, method="highs", options=options)
    assert result.status == 0, result.message
    return float(-result.fun)


def on_one_link(link: AllocationLink, tenants: Sequence[AllocationTenant], jobs: Sequence[AllocationJob]) -> dict[str, float]:
    """The rule for one link, word for word: tenants with the sums of their jobs, then the jobs of each tenant. Guarantees must fit."""
    of_tenant: dict[str, list[AllocationJob]] = defaultdict(list)
    for job in jobs:
        of_tenant[job.tenant].append(job)
    sharers = [
        Sharer(t.name, t.weight, slice_floor(t, of_tenant[t.name]), slice_ceiling(t, of_tenant[t.name]), ("link",))
        for t in tenants
        if t.name in of_tenant
    ]
    shares = lexicographic_max_min(sharers, {"link": link.available_bps})
    rates: dict[str, float] = {}
    for tenant, share in shares.items():
        members = [Sharer(j.name, j.weight, min(j.guarantee_bps, j.ceiling_bps), j.ceiling_bps, ("slice",)) for j in of_tenant[tenant]]
        rates |= lexicographic_max_min(members, {"slice": share})
    return rates


def slice_floor(tenant: AllocationTenant, jobs: Sequence[AllocationJob]) -> float:
    """What a tenant is promised on a link with these jobs, whatever they are guaranteed themselves."""
    return min(tenant.guarantee_bps, slice_ceiling(tenant, jobs))


def slice_ceiling(tenant: AllocationTenant, jobs: Sequence[AllocationJob]) -> float:
    """What a tenant can take on a link with these jobs."""
    return min(tenant.limit_bps, sum(job.ceiling_bps for job in jobs))


@dataclass(frozen=True)
class Shares:
    """An allocation seen link by link. `jobs` are by (tenant, link), `held` what these jobs have there together."""

    links: Mapping[str, AllocationLink]
    tenants: Mapping[str, AllocationTenant]
    jobs: Mapping[tuple[str, str], list[AllocationJob]]
    held: Mapping[tuple[str, str], float]
    total: Mapping[str, float]
    rate: Mapping[str, float]

    @classmethod
    def of(
        cls, links: Sequence[AllocationLink], tenants: Sequence[AllocationTenant], jobs: Sequence[AllocationJob], allocation: Allocation
    ) -> Shares:
        slices: dict[tuple[str, str], list[AllocationJob]] = defaultdict(list)
        held: dict[tuple[str, str], float] = defaultdict(float)
        total: dict[str, float] = defaultdict(float)
        for job in jobs:
            for link in job.links:
                slices[job.tenant, link].append(job)
                held[job.tenant, link] += allocation.jobs[job.name]
                total[link] += allocation.jobs[job.name]
        by_name = {tenant.name: tenant for tenant in tenants}
        return cls({link.name: link for link in links}, by_name, slices, held, total, allocation.jobs)

    def is_full(self, link: str, tolerance: float) -> bool:
        return self.total[link] >= self.links[link].available_bps - tolerance

    def floor(self, tenant: str, link: str) -> float:
        """The promise to a tenant on a link; a job reserves no more than its narrowest link has."""
        jobs = self.jobs[tenant, link]
        usable = min(self.tenants[tenant].limit_bps, sum(self.most(job) for job in jobs))
        return min(slice_floor(self.tenants[tenant], jobs), usable)

    def parts(self, link: str) -> dict[str, float]:
        """What each tenant with jobs on the link has of it if all of them want everything. Tenants' guarantees must fit."""
        available = self.links[link].available_bps
        tenants = [self.tenants[tenant] for tenant, where in self.jobs if where == link]
        sharers = [Sharer(t.name, t.weight, self.floor(t.name, link), min(t.limit_bps, available), ("link",)) for t in tenants]
        return lexicographic_max_min(sharers, {"link": available})

    def most(self, job: AllocationJob) -> float:
        return min(job.ceiling_bps, *(self.links[link].available_bps for link in job.links))

    def level(self, link: str, tolerance: float) -> float:
        """The share per tenant weight to which a full link is filled: the largest of those above their promise."""
        shares = [
            held / self.tenants[tenant].weight
            for (tenant, where), held in self.held.items()
            if where == link and held > self.floor(tenant, link) + tolerance
        ]
        return max(shares, default=0.0)


def jobs_that_could_take_more(shares: Shares, tolerance: float) -> list[str]:
    """Jobs that could grow by taking only from those with a larger share per weight, or from nobody: none, if the shares are fair."""
    return [
        job.name
        for slice_, jobs in shares.jobs.items()
        for job in jobs
        if slice_[1] == job.links[0] and not _is_stopped(shares, job, tolerance)
    ]


def _is_stopped(shares: Shares, job: AllocationJob, tolerance: float) -> bool:
    rate = shares.rate[job.name]
    return rate >= job.ceiling_bps - tolerance or any(_stops(shares, link, job, tolerance) for link in job.links)


def _stops(shares: Shares, link: str, job: AllocationJob, tolerance: float) -> bool:
    tenant = shares.tenants[job.tenant]
    mine = shares.rate[job.name] / job.weight
    for other in shares.jobs[job.tenant, link]:
        rate = shares.rate[other.name]
        if rate > min(other.guarantee_bps, shares.most(other)) + tolerance and rate / other.weight > mine + tolerance:
            return False
    held = shares.held[job.tenant, link]
    if held >= tenant.limit_bps - tolerance:
        return True
    return shares.is_full(link, tolerance) and shares.level(link, tolerance) <= held / tenant.weight + tolerance


def rates_within_slices(shares: Shares, tolerance: float) -> dict[str, float]:
    """The rates that follow from the links' levels alone: in each tenant, lexicographic max-min over its slices of all links."""
    rates: dict[str, float] = {}
    for tenant in shares.tenants.values():
        room: dict[str, float] = {}
        members: dict[str, AllocationJob] = {}
        for (name, link), jobs in shares.jobs.items():
            if name == tenant.name:
                members |= {job.name: job for job in jobs}
                proportional = shares.level(link, tolerance) * tenant.weight if shares.is_full(link, tolerance) else math.inf
                room[link] = min(tenant.limit_bps, max(shares.floor(name, link), proportional))
        sharers = [
            Sharer(job.name, job.weight, min(job.guarantee_bps, shares.most(job)), shares.most(job), job.links) for job in members.values()
        ]
        if sharers:
            rates |= lexicographic_max_min(sharers, {link: bound * (1 + 1e-9) for link, bound in room.items()})
    return rates
