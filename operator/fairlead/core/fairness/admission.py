"""Who may start: a job waits rather than that a promise on a link is broken.

Promises come out of what is the tenant's own: on a link its jobs' guarantees together must fit into its part, which is its guarantee or,
if more, its share by weight among the tenants that have jobs there. No tenant's jobs wait for another tenant's. Those of one tenant wait
in the order of priority, to which waiting adds, and nobody overtakes where a guarantee waits. Only jobs without guarantee do for a while,
for they take next to nothing of what is promised. Links that have room for a job which waits elsewhere keep it within the tenant's part.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from fairlead.api.shared.quantity import format_rate_rounded
from fairlead.core.fairness.lanes import spread
from fairlead.core.fairness.model import Admissions, Participant, Waiting
from fairlead.core.fairness.parts import PartKind, TenantParts
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


def _needs(rules: PolicyRules, job: Participant) -> dict[str, float]:
    """What the job needs on each of its links: its lanes there together."""
    needs: dict[str, float] = defaultdict(float)
    for lane in spread(rules, job):
        links = rules.links_of(lane)
        need = max(lane.guarantee_bps, least_bps(rules.links[link] for link in links) / lane.parts)
        for link in links:
            needs[link] += need
    return dict(sorted(needs.items()))


class _Lack(Enum):
    """What has too little left for a job."""

    PART = "part"
    """What is its tenant's of the link."""
    OTHERS = "others"
    """The same, but for others' traffic it would fit. That may go, or stay for ever."""


_Line = tuple[str, str]
"""Where jobs wait: a tenant's part of a link."""


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
    open_bps: Mapping[str, float] = field(default_factory=dict)
    """What others' traffic leaves of links; all that is available where it is not known."""
    held: dict[_Line, float] = field(default_factory=lambda: defaultdict(float))
    kept: dict[_Line, float] = field(default_factory=lambda: defaultdict(float))
    """What links with room keep for jobs that wait elsewhere."""
    kept_from_all: dict[_Line, float] = field(default_factory=lambda: defaultdict(float))
    """The part of it that jobs without guarantee may not take either."""
    parts: TenantParts = field(init=False)

    def __post_init__(self) -> None:
        self.parts = TenantParts(self.rules, self.open_bps, self.held)

    def line(self, job: Participant, link: str) -> _Line:
        return link, self.rules.tenant(job.namespace).name

    def add(self, job: Participant, needs: Mapping[str, float]) -> None:
        for link, need in needs.items():
            line = self.line(job, link)
            self.held[line] += need
            self.parts.enter(*line)

    def keep(self, job: Participant, link: str, need: float, now: float) -> None:
        """Reserves what the job will need, once it can start, on a link that has it."""
        line = self.line(job, link)
        self.kept[line] += need
        if now - job.asked_at >= OVERTAKING_SECONDS:
            self.kept_from_all[line] += need

    def lack(self, job: Participant, link: str, need: float) -> _Lack | None:
        """What has too little left on the link for the job, None if it fits."""
        line = self.line(job, link)
        if job.guarantee_bps <= 0.0:
            # Promised next to nothing: others' traffic must not keep it out, and one job of a tenant finds a place on any link.
            part_bps = self.parts.part_bps(*line, PartKind.LEAST)
            own = self.held[line] + self.kept_from_all[line]
            return None if own + need <= part_bps or own <= 0.0 < part_bps else _Lack.PART
        own = self.held[line] + self.kept[line]
        if own + need > self.parts.part_bps(*line, PartKind.GUARANTEES):
            return _Lack.PART
        return _Lack.OTHERS if own + need > self.parts.part_bps(*line, PartKind.OPEN) else None


@dataclass
class _Lines:
    """Who waits where, in order. Local to one call of `admit`."""

    now: float
    jobs: dict[_Line, list[Participant]] = field(default_factory=lambda: defaultdict(list))
    closed_since: dict[_Line, float] = field(default_factory=dict)
    """Since when a job waits there for its guarantee."""

    def behind(self, job: Participant, line: _Line) -> bool:
        """Whether earlier jobs wait there that this one must not overtake."""
        since = self.closed_since.get(line)
        return since is not None and (job.guarantee_bps > 0.0 or self.now - since >= OVERTAKING_SECONDS)

    def join(self, job: Participant, obstacle: _Obstacle) -> None:
        line = obstacle.line
        self.jobs[line].append(job)
        if job.guarantee_bps > 0.0:
            # Keeping out jobs without guarantee helps nobody against others' traffic.
            since = job.asked_at if obstacle.lack is _Lack.PART else math.inf
            self.closed_since[line] = min(self.closed_since.get(line, math.inf), since)


def admit(
    rules: PolicyRules,
    holders: Iterable[Participant],
    askers: Iterable[Participant],
    now: float,
    *,
    open_bps: Mapping[str, float] | None = None,
    raises: Iterable[Participant] = (),
    released: Collection[str] = (),
) -> Admissions:
    """Who of the askers may start beside the holders, and why the others wait. `Admissions.admitted` has the holders too.

    `open_bps` is what others' traffic leaves of links at present, as far as it is seen. What never fits is reported without it.
    `raises` are holders with a higher guarantee than they hold, which they want; those who wait to start come before them.
    `released` are the UIDs of holders for which nothing is kept.
    """
    promises, empty, lines = _Promises(rules, open_bps or {}), _Promises(rules), _Lines(now)
    admitted: set[str] = set()
    held: dict[str, Mapping[str, float]] = {}
    for job in holders:
        admitted.add(job.uid)
        held[job.uid] = {} if job.uid in released else _needs(rules, job)
        promises.add(job, held[job.uid])
    waiting: dict[str, Waiting] = {}
    stopped: list[tuple[Participant, _Obstacle]] = []
    for job in _in_order(rules, askers, now):
        needs = _needs(rules, job)
        never = _never(empty, job, needs)
        if never is not None:
            waiting[job.uid] = Waiting(never, _impossible(rules, job, never), impossible=True)
            continue
        obstacles = {link: found for link, need in needs.items() if (found := _obstacle(promises, lines, job, link, need)) is not None}
        if not obstacles:
            promises.add(job, needs)
            admitted.add(job.uid)
            continue
        stopped.append((job, next(iter(obstacles.values()))))
        for link, need in needs.items():
            if link in obstacles:
                lines.join(job, obstacles[link])
            elif job.guarantee_bps > 0.0:
                promises.keep(job, link, need, now)
    places = {line: {job.uid: place for place, job in enumerate(queue, 1)} for line, queue in lines.jobs.items()}
    for job, obstacle in stopped:
        place = places[obstacle.line][job.uid]
        waiting[job.uid] = Waiting(obstacle.line[0], _wait_message(promises, place, job, obstacle))
    return Admissions(frozenset(admitted), waiting, _raise(promises, empty, lines, raises, held))


def _in_order(rules: PolicyRules, askers: Iterable[Participant], now: float) -> list[Participant]:
    """Each tenant's jobs by rank. Between tenants it is the turn of the one whose next job has waited longest, whatever its priority."""
    queues: dict[str, list[Participant]] = defaultdict(list)
    for job in askers:
        queues[rules.tenant(job.namespace).name].append(job)
    for queue in queues.values():
        queue.sort(key=lambda job: (-_rank(job, now), job.asked_at, job.uid), reverse=True)
    heads = [(queue[-1].asked_at, queue[-1].uid, tenant) for tenant, queue in queues.items()]
    heapq.heapify(heads)
    ordered: list[Participant] = []
    while heads:
        _, _, tenant = heads[0]
        ordered.append(queues[tenant].pop())
        if queues[tenant]:
            heapq.heapreplace(heads, (queues[tenant][-1].asked_at, queues[tenant][-1].uid, tenant))
        else:
            heapq.heappop(heads)
    return ordered


def _raise(
    promises: _Promises, empty: _Promises, lines: _Lines, raises: Iterable[Participant], held: Mapping[str, Mapping[str, float]]
) -> dict[str, str]:
    """Gives higher guarantees to jobs that hold so much where they fit; returns why the others do not get theirs."""
    not_raised: dict[str, str] = {}
    for job in sorted(raises, key=lambda job: (-job.priority, job.uid)):
        needs = _needs(promises.rules, job)
        more = {link: need - held[job.uid].get(link, 0.0) for link, need in needs.items()}
        if (never := _never(empty, job, needs)) is not None:
            not_raised[job.uid] = _impossible(promises.rules, job, never)
        elif obstacles := [found for link, need in more.items() if (found := _obstacle(promises, lines, job, link, need)) is not None]:
            not_raised[job.uid] = _no_room_yet(promises, job, obstacles[0])
        else:
            promises.add(job, more)
    return not_raised


def _never(empty: _Promises, job: Participant, needs: Mapping[str, float]) -> str | None:
    """The link that lacks room for the job even if it had all links for itself, None if none does."""
    return next((link for link, need in needs.items() if empty.lack(job, link, need) is not None), None)


def _obstacle(promises: _Promises, lines: _Lines, job: Participant, link: str, need: float) -> _Obstacle | None:
    """Where on the link the job has to wait, None if nowhere."""
    lack, line = promises.lack(job, link, need), promises.line(job, link)
    if lines.behind(job, line):
        return _Obstacle(line, lack, is_behind=True)
    return None if lack is None else _Obstacle(line, lack, is_behind=False)


def _rank(job: Participant, now: float) -> float:
    return job.priority + max(0.0, now - job.asked_at) / AGEING_SECONDS


def _impossible(rules: PolicyRules, job: Participant, link: str) -> str:
    tenant = rules.tenant(job.namespace)
    if job.guarantee_bps > tenant.limit_bps:
        most = f"the limit of tenant {tenant.name}, {format_rate_rounded(tenant.limit_bps)}"
    else:
        available = format_rate_rounded(rules.links[link].available_bps)
        most = f"link {link} ever has for it ({available} less what other tenants are guaranteed)"
    return f"bandwidth.guarantee is more than {most}: lower it, or ask an administrator about the FairnessPolicy"


def _no_room_yet(promises: _Promises, job: Participant, obstacle: _Obstacle) -> str:
    link, tenant = obstacle.line
    limited = promises.parts.part_bps(link, tenant, PartKind.GUARANTEES) >= promises.rules.tenants[tenant].limit_bps
    where = f"within the limit of tenant {tenant} on link {link}" if limited else f"on link {link}"
    return f"bandwidth.guarantee {format_rate_rounded(job.guarantee_bps)} has no room {where} yet"


def _wait_message(promises: _Promises, place: int, job: Participant, obstacle: _Obstacle) -> str:
    link, tenant = obstacle.line
    wanted = f"bandwidth.guarantee {format_rate_rounded(job.guarantee_bps)}" if job.guarantee_bps > 0.0 else "this job"
    kept = promises.kept[obstacle.line]
    elsewhere = f", keeps {format_rate_rounded(kept)} for jobs that wait elsewhere" if kept > 0.0 else ""
    state = f"{_state(promises, link, tenant, job.guarantee_bps > 0.0)}{elsewhere}"
    why = f"has no room for {wanted}"
    if obstacle.is_behind:
        why = "jobs that wait for it come before this one"
    elif obstacle.lack is _Lack.OTHERS:
        # How much it leaves changes in every round, and the status must not.
        why = f"others' traffic leaves no room for {wanted}"
    return f"{state} and {why}: {_about(place)} in its queue"


def _about(place: int) -> str:
    """A place in steps of ten: each departure moves all who wait, and must not have all their statuses written."""
    if place == 1:
        return "first"
    return f"among the first {10 ** math.ceil(math.log10(place)):,}"


def _state(promises: _Promises, link: str, tenant: str, guaranteed: bool) -> str:
    """What the tenant has promised of what is its own on the link."""
    taken, limit_bps = format_rate_rounded(promises.held[link, tenant]), promises.rules.tenants[tenant].limit_bps
    part_bps = promises.parts.part_bps(link, tenant, PartKind.GUARANTEES if guaranteed else PartKind.LEAST)
    if part_bps >= limit_bps:
        return f"tenant {tenant} has promised {taken} of its limit of {format_rate_rounded(limit_bps)} on link {link}"
    if part_bps >= promises.rules.links[link].available_bps:
        return f"link {link} has promised {taken} of {format_rate_rounded(part_bps)}"
    return f"tenant {tenant} has promised {taken} of its part of {format_rate_rounded(part_bps)} on link {link}"
