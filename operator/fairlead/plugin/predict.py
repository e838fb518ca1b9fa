"""`kubectl fairlead predict`: what the operator would decide now of a job in a file, from what the user may read; nothing is moved."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from fairlead.api.datatransfernode import DataTransferNode
from fairlead.api.networkpath import NetworkPath
from fairlead.api.shared.quantity import format_duration, format_rate_rounded, parse_milliseconds
from fairlead.api.transferjob import TransferJob
from fairlead.commands.explain.facts import list_or_name, readable, refusal
from fairlead.commands.preflight.job import name_of
from fairlead.core.allocation.model import AllocationInputError
from fairlead.core.fairness.rules import InvalidPolicyError
from fairlead.core.observed import Observed
from fairlead.core.placement.model import rate_text
from fairlead.core.prediction import ClusterView, Prediction, predict
from fairlead.core.settings import OperatorSettings
from fairlead.kube.client import CLAIMS, DTNS, JOBS, NAMESPACES, PATHS, POLICIES, KubeObject
from fairlead.kube.errors import (
    AlreadyExistsError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NamespaceTerminatingError,
)
from fairlead.kube.observe.facts import FactReader
from fairlead.plugin.cluster import Exit, PluginError, Session
from fairlead.plugin.output import Output
from fairlead.plugin.submit import words_of

_SETTINGS: Final = OperatorSettings(host_network_namespaces=frozenset({"*"}))
"""Which namespaces may use the nodes' network, and whom movers may run as, is the admission policies' to say: the API server is asked."""


async def show_prediction(session: Session, output: Output, manifest: KubeObject, size_bytes: int | None) -> Exit:
    """Raises PluginError if nothing can be said."""
    try:
        created = await _as_created(session, manifest)
    except _NotTakenError as error:
        refused = {"starts": False, "reason": "Refused", "message": str(error)}
        document = {"version": 1, "namespace": session.namespace, "name": name_of(manifest), **refused, "notShown": []}
        if output.as_json:
            output.document(document)
        else:
            output.line(_headline(document))
        return Exit.FAILED
    now, not_shown = session.clock.now(), list[str]()
    try:
        observed = await _observe(session, TransferJob.from_object(created), not_shown)
        prediction = predict(observed, await _cluster_view(session, not_shown), now)
    except (InvalidPolicyError, AllocationInputError) as error:
        raise PluginError(f"the FairnessPolicy cannot be followed: {error}") from error
    document = _document(session.namespace, name_of(manifest), prediction, size_bytes, not_shown)
    if output.as_json:
        output.document(document)
    else:
        output.line(_headline(document))
        output.show(_table(prediction, size_bytes))
        for words in not_shown:
            output.line(f"not looked at: {words}")
    return Exit.DONE if prediction.obstacle is None else Exit.FAILED


class _NotTakenError(Exception):
    """The API server would not take the job; the message is its own."""


async def _as_created(session: Session, manifest: KubeObject) -> KubeObject:
    """The job as the API server would store it. Raises _NotTakenError."""
    body = {**manifest, "metadata": {**manifest["metadata"], "namespace": session.namespace}}
    try:
        return await session.client.create(JOBS, session.namespace, body, dry_run=True)
    except (InvalidError, AlreadyExistsError, NamespaceTerminatingError, ForbiddenError) as error:
        if isinstance(error, ForbiddenError) and error.lacks_right:
            raise session.failure(error, "create", JOBS, session.namespace) from error
        raise _NotTakenError(words_of(error)) from error
    except KubeError as error:
        raise session.failure(error, "create", JOBS, session.namespace) from error


async def _observe(session: Session, job: TransferJob, not_shown: list[str]) -> Observed:
    observed = Observed(job=job, settings=_SETTINGS)
    try:
        facts = await FactReader(session.client, time.monotonic).read(job, (), 0.0)
    except ForbiddenError:
        # Volumes and nodes belong to no namespace, and few users may read them: the operator does.
        not_shown.append(f"the job's {CLAIMS.plural} with their volumes, and its nodes: you may not read all of them")
        return observed
    except KubeError as error:
        raise session.failure(error, "get", CLAIMS, session.namespace) from error
    return replace(observed, nodes=facts.nodes, claims=facts.claims, attachments=facts.attachments)


async def _cluster_view(session: Session, not_shown: list[str]) -> ClusterView:
    async def listed(kind: Any, namespace: str | None = None) -> list[KubeObject]:
        return await list_or_name(session.client, kind, namespace, session.server, not_shown)

    jobs = await listed(JOBS) or await listed(JOBS, session.namespace)
    policies = await listed(POLICIES)
    return ClusterView(
        jobs=jobs,
        policies=policies,
        paths=readable(NetworkPath, await listed(PATHS)),
        nodes=readable(DataTransferNode, await listed(DTNS)),
        namespaces=await _labels(session, not_shown) if policies else {},
    )


async def _labels(session: Session, not_shown: list[str]) -> Mapping[str, Mapping[str, str]]:
    """The labels of the namespaces, by which tenants select them; of the job's own alone where others may not be read."""
    try:
        bodies = [body async for page in session.client.list_pages(NAMESPACES) for body in page]
    except KubeError as error:
        not_shown.append(refusal(error, "list", NAMESPACES, None, session.server))
        try:
            bodies = [await session.client.get(NAMESPACES, None, session.namespace)]
        except KubeError:
            bodies = []
    return {body["metadata"]["name"]: body["metadata"].get("labels") or {} for body in bodies}


def _document(namespace: str, name: str, prediction: Prediction, size_bytes: int | None, not_shown: list[str]) -> dict[str, Any]:
    rate_bps, obstacle, assignment = prediction.rate_bps, prediction.obstacle, prediction.assignment
    seconds = prediction.seconds_for(size_bytes) if size_bytes is not None else None
    known = assignment.known if assignment is not None else None
    found = {
        "version": 1,
        "namespace": namespace,
        "name": name,
        "starts": obstacle is None,
        "reason": obstacle.reason if obstacle is not None else None,
        "message": obstacle.message if obstacle is not None else None,
        "sourceNode": prediction.source_node,
        "destinationNode": prediction.destination_node,
        "placement": prediction.placement.reason if prediction.placement is not None else None,
        "tenant": prediction.tenant,
        "links": list(prediction.links),
        "fairShare": _rate(prediction.fair_bps),
        "limit": _rate(prediction.limit_bps),
        "path": prediction.path.metadata.name if prediction.path is not None else None,
        "pathRate": _rate(known.capacity_bps if known is not None else None),
        "probing": str(assignment.probing) if assignment is not None else None,
        "rate": _rate(rate_bps),
        "expectedSeconds": None if seconds is None else round(seconds),
        "notShown": not_shown,
    }
    return {name: value for name, value in found.items() if value is not None}


def _rate(rate_bps: float | None) -> str | None:
    return None if rate_bps is None else format_rate_rounded(rate_bps)


def _headline(document: Mapping[str, Any]) -> str:
    job = f"{document['namespace']}/{document['name']}"
    if document["starts"]:
        return f"{job} would start now; nothing was created"
    return f"{job} would not start now: {document['reason']}: {document['message']}"


def _table(prediction: Prediction, size_bytes: int | None) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for title, words in (
        ("PLACEMENT", _placement(prediction)),
        ("CAP", _cap(prediction)),
        ("PATH", _path(prediction)),
        ("DURATION", _duration(prediction, size_bytes)),
    ):
        table.add_row(Text(title), Text(words))
    return table


def _placement(prediction: Prediction) -> str:
    if prediction.placement is not None:
        return prediction.placement.reason
    ends = prediction.source_node or "a node that the scheduler chooses", prediction.destination_node or "a node that the scheduler chooses"
    return f"{ends[0]} → {ends[1]}"


def _cap(prediction: Prediction) -> str:
    limit = f"its own limit is {rate_text(prediction.limit_bps)}" if prediction.limit_bps is not None else ""
    if prediction.fair_bps is None:
        return limit or "none: no policy shares a link that it crosses, and it has no limit"
    links = f"link{'s' if len(prediction.links) > 1 else ''} {', '.join(prediction.links)}"
    fair = f"{rate_text(prediction.fair_bps)} of {links} as tenant {prediction.tenant}, if all other jobs take what they may"
    return f"{fair}; {limit}" if limit else fair


def _path(prediction: Prediction) -> str:
    if prediction.path is None or prediction.assignment is None:
        return "no transfer has measured it yet, and it is probed first"
    status, known = prediction.path.status, prediction.assignment.known
    parts = [f"least RTT {status.rtt_minimum}"] if parse_milliseconds(status.rtt_minimum or "") is not None else []
    if known.capacity_bps is not None:
        parts.append(f"one transfer can get {rate_text(known.capacity_bps)}")
    parts.append("probed a moment ago" if prediction.assignment.probing == "Known" else "it is probed first")
    return f"{prediction.path.metadata.name}: {', '.join(parts)}"


def _duration(prediction: Prediction, size_bytes: int | None) -> str:
    rate_bps = prediction.rate_bps
    if not rate_bps:
        return "unknown: nothing tells what rate it gets"
    size_bytes, words = (10**12, "a terabyte") if size_bytes is None else (size_bytes, "all")
    return f"{format_duration(prediction.seconds_for(size_bytes) or 0.0)} for {words} at {rate_text(rate_bps)}, once its data flow"
