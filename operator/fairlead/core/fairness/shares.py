"""The fair share of every job: max-min over what each can use, and what then is left over to whoever might want it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlead.core.allocation import Allocation, AllocationJob, AllocationLink, AllocationTenant, allocate
from fairlead.core.fairness.model import JobStage, Participant
from fairlead.core.fairness.rules import PolicyRules

_LEFT_OVER = 0.005
"""Less than this part of a link is not worth handing out a second time."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What every job may send, and what the policy's promises came to."""

    caps_bps: Mapping[str, float]
    fair: Allocation
    """By demand alone, without what was left over."""

    @property
    def approximated(self) -> int:
        """Jobs whose shares may not obey the rule."""
        return self.fair.approximated


def fair_shares(
    rules: PolicyRules,
    available_bps: Mapping[str, float],
    routes: Mapping[str, tuple[str, ...]],
    demands_bps: Mapping[Participant, float],
    floors_bps: Mapping[str, float],
) -> Shares:
    """The shares of jobs with these demands, all of which cross a link. Jobs that do not flow yet, and those that give way, ask for little
    and get what is left over.

    `floors_bps` is what each job has in any case, as far as its tenant's part of its links goes.
    A job with little demand is given more than that where nobody else wants it, so that no capacity is closed to all.
    """
    jobs = list(demands_bps)
    links = [AllocationLink(name, rule.capacity_bps, rule.capacity_bps - available_bps[name]) for name, rule in rules.links.items()]
    tenants = [AllocationTenant(rule.name, rule.weight, rule.guarantee_bps, rule.limit_bps) for rule in rules.tenants.values()]
    first = [_job(rules, job, routes[job.uid], demand_bps, floors_bps[job.uid]) for job, demand_bps in demands_bps.items()]
    fair = allocate(links, tenants, first)
    left = _left_over(rules, available_bps, jobs, routes, fair)
    return Shares({job.uid: fair.jobs[job.uid] + left.get(job.uid, 0.0) for job in jobs}, fair)


def ceiling_bps(rules: PolicyRules, job: Participant, route: tuple[str, ...]) -> float:
    """The most that the job may ever get: by its limit, its tenant's, and the narrowest of its links without others.

    It follows from the policy and the job alone, so that it does not change from round to round.
    """
    narrowest_bps = min(rules.links[link].available_bps for link in route)
    return min(job.limit_bps, rules.tenant(job.namespace).limit_bps, narrowest_bps)


def _job(rules: PolicyRules, job: Participant, route: tuple[str, ...], demand_bps: float, floor_bps: float) -> AllocationJob:
    least = min(floor_bps, job.limit_bps)
    # A job that does not flow yet keeps its place, but nobody else's; one that gives way never asks for more.
    demand = least if job.stage is not JobStage.FLOWING or job.gives_way else max(demand_bps, least)
    return AllocationJob(
        name=job.uid,
        tenant=rules.tenant(job.namespace).name,
        links=route,
        weight=float(job.weight),
        guarantee_bps=min(max(job.guarantee_bps, least), job.limit_bps),
        limit_bps=job.limit_bps,
        demand_bps=demand,
    )


def _left_over(
    rules: PolicyRules,
    available_bps: Mapping[str, float],
    jobs: Sequence[Participant],
    routes: Mapping[str, tuple[str, ...]],
    fair: Allocation,
) -> Mapping[str, float]:
    room = {name: available_bps[name] - share.allocated_bps for name, share in fair.links.items()}
    open_links = {name for name, bps in room.items() if bps > _LEFT_OVER * available_bps[name]}
    held: dict[tuple[str, str], float] = defaultdict(float)
    for job in jobs:
        for link in routes[job.uid]:
            held[link, rules.tenant(job.namespace).name] += fair.jobs[job.uid]
    fullest: dict[str, float] = defaultdict(float)
    for (_, tenant_name), bps in held.items():
        fullest[tenant_name] = max(fullest[tenant_name], bps)
    limits = {name: tenant.limit_bps - fullest[name] for name, tenant in rules.tenants.items()}
    takers = [
        AllocationJob(
            name=job.uid,
            tenant=tenant.name,
            links=routes[job.uid],
            weight=float(job.weight),
            limit_bps=job.limit_bps - fair.jobs[job.uid],
        )
        for job in jobs
        if (tenant := rules.tenant(job.namespace))
        and open_links.issuperset(routes[job.uid])
        and job.limit_bps - fair.jobs[job.uid] > 1.0
        and limits[tenant.name] > 1.0
    ]
    if not takers:
        return {}
    tenants = [
        AllocationTenant(rule.name, rule.weight, 0.0, limits[rule.name]) for rule in rules.tenants.values() if limits[rule.name] > 1.0
    ]
    return allocate([AllocationLink(name, room[name]) for name in open_links], tenants, takers).jobs
