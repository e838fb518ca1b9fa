"""What `why` reads: the job with its events, and while it does not run, its pods with theirs and the operator's Deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from fairlead.api import names
from fairlead.api.reasons import ConditionType
from fairlead.api.transferjob import TransferJob
from fairlead.commands.explain.facts import Facts, list_or_name, read_facts
from fairlead.kube.client import EVENTS, JOBS, PODS, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import KubeError

DEPLOYMENTS = ResourceKind("apps/v1", "deployments")
_OPERATOR = f"{names.LABEL_NAME}={names.NAME},{names.LABEL_COMPONENT}=operator"

OperatorState = Literal["Running", "NotRunning", "Missing"]


@dataclass(frozen=True, slots=True)
class PodTrouble:
    """What a mover's pod, or an event about it, tells of why it does not run."""

    pod: str
    role: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class JobEvidence:
    """All that was read. `operator` and `operator_message` are empty where the user may not see it."""

    facts: Facts
    troubles: tuple[PodTrouble, ...] = ()
    spec_changed_at: datetime | None = None
    operator: OperatorState | None = None
    operator_message: str = ""


async def read_evidence(client: KubeClient, server: str, namespace: str, name: str) -> JobEvidence:
    """Raises ExplainError if the job itself cannot be read; what else cannot is left out and named."""
    facts = await read_facts(client, server, namespace, name)
    if facts.job.status.finished and not facts.job.deleting:
        return JobEvidence(facts)
    not_shown = list(facts.not_shown)
    troubles: list[PodTrouble] = []
    if facts.job.status.pods and not facts.job.status.is_true(ConditionType.MOVERS_READY):
        troubles = await _troubles(client, server, facts.job, not_shown)
    operator, message = await _operator(client)
    facts = Facts(facts.job, facts.events, facts.policies, facts.paths, tuple(not_shown))
    return JobEvidence(facts, tuple(troubles), await _spec_changed_at(client, facts.job), operator, message)


async def _troubles(client: KubeClient, server: str, job: TransferJob, not_shown: list[str]) -> list[PodTrouble]:
    namespace, selector = job.metadata.namespace, f"{names.LABEL_JOB_UID}={job.metadata.uid}"
    pods = await list_or_name(client, PODS, namespace, server, not_shown, label_selector=selector)
    found: list[PodTrouble] = []
    for pod in pods:
        # Whoever may create pods can make one with these labels.
        if pod["metadata"]["uid"] not in job.status.pod_uids:
            continue
        own = troubles_of_pod(pod)
        found += own
        if not any(each.reason not in _SAYS_LITTLE for each in own) and not _is_ready(pod):
            about = f"involvedObject.kind=Pod,involvedObject.uid={pod['metadata']['uid']}"
            found += troubles_of_events(pod, await list_or_name(client, EVENTS, namespace, server, not_shown, field_selector=about))
    return found


_SAYS_LITTLE = frozenset({"ContainerCreating", "PodInitializing", "SchedulingGated"})


def troubles_of_pod(pod: Mapping[str, Any]) -> list[PodTrouble]:
    """From the pod's status: its own reason, that of the scheduler, and those of containers that wait or were killed."""
    status = pod.get("status") or {}
    found: list[tuple[str, str]] = []
    if status.get("reason"):
        found.append((str(status["reason"]), str(status.get("message") or "")))
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            found.append((str(condition.get("reason") or "Unschedulable"), str(condition.get("message") or "")))
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state = container.get("state") or {}
        stopped = state.get("waiting") or state.get("terminated") or {}
        reason = str(stopped.get("reason") or "")
        if reason and reason not in {"Completed", "Error"}:
            found.append((reason, str(stopped.get("message") or "")))
    return [_trouble(pod, reason, message) for reason, message in found]


def troubles_of_events(pod: Mapping[str, Any], events: Iterable[KubeObject]) -> list[PodTrouble]:
    """From warnings of the kubelet and the scheduler about the pod, the latest first."""
    warnings = [event for event in events if event.get("type") == "Warning"]
    latest = sorted(warnings, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""), reverse=True)
    return [_trouble(pod, str(event.get("reason") or ""), str(event.get("message") or "")) for event in latest]


def _trouble(pod: Mapping[str, Any], reason: str, message: str) -> PodTrouble:
    metadata = pod["metadata"]
    return PodTrouble(metadata["name"], (metadata.get("labels") or {}).get(names.LABEL_ROLE, ""), reason, message)


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)


async def _spec_changed_at(client: KubeClient, job: TransferJob) -> datetime | None:
    """When the spec was last written, by the API server's own account; None while the status answers it, or nobody knows."""
    if job.status.observed_generation == job.metadata.generation:
        return None
    try:
        body = await client.get(JOBS, job.metadata.namespace, job.metadata.name)
    except KubeError:
        return None
    written = [entry.get("time") for entry in body["metadata"].get("managedFields") or [] if entry.get("subresource") != "status"]
    return max((datetime.fromisoformat(time) for time in written if time), default=None)


async def _operator(client: KubeClient) -> tuple[OperatorState | None, str]:
    """How Fairlead's own Deployment is, for those who may see it: ordinary users may not, and that is no fault."""
    try:
        found = [body async for page in client.list_pages(DEPLOYMENTS, label_selector=_OPERATOR) for body in page]
    except KubeError:
        return None, ""
    return state_of_operator(found)


def state_of_operator(deployments: Iterable[KubeObject]) -> tuple[OperatorState, str]:
    """Running if any of them has a pod that is available; the message says how many each has."""
    described, any_available = [], False
    for deployment in deployments:
        metadata, status, spec = deployment["metadata"], deployment.get("status") or {}, deployment.get("spec") or {}
        available, wanted = int(status.get("availableReplicas") or 0), int(spec.get("replicas", 1))
        any_available = any_available or available > 0
        described.append(f"Deployment {metadata['namespace']}/{metadata['name']} has {available} of {wanted} pods available")
    if not described:
        return "Missing", "no Deployment of the cluster has the labels of Fairlead's operator"
    return "Running" if any_available else "NotRunning", "; ".join(described)
