"""The fair share of every job: max-min over what each can use, and what then is left over to whoever might want it.

The limit of a job with several lanes bounds their sum. It counts as a link that these lanes alone cross, so that the shares are max-min
with it as they are with the links: what it keeps from one lane is neither lost to the others nor taken from anybody else.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fairlead.core.allocation import Allocation, AllocationJob, AllocationLink, AllocationTenant, allocate
from fairlead.core.fairness.lanes import job_uid
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
    limits = _limits(jobs)
    links = [AllocationLink(name, rule.capacity_bps, rule.capacity_bps - available_bps[name]) for name, rule in rules.links.items()]
    links += [AllocationLink(limit.link, limit.most_bps, is_shared=False) for limit in limits]
    routes = {**routes, **{lane: (*routes[lane], limit.link) for limit in limits for lane in limit.lanes}}
    promised = _promised(jobs, floors_bps, limits)
    tenants = [AllocationTenant(rule.name, rule.weight, rule.guarantee_bps, rule.limit_bps) for rule in rules.tenants.values()]
    first = [_job(rules, job, routes[job.uid], demand_bps, promised[job.uid]) for job, demand_bps in demands_bps.items()]
    fair = allocate(links, tenants, first)
    open_bps = {**available_bps, **{limit.link: limit.most_bps for limit in limits}}
    left = _left_over(rules, open_bps, jobs, routes, fair)
    fair = replace(fair, links={name: fair.links[name] for name in rules.links})
    return Shares({job.uid: fair.jobs[job.uid] + left.get(job.uid, 0.0) for job in jobs}, fair)


def ceiling_bps(rules: PolicyRules, job: Participant, route: tuple[str, ...]) -> float:
    """The most that the job, or a lane of it, may ever get: by its limit, its tenant's, and the narrowest of its links without others.

    It follows from the policy and the job alone, so that it does not change from round to round.
    """
    narrowest_bps = min(rules.links[link].available_bps for link in route)
    return min(job.limit_bps, rules.tenant(job.namespace).limit_bps, narrowest_bps)


@dataclass(frozen=True, slots=True)
class _Limit:
    """What bounds the sum of a job's lanes, as a link that they alone cross."""

    link: str
    most_bps: float
    lanes: tuple[str, ...]


def _limits(participants: Sequence[Participant]) -> list[_Limit]:
    """The limits of jobs with several lanes, of those that have any."""
    by_job: dict[str, list[Participant]] = defaultdict(list)
    for each in participants:
        by_job[job_uid(each.uid)].append(each)
    return [
        # No link has such a name.
        _Limit(f"limit of {uid}", lanes[0].limit_bps, tuple(lane.uid for lane in lanes))
        for uid, lanes in by_job.items()
        if len(lanes) > 1 and lanes[0].limit_bps < math.inf
    ]


@dataclass(frozen=True, slots=True)
class _Promise:
    """What somebody has in any case: its floor, and with its guarantee."""

    floor_bps: float
    guarantee_bps: float


def _promised(participants: Iterable[Participant], floors_bps: Mapping[str, float], limits: Iterable[_Limit]) -> dict[str, _Promise]:
    """What each is promised, by UID. Lanes of a job have no more together than its limit."""
    floors = {each.uid: min(floors_bps[each.uid], each.limit_bps) for each in participants}
    whole = {each.uid: min(max(each.guarantee_bps, floors[each.uid]), each.limit_bps) for each in participants}
    for limit in limits:
        part = min(1.0, limit.most_bps / sum(whole[lane] for lane in limit.lanes))
        whole |= {lane: whole[lane] * part for lane in limit.lanes}
    return {uid: _Promise(min(floors[uid], guarantee_bps), guarantee_bps) for uid, guarantee_bps in whole.items()}


def _job(rules: PolicyRules, job: Participant, route: tuple[str, ...], demand_bps: float, promise: _Promise) -> AllocationJob:
    # A job that does not flow yet keeps its place, but nobody else's; one that gives way never asks for more.
    asks = job.stage is JobStage.FLOWING and not job.gives_way
    return AllocationJob(
        name=job.uid,
        tenant=rules.tenant(job.namespace).name,
        links=route,
        weight=float(job.weight),
        guarantee_bps=promise.guarantee_bps,
        limit_bps=job.limit_bps,
        demand_bps=max(demand_bps, promise.floor_bps) if asks else promise.floor_bps,
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
        for link in rules.links.keys() & set(routes[job.uid]):
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
    return allocate([AllocationLink(name, room[name], is_shared=name in rules.links) for name in open_links], tenants, takers).jobs
