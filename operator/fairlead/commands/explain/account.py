"""What is known of a job, joined from what was read: the document that `-o json` prints and the text is made of."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.fairnesspolicy import FairnessPolicy
from fairlead.api.fairnesspolicy.status import LinkStatus, TenantStatus
from fairlead.api.networkpath import NetworkPath
from fairlead.api.reasons import ConditionType, PolicyConditionType
from fairlead.api.shared.fields import Condition
from fairlead.api.shared.quantity import RateError, format_ratio, parse_rate
from fairlead.api.shared.resource import ApiModel, Timestamp
from fairlead.api.transferjob import TransferJob
from fairlead.api.transferjob.spec import Side
from fairlead.api.transferjob.status import (
    BandwidthStatus,
    DecisionStatus,
    EndpointStatus,
    EngineChoice,
    FailureStatus,
    PathStatus,
    ProgressStatus,
)
from fairlead.commands.explain.facts import Facts, JobEvent
from fairlead.core.paths.model import PathEnds
from fairlead.core.paths.objects import choose

_ORDER = {kind.value: number for number, kind in enumerate(ConditionType)}


class ExplainedEnd(ApiModel):
    """Where one end of the transfer is."""

    node: str | None = None
    """The node where it runs, or the one that the job names."""
    pod: str | None = None
    interface: str | None = None
    address: str | None = None
    claim: str
    path: str


class JobBandwidth(ApiModel):
    """What the job may send and what it does."""

    limit: str | None = None
    guarantee: str | None = None
    weight: int
    cap: str | None = None
    """The cap in force."""
    measured: str | None = None
    part_of_cap: str | None = None
    """Measured over cap, a ratio."""
    enforced_by: str
    bound_by: str | None = None
    tenant: TenantStatus | None = None
    """The job's tenant in the policy's status, or its name alone in `tenantName`."""
    tenant_name: str | None = None
    bottleneck: str | None = None
    link: LinkStatus | None = None
    """The bottleneck in the policy's status: its rates, and how many jobs cross it and wait for it."""


class JobPath(ApiModel):
    """What is known of the path between the job's nodes: by the job's own namespace, where that has measured it."""

    name: str | None = None
    """Of the NetworkPath; absent if there is none, or it may not be listed."""
    job: PathStatus | None = None
    """What the job's own advisor measured."""
    rtt: str | None = None
    capacity: str | None = None
    """Most that one transfer got lately."""
    declared_capacity: str | None = None
    background: str | None = None
    last_measured_time: Timestamp | None = None


class Explanation(ApiModel):
    """Why a job stands where it stands."""

    version: int = 1
    namespace: str
    name: str
    uid: str
    created_time: Timestamp
    deleting: bool
    managed_by: str
    phase: str
    answers_spec: bool
    """Whether the status is of the present spec."""
    conditions: tuple[Condition, ...]
    network: str
    source: ExplainedEnd
    destination: ExplainedEnd
    bandwidth: JobBandwidth
    path: JobPath | None = None
    engine_choice: EngineChoice | None = None
    decision: DecisionStatus | None = None
    progress: ProgressStatus | None = None
    attempts: int
    failures: int
    backoff_limit: int
    last_failure: FailureStatus | None = None
    start_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    events: tuple[JobEvent, ...] = ()
    not_shown: tuple[str, ...] = ()

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, None if it was never set."""
        return next((condition for condition in self.conditions if condition.type == kind), None)

    def is_true(self, kind: str) -> bool:
        """Whether the condition of that type is True."""
        found = self.condition(kind)
        return found is not None and found.status == "True"


def account_of(facts: Facts) -> Explanation:
    """Joins what was read. Of other tenants' jobs it has numbers alone."""
    job, status = facts.job, facts.job.status
    ends = status.endpoints
    return Explanation(
        namespace=job.metadata.namespace,
        name=job.metadata.name,
        uid=job.metadata.uid,
        created_time=job.metadata.creation_timestamp,
        deleting=job.deleting,
        managed_by=job.spec.managed_by,
        phase=status.phase or "Unknown",
        answers_spec=status.observed_generation == job.metadata.generation,
        conditions=tuple(sorted(status.conditions, key=lambda condition: _ORDER.get(condition.type, len(_ORDER)))),
        network=job.spec.network,
        source=_end(job.spec.source, ends.source if ends else None),
        destination=_end(job.spec.destination, ends.destination if ends else None),
        bandwidth=_bandwidth(job, _in_force(facts.policies)),
        path=_path(job, facts.paths),
        engine_choice=status.engine_choice,
        decision=status.decision,
        progress=status.progress,
        attempts=status.attempts or 0,
        failures=status.failures or 0,
        backoff_limit=job.spec.backoff_limit,
        last_failure=status.last_failure,
        start_time=status.start_time,
        completion_time=status.completion_time,
        events=facts.events,
        not_shown=facts.not_shown,
    )


def _end(side: Side, known: EndpointStatus | None) -> ExplainedEnd:
    known = known or EndpointStatus()
    return ExplainedEnd(
        node=known.node or side.node, pod=known.pod, interface=known.interface, address=known.address, claim=side.claim_name, path=side.path
    )


def _in_force(policies: Iterable[FairnessPolicy]) -> FairnessPolicy | None:
    def is_accepted(policy: FairnessPolicy) -> bool:
        return any(each.type == PolicyConditionType.ACCEPTED and each.status == "True" for each in policy.status.conditions)

    return next((policy for policy in policies if is_accepted(policy)), None)


def _bandwidth(job: TransferJob, policy: FairnessPolicy | None) -> JobBandwidth:
    wanted, used = job.spec.bandwidth, job.status.bandwidth or BandwidthStatus()
    links = policy.status.links if policy else ()
    tenants = policy.status.tenants if policy else ()
    return JobBandwidth(
        limit=wanted.limit if wanted else None,
        guarantee=wanted.guarantee if wanted else None,
        weight=wanted.weight if wanted else 100,
        cap=used.allocated,
        measured=used.measured,
        part_of_cap=_ratio(used.measured, used.allocated_bps),
        enforced_by=used.enforced_by,
        bound_by=used.bound_by,
        tenant_name=used.tenant,
        tenant=next((tenant for tenant in tenants if tenant.name == used.tenant), None),
        bottleneck=used.bottleneck,
        link=next((link for link in links if link.name == used.bottleneck), None),
    )


def _ratio(measured: str | None, cap_bps: int | None) -> str | None:
    if measured is None or not cap_bps:
        return None
    try:
        return format_ratio(parse_rate(measured) / cap_bps)
    except RateError:
        return None


def _path(job: TransferJob, paths: Iterable[NetworkPath]) -> JobPath | None:
    own, ends = job.status.path, job.status.endpoints
    known = _known_path(ends.source, ends.destination, paths) if ends and ends.source and ends.destination else None
    if known is None:
        return JobPath(job=own) if own else None
    own_namespace = job.metadata.namespace
    status = next((each for each in known.status.namespaces if each.namespace == own_namespace), known.status)
    return JobPath(
        name=known.metadata.name,
        job=own,
        rtt=status.rtt,
        capacity=status.capacity,
        declared_capacity=known.spec.capacity,
        background=status.background.class_ if status.background else None,
        last_measured_time=status.last_measured_time,
    )


def _known_path(source: EndpointStatus, destination: EndpointStatus, paths: Iterable[NetworkPath]) -> NetworkPath | None:
    if source.node is None or destination.node is None:
        return None
    return choose(paths, PathEnds(source.node, source.interface, destination.node, destination.interface))
