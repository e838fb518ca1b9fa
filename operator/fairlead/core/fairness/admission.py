"""Who may start: a job waits rather than that a promise on a link is broken.

On a link the jobs' guarantees together must fit, and beside them what the policy guarantees to tenants and what others send. Jobs wait in
the order of priority, to which waiting adds, and nobody overtakes where a guarantee waits: on a link that lacks room for it, or within a
tenant whose limit does. Only jobs without guarantee do for a while, for they take next to nothing of what is promised. Links that have
room for a job which waits elsewhere keep it, and stay open to all others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from fairlead.api.shared.quantity import format_rate_rounded
from fairlead.core.fairness.model import Admissions, Participant, Waiting
from fairlead.core.fairness.rules import LinkRule, PolicyRules

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


def narrow_links(rules: PolicyRules) -> tuple[str, ...]:
    """The links on which the tenants' guarantees do not fit all at once. There only tenants with jobs count, or such a link were closed to
    all others for those who may never use it.
    """
    guaranteed_bps = sum(tenant.guarantee_bps for tenant in rules.tenants.values())
    return tuple(name for name, link in rules.links.items() if guaranteed_bps > link.available_bps)


class _Lack(Enum):
    """What has too little left for a job."""

    LINK = "link"
    OTHERS = "others"
    """The link, but for others' traffic it would fit. That may go, or stay for ever."""
    TENANT = "tenant"
    """The limit of its tenant, on one link. The link may have plenty."""


_Line = tuple[str, str | None]
"""Where jobs wait: a link, and the tenant if they wait for its limit there."""


@dataclass(frozen=True, slots=True)
class _Obstacle:
    line: _Line
    lack: _Lack | None
    is_behind: bool
    """Others wait there before this job, whether there is room or not."""


@dataclass
class _Promises:
    """What is promised on each link, by tenant. Local to one call of `admit`."""

    rules: PolicyRules
    narrow: frozenset[str]
    open_bps: Mapping[str, float] = field(default_factory=dict)
    """What others' traffic leaves of links; all that is available where it is not known."""
    held: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    kept: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    """What links with room keep for jobs that wait elsewhere."""
    kept_from_all: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    """The part of it that jobs without guarantee may not take either."""

    def add(self, job: Participant, links: Sequence[str], need: float) -> None:
        for link in links:
            self.held[link, self.rules.tenant(job.namespace).name] += need

    def keep(self, job: Participant, link: str, need: float, now: float) -> None:
        """Reserves what the job will need, once it can start, on a link that has it."""
        key = link, self.rules.tenant(job.namespace).name
        self.kept[key] += need
        if now - job.asked_at >= OVERTAKING_SECONDS:
            self.kept_from_all[key] += need

    def need(self, job: Participant, links: Sequence[str]) -> float:
        return max(job.guarantee_bps, least_bps(self.rules.links[link] for link in links))

    def lack(self, job: Participant, link: str, need: float) -> _Lack | None:
        """What has too little left on the link for the job, None if it fits."""
        available, tenant = self.rules.links[link].available_bps, self.rules.tenant(job.namespace)
        kept = self.kept if job.guarantee_bps > 0.0 else self.kept_from_all
        own = self.held[link, tenant.name] + kept[link, tenant.name]
        if own + need > tenant.limit_bps:
            return _Lack.TENANT
        needed = self._taken(link, kept, tenants_too=False) + need
        if job.guarantee_bps > 0.0 and own + need > tenant.guarantee_bps:
            needed = max(needed, self._taken(link, kept, tenants_too=True, but=tenant.name) + own + need)
        if needed > available:
            return _Lack.LINK
        # A job without guarantee is promised next to nothing: others' traffic must not keep it out.
        return _Lack.OTHERS if job.guarantee_bps > 0.0 and needed > self.open_bps.get(link, available) else None

    def promised(self, job: Participant, link: str) -> float:
        """What of a link is promised already, as far as it counts for the job: to jobs, and to tenants if it has a guarantee."""
        return self._taken(link, {}, tenants_too=job.guarantee_bps > 0.0)

    def _taken(self, link: str, kept: Mapping[tuple[str, str], float], *, tenants_too: bool, but: str | None = None) -> float:
        available = self.rules.links[link].available_bps
        absent_too = link not in self.narrow
        total = 0.0
        for tenant in self.rules.tenants.values():
            if tenant.name == but:
                continue
            jobs_bps = self.held[link, tenant.name] + kept.get((link, tenant.name), 0.0)
            counts = tenants_too and (absent_too or jobs_bps > 0.0)
            total += max(jobs_bps, min(tenant.guarantee_bps, available)) if counts else jobs_bps
        return total


@dataclass
class _Lines:
    """Who waits where, in order. Local to one call of `admit`."""

    rules: PolicyRules
    now: float
    jobs: dict[_Line, list[Participant]] = field(default_factory=lambda: defaultdict(list))
    closed_since: dict[_Line, float] = field(default_factory=dict)
    """Since when a job waits there for its guarantee."""

    def behind(self, job: Participant, link: str) -> _Line | None:
        """Where on the link earlier jobs wait that this one must not overtake, None if nowhere."""
        for line in ((link, self.rules.tenant(job.namespace).name), (link, None)):
            since = self.closed_since.get(line)
            if since is not None and (job.guarantee_bps > 0.0 or self.now - since >= OVERTAKING_SECONDS):
                return line
        return None

    def join(self, job: Participant, obstacle: _Obstacle) -> None:
        line = obstacle.line
        self.jobs[line].append(job)
        if job.guarantee_bps > 0.0:
            # Keeping out jobs without guarantee helps nobody against others' traffic.
            since = job.asked_at if obstacle.lack is (_Lack.LINK if line[1] is None else _Lack.TENANT) else math.inf
            self.closed_since[line] = min(self.closed_since.get(line, math.inf), since)


def admit(
    rules: PolicyRules,
    holders: Iterable[Participant],
    askers: Iterable[Participant],
    now: float,
    *,
    open_bps: Mapping[str, float] | None = None,
    raises: Iterable[Participant] = (),
) -> Admissions:
    """Who of the askers may start beside the holders, and why the others wait. `Admissions.admitted` has the holders too.

    `open_bps` is what others' traffic leaves of links at present, as far as it is seen. What never fits is reported without it.
    `raises` are holders with a higher guarantee than they hold, which they want; those who wait to start come before them.
    """
    narrow = frozenset(narrow_links(rules))
    promises, empty, lines = _Promises(rules, narrow, open_bps or {}), _Promises(rules, narrow), _Lines(rules, now)
    admitted: set[str] = set()
    held: dict[str, float] = {}
    for job in holders:
        links = rules.links_of(job)
        held[job.uid] = promises.need(job, links)
        promises.add(job, links, held[job.uid])
        admitted.add(job.uid)
    waiting: dict[str, Waiting] = {}
    stopped: list[tuple[Participant, _Obstacle]] = []
    for job in sorted(askers, key=lambda job: (-_rank(job, now), job.asked_at, job.uid)):
        links = rules.links_of(job)
        need = promises.need(job, links)
        never = _never(empty, job, links, need)
        if never is not None:
            waiting[job.uid] = Waiting(never[0], _impossible(rules, job, *never), impossible=True)
            continue
        obstacles = {link: found for link in links if (found := _obstacle(promises, lines, job, link, need)) is not None}
        if not obstacles:
            promises.add(job, links, need)
            admitted.add(job.uid)
            continue
        stopped.append((job, next(iter(obstacles.values()))))
        for link in links:
            if link in obstacles:
                lines.join(job, obstacles[link])
            elif job.guarantee_bps > 0.0:
                promises.keep(job, link, need, now)
    for job, obstacle in stopped:
        waiting[job.uid] = Waiting(obstacle.line[0], _wait_message(promises, lines.jobs[obstacle.line], job, obstacle))
    return Admissions(frozenset(admitted), waiting, _raise(promises, empty, lines, raises, held))


def _raise(
    promises: _Promises, empty: _Promises, lines: _Lines, raises: Iterable[Participant], held: Mapping[str, float]
) -> dict[str, str]:
    """Gives higher guarantees to jobs that hold so much where they fit; returns why the others do not get theirs."""
    not_raised: dict[str, str] = {}
    for job in sorted(raises, key=lambda job: (-job.priority, job.uid)):
        links = promises.rules.links_of(job)
        need = promises.need(job, links)
        more = need - held[job.uid]
        if (never := _never(empty, job, links, need)) is not None:
            not_raised[job.uid] = _impossible(promises.rules, job, *never)
        elif obstacles := [found for link in links if (found := _obstacle(promises, lines, job, link, more)) is not None]:
            not_raised[job.uid] = _no_room_yet(job, obstacles[0])
        else:
            promises.add(job, links, more)
    return not_raised


def _never(empty: _Promises, job: Participant, links: Sequence[str], need: float) -> tuple[str, _Lack] | None:
    """What lacks room for the job even if it had all links for itself, None if nothing does."""
    return next(((link, lack) for link in links if (lack := empty.lack(job, link, need)) is not None), None)


def _obstacle(promises: _Promises, lines: _Lines, job: Participant, link: str, need: float) -> _Obstacle | None:
    """Where on the link the job has to wait, None if nowhere."""
    lack, line = promises.lack(job, link, need), lines.behind(job, link)
    if line is not None:
        return _Obstacle(line, lack, is_behind=True)
    if lack is None:
        return None
    return _Obstacle((link, promises.rules.tenant(job.namespace).name if lack is _Lack.TENANT else None), lack, is_behind=False)


def _rank(job: Participant, now: float) -> float:
    return job.priority + max(0.0, now - job.asked_at) / AGEING_SECONDS


def _impossible(rules: PolicyRules, job: Participant, link: str, lack: _Lack) -> str:
    tenant = rules.tenant(job.namespace)
    if lack is _Lack.TENANT:
        most = f"the limit of tenant {tenant.name}, {format_rate_rounded(tenant.limit_bps)}"
    else:
        available = format_rate_rounded(rules.links[link].available_bps)
        most = f"link {link} ever has for it ({available} less what other tenants are guaranteed)"
    return f"bandwidth.guarantee is more than {most}: lower it, or ask an administrator about the FairnessPolicy"


def _no_room_yet(job: Participant, obstacle: _Obstacle) -> str:
    link, tenant = obstacle.line
    where = f"on link {link}" if tenant is None else f"within the limit of tenant {tenant} on link {link}"
    return f"bandwidth.guarantee {format_rate_rounded(job.guarantee_bps)} has no room {where} yet"


def _wait_message(promises: _Promises, queue: Sequence[Participant], job: Participant, obstacle: _Obstacle) -> str:
    link, tenant = obstacle.line
    wanted = f"bandwidth.guarantee {format_rate_rounded(job.guarantee_bps)}" if job.guarantee_bps > 0.0 else "this job"
    kept = sum(promises.kept[link, each] for each in ([tenant] if tenant is not None else promises.rules.tenants))
    elsewhere = f", keeps {format_rate_rounded(kept)} for jobs that wait elsewhere" if kept > 0.0 else ""
    if tenant is not None:
        taken = format_rate_rounded(promises.held[link, tenant])
        limit = format_rate_rounded(promises.rules.tenants[tenant].limit_bps)
        state = f"tenant {tenant} has promised {taken} of its limit of {limit} on link {link}{elsewhere}"
    else:
        taken = format_rate_rounded(promises.promised(job, link))
        available = format_rate_rounded(promises.rules.links[link].available_bps)
        state = f"link {link} has promised {taken} of {available}{elsewhere}"
    why = f"has no room for {wanted}"
    if obstacle.is_behind:
        why = "jobs that wait for it come before this one"
    elif obstacle.lack is _Lack.OTHERS:
        # How much it leaves changes in every round, and the status must not.
        why = f"others' traffic leaves no room for {wanted}"
    place = 1 + next(number for number, each in enumerate(queue) if each.uid == job.uid)
    return f"{state} and {why}: place {place} of {len(queue)} in its queue"
