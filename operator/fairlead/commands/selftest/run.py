"""Moves the file and cleans up behind it, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.api.reasons import ConditionType
from fairlead.api.transferjob import TransferJob
from fairlead.commands.selftest import objects
from fairlead.commands.selftest.objects import SelftestEnd, SelftestPlan
from fairlead.kube.client import CLAIMS, JOBS, PODS, KubeClient, KubeObject
from fairlead.kube.errors import KubeError, NotFoundError

_POLL_SECONDS = 0.5
_CLEANUP_SECONDS = 60.0
_POD_SECONDS = 120.0

_TELLING = (ConditionType.ACCEPTED, ConditionType.SCHEDULED, ConditionType.MOVERS_READY, ConditionType.SUCCEEDED, ConditionType.FAILED)
"""Conditions that say how far the job came."""

Tell = Callable[[str], None]


class SelftestError(Exception):
    """No file was moved, or it did not arrive as it was. The message says what to look at."""


async def selftest(client: KubeClient, plan: SelftestPlan, tell: Tell) -> None:
    """Writes the file, moves it and compares it. Raises SelftestError."""
    made: list[SelftestEnd] = [end for end in (plan.source, plan.destination) if not end.claim]
    try:
        for end in made:
            await client.create(CLAIMS, plan.namespace, objects.claim(plan, end))
        await _run_pod(client, objects.file_pod(plan, plan.source, "write"))
        tell(f"{plan.bytes_total} bytes are written on {plan.source.node}")
        await client.create(JOBS, plan.namespace, objects.job(plan))
        finished = await _finished_job(client, plan)
        if not finished.status.is_true(ConditionType.SUCCEEDED):
            raise SelftestError(_why(finished))
        tell(f"TransferJob {plan.namespace}/{plan.name} has succeeded")
        await _run_pod(client, objects.file_pod(plan, plan.destination, "compare"))
        tell(f"the file on {plan.destination.node} is the one that was written on {plan.source.node}")
    except KubeError as error:
        raise SelftestError(str(error)) from error
    finally:
        await asyncio.shield(_clean_up(client, plan, made))


async def _finished_job(client: KubeClient, plan: SelftestPlan) -> TransferJob:
    latest = TransferJob.from_object(await client.get(JOBS, plan.namespace, plan.name))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(plan.timeout_seconds + _CLEANUP_SECONDS):
            while not latest.status.finished:
                await asyncio.sleep(_POLL_SECONDS)
                latest = TransferJob.from_object(await client.get(JOBS, plan.namespace, plan.name))
    return latest


def _why(job: TransferJob) -> str:
    said = [f"{each.reason}: {each.message}" for each in job.status.conditions if each.type in _TELLING]
    where = f"TransferJob {job.metadata.namespace}/{job.metadata.name}"
    if not said:
        return f"{where} was not looked at: is the operator running, and is the namespace among tenantNamespaces?"
    return f"{where} has not succeeded: " + "; ".join(said)


async def _run_pod(client: KubeClient, pod: KubeObject) -> None:
    """Runs a pod to its end. Raises SelftestError with its last words."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    current = await client.create(PODS, namespace, pod)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_POD_SECONDS):
            while (current.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                await asyncio.sleep(_POLL_SECONDS)
                current = await client.get(PODS, namespace, name)
    status = current.get("status") or {}
    if status.get("phase") == "Succeeded":
        return
    states = [state for container in status.get("containerStatuses") or [] for state in (container.get("state") or {}).values()]
    conditions = [each for each in status.get("conditions") or [] if each.get("status") == "False"]
    words = [str(each["message"]).strip() for each in (*states, *conditions) if each.get("message")]
    raise SelftestError(f"pod {namespace}/{name} is {status.get('phase', 'not started')}: {'; '.join(words) or 'it says nothing'}")


async def _clean_up(client: KubeClient, plan: SelftestPlan, made: list[SelftestEnd]) -> None:
    """Best effort: what cannot be removed carries the label app.kubernetes.io/component=selftest."""
    await _remove(client.delete(JOBS, plan.namespace, plan.name), lambda: client.get(JOBS, plan.namespace, plan.name))
    for end, action in ((plan.source, "remove-source"), (plan.destination, "remove-destination")):
        if end.claim:
            with contextlib.suppress(KubeError, SelftestError):
                await _run_pod(client, objects.file_pod(plan, end, action))
    for action in ("write", "compare", "remove-source", "remove-destination"):
        with contextlib.suppress(KubeError):
            await client.delete(PODS, plan.namespace, f"{plan.name}-{action}")
    for end in made:
        with contextlib.suppress(KubeError):
            await client.delete(CLAIMS, plan.namespace, plan.claim_of(end))


async def _remove(deletion: Awaitable[None], look: Callable[[], Awaitable[Any]]) -> None:
    with contextlib.suppress(KubeError, TimeoutError):
        await deletion
        async with asyncio.timeout(_CLEANUP_SECONDS):
            while True:
                try:
                    await look()
                except NotFoundError:
                    return
                await asyncio.sleep(_POLL_SECONDS)
