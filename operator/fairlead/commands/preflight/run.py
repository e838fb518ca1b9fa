"""Has a job checked by the operator and its movers, and removes it again, whatever happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.api.transferjob import TransferJob
from fairlead.commands.preflight.findings import PreflightFinding, of_job, refused
from fairlead.commands.preflight.job import as_check, as_it_would_be
from fairlead.kube.client import JOBS, KubeClient, KubeObject
from fairlead.kube.errors import (
    ForbiddenError,
    InvalidError,
    KubeError,
    NamespaceTerminatingError,
    NotFoundError,
    ThrottledError,
    UnauthorizedError,
    UnavailableError,
)

_POLL_SECONDS = 0.5
_GRACE_SECONDS = 10
"""How long the operator may take beyond the job's own deadline to say so."""


class PreflightError(Exception):
    """The checks could not be made. The message has the remedy."""


async def check(
    client: KubeClient,
    manifest: KubeObject,
    namespace: str,
    token: str,
    timeout_seconds: int,
    *,
    pause: Callable[[float], Awaitable[Any]] = asyncio.sleep,
) -> list[PreflightFinding]:
    """What was found. Raises PreflightError where nothing can be said."""
    try:
        await client.create(JOBS, namespace, as_it_would_be(manifest, namespace, token), dry_run=True)
    except (InvalidError, ForbiddenError, NamespaceTerminatingError) as error:
        if isinstance(error, ForbiddenError) and error.lacks_right:
            raise PreflightError(_refusal(error, namespace)) from error
        return [refused(str(error))]
    except KubeError as error:
        raise PreflightError(_refusal(error, namespace)) from error
    body = as_check(manifest, namespace, token, timeout_seconds)
    name, removes = body["metadata"]["name"], True
    try:
        # Whoever interrupts this must not leave a job that is being created.
        created = await _whole(client.create(JOBS, namespace, body))
        return of_job(await _until_finished(client, namespace, created, timeout_seconds, pause))
    except (ForbiddenError, InvalidError) as error:
        removes = False
        raise PreflightError(_refusal(error, namespace)) from error
    except KubeError as error:
        raise PreflightError(_refusal(error, namespace)) from error
    finally:
        if removes:
            await _whole(_remove(client, namespace, name))


async def _until_finished(
    client: KubeClient, namespace: str, created: KubeObject, timeout_seconds: int, pause: Callable[[float], Awaitable[Any]]
) -> TransferJob:
    """The job as it ended, or as it is when nobody waits any longer."""
    job = TransferJob.from_object(created)
    unanswered: KubeError | None = None
    deadline = time.monotonic() + timeout_seconds + _GRACE_SECONDS
    while not job.status.finished and time.monotonic() < deadline:
        await pause(_POLL_SECONDS)
        try:
            job, unanswered = TransferJob.from_object(await client.get(JOBS, namespace, job.metadata.name)), None
        except (UnavailableError, ThrottledError) as error:
            # The checks go on meanwhile.
            unanswered = error
    if unanswered is not None:
        raise unanswered
    return job


async def _remove(client: KubeClient, namespace: str, name: str) -> None:
    try:
        await client.delete(JOBS, namespace, name)
    except NotFoundError:
        return
    except KubeError as error:
        text = f"the job {name} of this check is left behind ({error}); it removes itself a minute after its end, or run"
        raise PreflightError(f"{text} `kubectl delete transferjob {name} -n {namespace}`") from error


async def _whole(work: Awaitable[Any]) -> Any:
    """Carries out a request to its end, also where the command is being interrupted."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _refusal(error: KubeError, namespace: str) -> str:
    match error:
        case NotFoundError():
            return (
                f"there is no namespace {namespace}, or the cluster has no TransferJobs ({error}):"
                " give -n NAMESPACE, or install Fairlead's chart"
            )
        case ForbiddenError():
            return (
                f"you may not do that in namespace {namespace} ({error}): ask an administrator for the verbs create, get and delete on"
                " transferjobs.fairlead.io there"
            )
        case UnauthorizedError():
            return f"the API server does not accept your credentials ({error}): log in again, or choose another --context"
        case UnavailableError():
            return f"the API server does not answer ({error}): check the network and the kubeconfig, or choose another --context"
        case _:
            return f"the API server refused ({error}): try again"
