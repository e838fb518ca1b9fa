"""Who may start: a job waits rather than that a promise on a link is broken.

On a link the jobs' guarantees together must fit, and beside them what the policy guarantees to tenants. Jobs wait in the order of priority,
to which waiting adds, and nobody overtakes on a link where a guarantee waits; only jobs without guarantee do for a while, for they
take next to nothing of what is promised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairlead.api.quantity import format_rate_rounded
from fairlead.core.fairness.model import Admissions, Participant, Waiting
from fairlead.core.fairness.rules import LinkRule, Rules, TenantRule

LEAST_BPS = 1e6
"""What every job needs to make progress: a block every ten seconds."""
LEAST_PART = 0.01
"""Of a narrow link it is this part."""
AGEING_SECONDS = 60.0
"""Waiting for so long counts as much as one of priority."""
OVERTAKING_SECONDS = 300.0
"""For so long jobs without guarantee may overtake one that waits for its own."""


def least_bps(links: Iterable[LinkRule]) -> float:
    """What a job that crosses these links gets in any case."""
    return min([LEAST_BPS, *(LEAST_PART * link.available_bps for link in links)])


@dataclass
class _Promises:
    """What is promised on each link, by tenant. Local to one call of `admit`."""

    rules: Rules
    held: dict[tuple[str, str], float]

    def add(self, job: Participant, links: Sequence[str]) -> None:
        for link in links:
            self.held[link, self.rules.tenant(job.namespace).name] += self.need(job, links)

    def need(self, job: Participant, links: Sequence[str]) -> float:
        return max(job.guarantee_bps, least_bps(self.rules.links[link] for link in links))

    def obstacle(self, job: Participant, links: Sequence[str]) -> str | None:
        """The first link without room for the job, None if it can start."""
        tenant, need = self.rules.tenant(job.namespace), self.need(job, links)
        return next((link for link in links if not self._fits(job, tenant, link, need)), None)

    def taken(self, link: str, *, tenants_too: bool) -> float:
        """What is promised on a link to jobs, or to jobs and tenants."""
        total = 0.0
        for tenant in self.rules.tenants.values():
            jobs_bps = self.held[link, tenant.name]
            total += max(jobs_bps, tenant.guarantee_bps) if tenants_too else jobs_bps
        return total

    def _fits(self, job: Participant, tenant: TenantRule, link: str, need: float) -> bool:
        available = self.rules.links[link].available_bps
        own = self.held[link, tenant.name]
        if self.taken(link, tenants_too=False) + need > available or own + need > tenant.limit_bps:
            return False
        if job.guarantee_bps <= 0.0:
            return True
        growth = max(own + need, tenant.guarantee_bps) - max(own, tenant.guarantee_bps)
        return growth <= 0.0 or self.taken(link, tenants_too=True) + growth <= available


def admit(rules: Rules, holders: Iterable[Participant], askers: Iterable[Participant], now: float) -> Admissions:
    """Who of the askers may start beside the holders, and why the others wait. `Admissions.admitted` has the holders too."""
    promises, empty = _Promises(rules, defaultdict(float)), _Promises(rules, defaultdict(float))
    admitted: set[str] = set()
    for job in holders:
        promises.add(job, rules.links_of(job))
        admitted.add(job.uid)
    queues: dict[str, list[Participant]] = defaultdict(list)
    stopped: dict[str, tuple[str, bool]] = {}
    blocked_since: dict[str, float] = {}
    for job in sorted(askers, key=lambda job: (-_rank(job, now), job.asked_at, job.uid)):
        links = rules.links_of(job)
        impossible = empty.obstacle(job, links)
        if impossible is not None:
            stopped[job.uid] = (impossible, True)
            continue
        queued = next((link for link in links if _is_behind(job, blocked_since.get(link), now)), None)
        obstacle = queued if queued is not None else promises.obstacle(job, links)
        if obstacle is None:
            promises.add(job, links)
            admitted.add(job.uid)
            continue
        stopped[job.uid] = (obstacle, False)
        for link in links:
            queues[link].append(job)
            if job.guarantee_bps > 0.0:
                blocked_since[link] = min(blocked_since.get(link, now), job.asked_at)
    by_uid = {job.uid: job for queue in queues.values() for job in queue}
    waiting = {
        uid: Waiting(link, _impossible(rules, link), impossible=True)
        if impossible
        else Waiting(link, _wait_message(promises, queues[link], by_uid[uid], link))
        for uid, (link, impossible) in stopped.items()
    }
    return Admissions(frozenset(admitted), waiting)


def _rank(job: Participant, now: float) -> float:
    return job.priority + max(0.0, now - job.asked_at) / AGEING_SECONDS


def _is_behind(job: Participant, blocked_since: float | None, now: float) -> bool:
    """Whether an earlier job waits on the link that this one must not overtake."""
    if blocked_since is None:
        return False
    return job.guarantee_bps > 0.0 or now - blocked_since >= OVERTAKING_SECONDS


def _impossible(rules: Rules, link: str) -> str:
    available = format_rate_rounded(rules.links[link].available_bps)
    return (
        f"bandwidth.guarantee is more than link {link} ever has for it ({available} less what other tenants are guaranteed,"
        " and the tenant's limit): lower it, or ask an administrator about the FairnessPolicy"
    )


def _wait_message(promises: _Promises, queue: Sequence[Participant], job: Participant, link: str) -> str:
    place = 1 + next(number for number, each in enumerate(queue) if each.uid == job.uid)
    taken = format_rate_rounded(promises.taken(link, tenants_too=job.guarantee_bps > 0.0))
    available = format_rate_rounded(promises.rules.links[link].available_bps)
    wanted = f"bandwidth.guarantee {format_rate_rounded(job.guarantee_bps)}" if job.guarantee_bps > 0.0 else "this job"
    return f"link {link} has promised {taken} of {available} and has no room for {wanted}: place {place} of {len(queue)} in its queue"
