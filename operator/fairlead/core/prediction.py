"""What would become of a job if it were created now: the operator's own decisions on objects as somebody may read them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fairlead.api.datatransfernode import DataTransferNode
from fairlead.api.networkpath import NetworkPath
from fairlead.api.reasons import ConditionType, Reason
from fairlead.api.shared.errors import InvalidResourceError
from fairlead.api.shared.fields import Condition
from fairlead.api.transferjob import TransferJob
from fairlead.core.destinations import writer_before, writer_of
from fairlead.core.dtn import transfer_node_of
from fairlead.core.fairness.model import JobStage, Participant
from fairlead.core.fairness.participant import participant_of
from fairlead.core.fairness.round import RoundInput, RoundMemory, RoundResult, run_round
from fairlead.core.fairness.rules import choose as choose_policy
from fairlead.core.fairness.rules import read_candidate, read_rules
from fairlead.core.fairness.shares import fair_shares
from fairlead.core.lifecycle.machine import decide
from fairlead.core.lifecycle.placing import holding_of, request_of
from fairlead.core.network import ends_of
from fairlead.core.observed import Observed
from fairlead.core.paths.assignment import assignment_of, knowledge_of
from fairlead.core.paths.model import PathEnds, ProbeAssignment
from fairlead.core.paths.objects import choose as choose_path
from fairlead.core.placement import place_all
from fairlead.core.placement.model import Placement


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything beside the job that decides. `jobs` and `policies` are objects, `namespaces` the labels of each."""

    jobs: Sequence[Mapping[str, Any]] = ()
    policies: Sequence[Mapping[str, Any]] = ()
    paths: Sequence[NetworkPath] = ()
    nodes: Sequence[DataTransferNode] = ()
    namespaces: Mapping[str, Mapping[str, str]] | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the operator would decide now."""

    obstacle: Condition | None
    """What would keep the job from starting; None if it would start."""
    placement: Placement | None
    """None where nothing is described, or no place is free."""
    source_node: str | None
    destination_node: str | None
    tenant: str | None
    """None without a policy."""
    links: tuple[str, ...]
    """Those of the policy that it would cross."""
    fair_bps: float | None
    """Its max-min fair share while every other job takes all that it may; None where it shares no link."""
    limit_bps: float | None
    path: NetworkPath | None
    assignment: ProbeAssignment | None
    """What its advisor would be told of the path; None while the ends are not known."""

    @property
    def rate_bps(self) -> float | None:
        """The least of what would bound it; None where nothing is known that does."""
        known = self.assignment.known.capacity_bps if self.assignment is not None else None
        spare = self.placement.spare_bps if self.placement is not None else None
        return min((each for each in (self.fair_bps, self.limit_bps, known, spare) if each is not None), default=None)

    def seconds_for(self, size_bytes: int) -> float | None:
        """How long so many bytes would take at that rate."""
        return size_bytes * 8 / self.rate_bps if self.rate_bps else None


def predict(observed: Observed, cluster: ClusterView, now: datetime) -> Prediction:
    """What becomes of a job that nobody has created. Raises InvalidPolicyError and AllocationInputError for a policy that cannot be."""
    uid = observed.job.metadata.uid
    writer = writer_of(_body(observed.job))
    neighbours = (body for body in cluster.jobs if body["metadata"]["namespace"] == observed.job.metadata.namespace)
    others = (found for body in neighbours if (found := writer_of(body)) is not None)
    before = None if writer is None else writer_before(writer, others)
    nodes = {node.metadata.name: transfer_node_of(node, now) for node in cluster.nodes}
    known = replace(observed, destination_writer=None if before is None else before.name, transfer_nodes=nodes)
    request = request_of(known, now)
    if request is not None and nodes:
        holdings = [holding for body in cluster.jobs if (holding := holding_of(body)) is not None]
        _, answers = place_all(nodes, holdings, [request], now.timestamp())
        known = replace(known, placement=answers[uid])
    shared = _round(known, cluster, now)
    if shared is not None:
        known = replace(known, fairness=shared.result.job_shares.get(uid))
    plan = decide(known, now)
    source, destination = ends_of(known, 0)
    path, assignment = None, None
    if source.node is not None and destination.node is not None:
        path = choose_path(cluster.paths, PathEnds(source.node, source.interface, destination.node, destination.interface))
        assignment = _assignment(path, known, now)
    bandwidth = observed.job.spec.bandwidth
    return Prediction(
        obstacle=None if plan.status is None else _obstacle(plan.status.conditions),
        placement=known.placement if isinstance(known.placement, Placement) else None,
        source_node=source.node,
        destination_node=destination.node,
        tenant=None if shared is None else shared.tenant,
        links=() if shared is None else shared.result.routes.get(uid, ()),
        fair_bps=None if shared is None else shared.fair_bps,
        limit_bps=bandwidth.limit_bps if bandwidth is not None else None,
        path=path,
        assignment=assignment,
    )


@dataclass(frozen=True, slots=True)
class _Shared:
    result: RoundResult
    tenant: str
    fair_bps: float | None


def _round(observed: Observed, cluster: ClusterView, now: datetime) -> _Shared | None:
    """The round after the job has asked for its links; None without a policy, and where the job asks for nothing."""
    chosen = choose_policy(map(read_candidate, cluster.policies))
    own = participant_of(observed, asks=True, now=now.timestamp())
    if chosen is None or chosen.policy is None or own is None:
        return None
    rules = read_rules(chosen.policy, cluster.namespaces or {}, cluster.paths)
    sharing = [found for body in cluster.jobs if (found := _participant(body, now)) is not None]
    result = run_round(RoundInput(rules, (*sharing, own), {}, {}), RoundMemory(), now.timestamp())
    # The round gives a job that sends nothing yet little, and more as its data flow: what counts is what it comes to.
    flowing = {replace(job, stage=JobStage.FLOWING): math.inf for job in result.sharing}
    shares = fair_shares(rules, result.available_bps, result.routes, flowing, {job.uid: 0.0 for job in flowing})
    return _Shared(result, rules.tenant(own.namespace).name, shares.caps_bps.get(own.uid))


def _participant(body: Mapping[str, Any], now: datetime) -> Participant | None:
    try:
        job = TransferJob.from_object(body)
    except InvalidResourceError:
        return None
    scheduled = job.status.condition(ConditionType.SCHEDULED)
    asks = scheduled is not None and scheduled.status == "False" and scheduled.reason == Reason.WAITING_FOR_LINK
    return participant_of(Observed(job=job), asks=asks, now=now.timestamp())


def _assignment(path: NetworkPath | None, observed: Observed, now: datetime) -> ProbeAssignment | None:
    if path is None:
        return None
    knowledge = knowledge_of(path.status, observed.job.metadata.namespace, now)
    return assignment_of(knowledge, path.spec.capacity_bps, (), busy=False, competes=path.spec.competes, shares=path.spec.shares, now=now)


def _obstacle(conditions: Sequence[Condition]) -> Condition | None:
    by_type = {condition.type: condition for condition in conditions}
    suspended = by_type.get(ConditionType.SUSPENDED)
    if suspended is not None and suspended.status == "True":
        return suspended
    held = (by_type.get(kind) for kind in (ConditionType.ACCEPTED, ConditionType.SCHEDULED))
    return next((condition for condition in held if condition is not None and condition.status == "False"), None)


def _body(job: TransferJob) -> Mapping[str, Any]:
    created = f"{job.metadata.creation_timestamp:%Y-%m-%dT%H:%M:%SZ}"
    metadata = {"name": job.metadata.name, "uid": job.metadata.uid, "creationTimestamp": created}
    return {"metadata": metadata, "spec": job.spec.to_object()}
