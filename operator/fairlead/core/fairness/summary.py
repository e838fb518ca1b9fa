"""A policy's status: what its links and tenants have, and what keeps it from being carried out as written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from fairlead.api.fairnesspolicy import FairnessPolicyStatus
from fairlead.api.fairnesspolicy.status import LinkStatus, TenantStatus
from fairlead.api.reasons import PolicyConditionType, PolicyReason
from fairlead.api.shared.quantity import format_rate_rounded, format_ratio
from fairlead.core.allocation import jain_index
from fairlead.core.conditions import Conditions
from fairlead.core.fairness.lanes import gather, job_uid
from fairlead.core.fairness.model import Participant
from fairlead.core.fairness.parts import narrow_links
from fairlead.core.fairness.round import RoundResult
from fairlead.core.fairness.rules import Candidate, PolicyRules, some

STATUS_INTERVAL = timedelta(seconds=10)
"""The least time between two writes of a status in which no condition changed."""
_KEPT = 1.0 - 1e-9


def accepted_status(policy: Candidate, rules: PolicyRules, outcome: RoundResult, problem: str, now: datetime) -> FairnessPolicyStatus:
    """The status of the policy in force. `problem` is why its present version is not, if an earlier one of it is."""
    conditions = _conditions(policy, now)
    if problem:
        message = f"{problem}; the last good version stays in force"
        conditions.set(PolicyConditionType.ACCEPTED, "False", PolicyReason.INVALID_SPEC, message)
    else:
        conditions.set(PolicyConditionType.ACCEPTED, "True", PolicyReason.IN_FORCE, "jobs share the links by this policy")
    _links_resolved(conditions, rules)
    _tenants_matched(conditions, rules)
    _guarantees_met(conditions, rules, outcome)
    if outcome.fair.approximated:
        number = outcome.fair.approximated
        message = f"{number} jobs share by approximation, within capacities and guarantees: too many links depend on each other"
        conditions.set(PolicyConditionType.SHARES_EXACT, "False", PolicyReason.APPROXIMATED, message)
    else:
        conditions.set(PolicyConditionType.SHARES_EXACT, "True", PolicyReason.EXACT, "every job has its fair share")
    return FairnessPolicyStatus(
        conditions=conditions.build(),
        links=tuple(_link(name, jobs, rules, outcome) for name, jobs in jobs_by_link(rules, outcome).items()),
        tenants=tuple(_tenant(name, jobs, rules, outcome) for name, jobs in jobs_by_tenant(rules, outcome).items()),
        jobs=len(outcome.sharing),
        waiting=len(outcome.asking),
        jain_index=_index(measured_jain(outcome.sharing, rules, outcome)),
        observed_generation=policy.metadata.generation,
    )


def refused_status(policy: Candidate, reason: PolicyReason, message: str, now: datetime) -> FairnessPolicyStatus:
    """The status of a policy that is not in force."""
    conditions = _conditions(policy, now)
    conditions.set(PolicyConditionType.ACCEPTED, "False", reason, message)
    for kind in PolicyConditionType:
        if kind is not PolicyConditionType.ACCEPTED:
            conditions.remove(kind)
    return FairnessPolicyStatus(conditions=conditions.build(), observed_generation=policy.metadata.generation)


def was_in_force(status: FairnessPolicyStatus) -> bool:
    """Whether some version of the policy was in force when the status was written, or had been before its last good version was lost."""
    accepted = next((condition for condition in status.conditions if condition.type == PolicyConditionType.ACCEPTED), None)
    if accepted is None:
        return False
    return accepted.status == "True" or bool(status.links) or accepted.reason == PolicyReason.LAST_GOOD_UNKNOWN


def is_worth_writing(before: FairnessPolicyStatus, after: FairnessPolicyStatus, since_last_write: timedelta | None) -> bool:
    """Whether `after` is to be written: conditions at once, figures when the last write is long enough ago (None: no write known)."""
    if after == before:
        return False
    if _verdicts(after) != _verdicts(before) or before.observed_generation != after.observed_generation:
        return True
    return since_last_write is None or since_last_write >= STATUS_INTERVAL


def _verdicts(status: FairnessPolicyStatus) -> list[tuple[str, str, str]]:
    return [(condition.type, condition.status, condition.reason) for condition in status.conditions]


def _conditions(policy: Candidate, now: datetime) -> Conditions:
    generation = policy.metadata.generation
    return Conditions(policy.status.conditions, generation=generation, now=now.replace(microsecond=0), kinds=PolicyConditionType)


def _links_resolved(conditions: Conditions, rules: PolicyRules) -> None:
    kind, problems = PolicyConditionType.LINKS_RESOLVED, rules.unresolved.values()
    if problems:
        reason = min((problem.reason for problem in problems), key=list(PolicyReason).index)
        conditions.set(kind, "False", reason, "; ".join(problem.message for problem in problems))
        return
    paths = some(link.name for link in rules.links.values() if link.between is not None)
    uncounted = f"; others' traffic on {paths} cannot be counted, so that headroom is all that is left to it" if paths else ""
    conditions.set(kind, "True", PolicyReason.ALL_RESOLVED, f"the jobs and the capacity of each link are known{uncounted}")


def _tenants_matched(conditions: Conditions, rules: PolicyRules) -> None:
    kind, empty = PolicyConditionType.TENANTS_MATCHED, rules.without_namespaces
    overlaps = some(f"{name} ({', '.join(tenants)})" for name, tenants in rules.overlaps.items())
    problems = [
        *([f"no namespace is selected by tenants {some(empty)}: correct their namespaceSelector or label namespaces"] if empty else []),
        *([f"namespaces selected by several tenants belong to the first: {overlaps}"] if overlaps else []),
    ]
    if not problems:
        conditions.set(kind, "True", PolicyReason.ALL_MATCHED, "each tenant has namespaces, each namespace one tenant at most")
        return
    reason = PolicyReason.SELECTORS_OVERLAP if overlaps else PolicyReason.SELECTOR_MATCHES_NOTHING
    conditions.set(kind, "False", reason, "; ".join(problems))


def _guarantees_met(conditions: Conditions, rules: PolicyRules, outcome: RoundResult) -> None:
    problems: list[str] = []
    for name, jobs in jobs_by_link(rules, outcome).items():
        available, ratio = rules.links[name].available_bps, outcome.fair.links[name].guarantee_ratio
        # A tenant that uses other links only lacks nothing here.
        promised = sum(tenant.guarantee_bps for tenant in {rules.tenant(job.namespace) for job in jobs})
        if promised > available:
            problems.append(
                f"{name} has {format_rate_rounded(available)} for its jobs' tenants, whose guarantees are {format_rate_rounded(promised)}"
            )
        elif ratio < _KEPT:
            problems.append(f"{name} keeps {format_ratio(ratio)} of the guarantees of its jobs' tenants")
    problems += [
        f"tenant {name}'s part of its links keeps {format_ratio(share.guarantee_ratio)} of its jobs' guarantees"
        for name, share in outcome.fair.tenants.items()
        if share.guarantee_ratio < _KEPT
    ]
    if problems:
        message = f"guarantees shrink in proportion: {some(problems)}; lower guarantees or raise capacities"
        conditions.set(PolicyConditionType.GUARANTEES_MET, "False", PolicyReason.GUARANTEES_SHRUNK, message)
    else:
        narrow = some(narrow_links(rules))
        at_once = f"; those of all tenants at once would not on {narrow}" if narrow else ""
        message = f"the guarantees of jobs, and of the tenants that have jobs on a link, fit on every link{at_once}"
        conditions.set(PolicyConditionType.GUARANTEES_MET, "True", PolicyReason.GUARANTEES_FIT, message)


def jobs_by_link(rules: PolicyRules, outcome: RoundResult) -> dict[str, list[Participant]]:
    """The jobs that share each link, those with several paths as their lanes there."""
    jobs: dict[str, list[Participant]] = {name: [] for name in rules.links}
    for job in outcome.lanes:
        for link in outcome.routes[job.uid]:
            jobs[link].append(job)
    return jobs


def jobs_by_tenant(rules: PolicyRules, outcome: RoundResult) -> dict[str, list[Participant]]:
    """Each tenant's jobs that share links."""
    jobs: dict[str, list[Participant]] = {name: [] for name in rules.tenants}
    for job in outcome.sharing:
        jobs[rules.tenant(job.namespace).name].append(job)
    return jobs


def number_of(jobs: Iterable[Participant]) -> int:
    """How many jobs these are, some of them perhaps as lanes."""
    return len({job_uid(job.uid) for job in jobs})


def _link(name: str, jobs: list[Participant], rules: PolicyRules, outcome: RoundResult) -> LinkStatus:
    foreign = outcome.foreign_bps.get(name)
    return LinkStatus(
        name=name,
        capacity=format_rate_rounded(rules.links[name].capacity_bps),
        capacity_source=rules.links[name].capacity_source,
        available=format_rate_rounded(outcome.available_bps[name]),
        allocated=_allocated(jobs, outcome),
        measured=_measured(jobs, outcome),
        foreign=None if foreign is None else format_rate_rounded(foreign),
        jobs=number_of(jobs),
        waiting=sum(name in outcome.routes[job.uid] for job in outcome.asking),
        jain_index=_index(measured_jain(jobs, rules, outcome)),
    )


def _tenant(name: str, jobs: list[Participant], rules: PolicyRules, outcome: RoundResult) -> TenantStatus:
    waiting = sum(rules.tenant(job.namespace).name == name for job in outcome.asking)
    return TenantStatus(
        name=name,
        namespaces=rules.tenants[name].namespaces,
        jobs=len(jobs),
        waiting=waiting,
        allocated=_allocated(jobs, outcome),
        measured=_measured(jobs, outcome),
        jain_index=_index(measured_jain(jobs, rules, outcome)),
    )


def _allocated(jobs: Iterable[Participant], outcome: RoundResult) -> str:
    return format_rate_rounded(sum(outcome.caps_bps[job.uid] for job in jobs))


def _measured(jobs: Iterable[Participant], outcome: RoundResult) -> str | None:
    rates = [outcome.measured_bps[job.uid] for job in jobs if job.uid in outcome.measured_bps]
    return format_rate_rounded(sum(rates)) if rates else None


def measured_jain(jobs: Iterable[Participant], rules: PolicyRules, outcome: RoundResult) -> float | None:
    """Jain's index of what these jobs were measured to use per weight; None while nothing is measured.

    A job's weight is its part of its tenant's, which is shared by those of `jobs` that are the tenant's. Lanes of one job are one job.
    """
    # What gives way is not meant to have a share beside others.
    measured = [job for job in jobs if job.uid in outcome.measured_bps]
    measured = [job for job in measured if not job.gives_way] or measured
    own: dict[str, float] = defaultdict(float)
    for job in measured:
        own[rules.tenant(job.namespace).name] += job.weight
    weights = {job.uid: job.weight / own[tenant.name] * tenant.weight for job in measured if (tenant := rules.tenant(job.namespace))}
    rates, of_jobs = gather(outcome.measured_bps, measured), gather(weights, measured)
    return jain_index([rate_bps / of_jobs[uid] for uid, rate_bps in rates.items()])


def _index(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"
