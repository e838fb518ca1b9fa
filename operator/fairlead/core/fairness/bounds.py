"""What keeps each job's cap from being higher: its own limit, its tenant's, or the fullest of its links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from fairlead.core.fairness.model import Bound, Participant
from fairlead.core.fairness.rules import PolicyRules
from fairlead.core.fairness.settle import rounded_down

_REACHED = 0.995
"""A limit is reached from here: less than the rest is never handed out."""


def bounds_of(
    rules: PolicyRules,
    available_bps: Mapping[str, float],
    routes: Mapping[str, tuple[str, ...]],
    caps_bps: Mapping[str, float],
    jobs: Iterable[Participant],
) -> dict[str, Bound]:
    """The bound of each of `jobs`, by UID. All of them have a cap and cross a link.

    The bottleneck of a job is the link of which its jobs' caps take the largest part. While caps still rise none is full, and the same
    link is the one that will be.
    """
    jobs = list(jobs)
    on_link: dict[str, float] = defaultdict(float)
    of_tenant: dict[tuple[str, str], float] = defaultdict(float)
    for job in jobs:
        for link in routes[job.uid]:
            on_link[link] += caps_bps[job.uid]
            of_tenant[link, rules.tenant(job.namespace).name] += caps_bps[job.uid]

    def bound_of(job: Participant) -> Bound:
        tenant, route = rules.tenant(job.namespace), routes[job.uid]
        if caps_bps[job.uid] >= rounded_down(job.limit_bps):
            return Bound("JobLimit", tenant.name)
        fullest_of_tenant = max(route, key=lambda link: of_tenant[link, tenant.name])
        if of_tenant[fullest_of_tenant, tenant.name] >= tenant.limit_bps * _REACHED:
            return Bound("TenantLimit", tenant.name, fullest_of_tenant)
        return Bound("Link", tenant.name, max(route, key=lambda link: on_link[link] / available_bps[link]))

    return {job.uid: bound_of(job) for job in jobs}
