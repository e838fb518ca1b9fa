"""What `explain` reads from the API server: the job, and as far as the user may, its events, the policies and the paths."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from fairlead.api.fairnesspolicy import FairnessPolicy
from fairlead.api.names import API_VERSION, GROUP
from fairlead.api.networkpath import NetworkPath
from fairlead.api.shared.errors import InvalidResourceError
from fairlead.api.shared.resource import ApiModel, Resource, Timestamp
from fairlead.api.transferjob import TransferJob
from fairlead.kube.client import EVENTS, JOBS, PATHS, POLICIES, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import ForbiddenError, KubeError, NotFoundError, UnauthorizedError, UnavailableError

MOST_EVENTS = 20
_MOST_SUGGESTED = 3

AnyResource = TypeVar("AnyResource", bound=Resource)


class ExplainError(Exception):
    """The job cannot be explained. The message is for the user and has the remedy."""


class JobEvent(ApiModel):
    """One event about the job."""

    time: Timestamp | None = None
    type: str = "Normal"
    reason: str = ""
    message: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read. `not_shown` has a sentence for each kind that could not be."""

    job: TransferJob
    events: tuple[JobEvent, ...] = ()
    policies: tuple[FairnessPolicy, ...] = ()
    paths: tuple[NetworkPath, ...] = ()
    not_shown: tuple[str, ...] = ()


async def read_facts(client: KubeClient, server: str, namespace: str, name: str) -> Facts:
    """Raises ExplainError if the job itself cannot be read; what else cannot is left out and named."""
    job = await read_job(client, server, namespace, name)
    not_shown: list[str] = []
    selector = f"involvedObject.kind=TransferJob,involvedObject.name={name},involvedObject.uid={job.metadata.uid}"
    events = await list_or_name(client, EVENTS, namespace, server, not_shown, field_selector=selector)
    policies = await list_or_name(client, POLICIES, None, server, not_shown)
    paths = await list_or_name(client, PATHS, None, server, not_shown)
    return Facts(job, _events(events), readable(FairnessPolicy, policies), readable(NetworkPath, paths), tuple(not_shown))


async def read_job(client: KubeClient, server: str, namespace: str, name: str) -> TransferJob:
    """Raises ExplainError."""
    try:
        return TransferJob.from_object(await client.get(JOBS, namespace, name))
    except NotFoundError as error:
        raise ExplainError(await _unknown(client, server, namespace, name)) from error
    except InvalidResourceError as error:
        raise ExplainError(
            f"this version of fairlead cannot read {namespace}/{name} ({error}): use the version that the cluster runs"
        ) from error
    except KubeError as error:
        raise ExplainError(refusal(error, "get", JOBS, namespace, server)) from error


async def list_or_name(
    client: KubeClient,
    kind: ResourceKind,
    namespace: str | None,
    server: str,
    not_shown: list[str],
    *,
    label_selector: str | None = None,
    field_selector: str | None = None,
) -> list[KubeObject]:
    """What there is; where the API server refuses, nothing, and `not_shown` gets a sentence that says so."""
    pages = client.list_pages(kind, namespace, label_selector=label_selector, field_selector=field_selector)
    try:
        return [body async for page in pages for body in page]
    except KubeError as error:
        not_shown.append(refusal(error, "list", kind, namespace, server))
        return []


def _events(bodies: list[KubeObject]) -> tuple[JobEvent, ...]:
    """The latest events, oldest first."""
    events = [event for body in bodies if (event := _event(body)) is not None]
    return tuple(sorted(events, key=lambda event: event.time or datetime.min.replace(tzinfo=UTC))[-MOST_EVENTS:])


def _event(body: Mapping[str, Any]) -> JobEvent | None:
    time = body.get("lastTimestamp") or body.get("eventTime") or (body.get("metadata") or {}).get("creationTimestamp")
    known = {key: value for key in ("type", "reason", "message", "count") if (value := body.get(key)) is not None}
    try:
        return JobEvent.model_validate({"time": time, **known})
    except ValidationError:
        return None


def readable(model: type[AnyResource], bodies: list[KubeObject]) -> tuple[AnyResource, ...]:
    """Those that this version can read: a broken object of somebody else's is no reason to fail."""
    found: list[AnyResource] = []
    for body in bodies:
        try:
            found.append(model.from_object(body))
        except InvalidResourceError:
            continue
    return tuple(found)


async def _unknown(client: KubeClient, server: str, namespace: str, name: str) -> str:
    """Why there is no such job: no CRD, or which names are near."""
    try:
        bodies = [body async for page in client.list_pages(JOBS, namespace) for body in page]
    except NotFoundError:
        return f"the API server {server} has no TransferJobs ({API_VERSION}): install Fairlead's chart, or choose another --context"
    except KubeError:
        bodies = []
    names = [body["metadata"]["name"] for body in bodies]
    near = difflib.get_close_matches(name, names, _MOST_SUGGESTED)
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    listed = f"`kubectl get tj -n {namespace}` lists those there"
    return f"there is no TransferJob {name} in namespace {namespace}{hint}: {listed}; give -n NAMESPACE for another"


def refusal(error: KubeError, verb: str, kind: ResourceKind, namespace: str | None, server: str) -> str:
    """What the API server refused, and whom to ask."""
    resource = f"{kind.plural}.{GROUP}" if kind.group_version == API_VERSION else kind.plural
    where = f"in namespace {namespace}" if namespace else "in the cluster"
    match error:
        case UnauthorizedError():
            return f"the API server {server} does not accept your credentials: log in again, or choose another --context"
        case ForbiddenError():
            return f"you may not {verb} {resource} {where}: ask an administrator for the verb {verb} on {resource} there"
        case UnavailableError(status=0):
            return f"the API server {server} does not answer ({error}): check the network and the kubeconfig, or choose another --context"
        case NotFoundError() if f'namespaces "{namespace}" not found' in str(error):
            return f"there is no namespace {namespace}: give -n NAMESPACE, or choose another --context"
        case NotFoundError():
            return f"the API server {server} has no {resource}: install Fairlead's chart or a newer one, or choose another --context"
        case _:
            return f"the API server {server} could not {verb} {resource} {where} ({error}): try again"
