"""`fairlead uninstall`, which the chart runs before its release goes: no job is left held by an operator that is no more.

Jobs that stay are let go: the operator is stopped, then their movers, then their finalizers are removed. A new installation goes on
with them from what has arrived. Jobs that are to go are deleted first, while the operator still removes their partial files.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.api import names
from fairlead.commands.connection import KubeconfigError, read_connection
from fairlead.kube.client import JOBS, PODS, SECRETS, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import ConflictError, ForbiddenError, KubeError, NotFoundError

DEPLOYMENTS = ResourceKind("apps/v1", "deployments")

EXIT_FAILED = 1
EXIT_USAGE = 2

_MOVERS = f"{names.LABEL_MANAGED_BY}={names.MANAGER},{names.LABEL_COMPONENT}={names.COMPONENT_MOVER}"
_POLL_SECONDS = 0.5
_STOP_SECONDS = 90.0
"""How long the operator's pod may take to end: its grace period is 40 s."""
_MOVER_SECONDS = 30.0
"""How long movers are waited for: their grace period is 10 s."""
_OVER = ("Succeeded", "Failed")


class UninstallError(Exception):
    """Jobs may still be held. The message has the remedy."""


@dataclass(frozen=True, slots=True)
class OperatorPlace:
    """Where the operator runs, and by which labels its pods are known."""

    namespace: str
    deployment: str
    selector: str


@dataclass(slots=True)
class Uninstalled:
    """What was done, for people."""

    deleted: int = 0
    released: int = 0
    movers: int = 0
    unserved: list[str] = field(default_factory=list)
    """Namespaces whose movers this account may not stop."""

    def text(self) -> str:
        """One line for each thing that was done."""
        lines = [f"{self.deleted} TransferJobs deleted"] if self.deleted else []
        lines += [f"{self.movers} movers stopped", f"{self.released} TransferJobs let go"]
        lines += [f"no right to stop movers in namespace {name}: delete its mover pods yourself" for name in self.unserved]
        return "\n".join(lines)


async def uninstall(
    client: KubeClient,
    place: OperatorPlace,
    *,
    deletes_jobs: bool,
    cleanup_seconds: float,
    mover_seconds: float = _MOVER_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], Awaitable[Any]] = asyncio.sleep,
) -> Uninstalled:
    """Stops the operator and lets every job go. With `deletes_jobs` they are deleted, and their partial files with them where that takes
    no longer than `cleanup_seconds`. Doing it again does no harm. Raises UninstallError.
    """
    done = Uninstalled()
    try:
        if deletes_jobs:
            done.deleted = await _delete_jobs(client)
            await _until(lambda: _none_is_left(client), cleanup_seconds, clock, pause)
        await _stop_operator(client, place, clock, pause)
        jobs = [job async for page in client.list_pages(JOBS) for job in page]
        for namespace in sorted({job["metadata"]["namespace"] for job in jobs}):
            try:
                done.movers += await _stop_movers(client, namespace)
            except ForbiddenError:
                done.unserved.append(namespace)
        for job in jobs:
            await _remove_credentials(client, job)
            done.released += await _let_go(client, job)
        # The node guard goes with the release: it takes its rules for a sender away once that is gone.
        served = {job["metadata"]["namespace"] for job in jobs}.difference(done.unserved)
        await _until(lambda: _no_mover_runs(client, served), mover_seconds, clock, pause)
    except KubeError as error:
        raise UninstallError(
            f"{error}; `helm uninstall --no-hooks` leaves this out, and docs/how-to/uninstall.md says how to do it by hand"
        ) from error
    return done


async def _until(
    look: Callable[[], Awaitable[bool]], seconds: float, clock: Callable[[], float], pause: Callable[[float], Awaitable[Any]]
) -> bool:
    """Whether what is looked for came within `seconds`."""
    deadline = clock() + seconds
    while not await look():
        if clock() >= deadline:
            return False
        await pause(_POLL_SECONDS)
    return True


async def _delete_jobs(client: KubeClient) -> int:
    deleted = 0
    async for page in client.list_pages(JOBS):
        for job in page:
            metadata = job["metadata"]
            try:
                await client.delete(JOBS, metadata["namespace"], metadata["name"], uid=metadata["uid"])
                deleted += 1
            except (NotFoundError, ConflictError):
                continue
    return deleted


async def _none_is_left(client: KubeClient) -> bool:
    async for page in client.list_pages(JOBS):
        return not page
    return True


async def _stop_operator(
    client: KubeClient, place: OperatorPlace, clock: Callable[[], float], pause: Callable[[float], Awaitable[Any]]
) -> None:
    """It would take hold of the jobs again."""
    try:
        await client.merge_patch(DEPLOYMENTS, place.namespace, place.deployment, {"spec": {"replicas": 0}}, subresource="scale")
    except NotFoundError:
        return

    async def is_gone() -> bool:
        async for page in client.list_pages(PODS, place.namespace, label_selector=place.selector):
            if any((pod.get("status") or {}).get("phase") not in _OVER for pod in page):
                return False
        return True

    if not await _until(is_gone, _STOP_SECONDS, clock, pause):
        raise UninstallError(
            f"the operator's pod did not end within {_STOP_SECONDS:g} s, and would hold jobs again:"
            f" delete it (kubectl -n {place.namespace} delete pod -l {place.selector}), then uninstall again"
        )


async def _stop_movers(client: KubeClient, namespace: str) -> int:
    stopped = 0
    async for page in client.list_pages(PODS, namespace, label_selector=_MOVERS):
        for pod in page:
            if (pod.get("status") or {}).get("phase") in _OVER:
                continue
            try:
                await client.delete(PODS, namespace, pod["metadata"]["name"], uid=pod["metadata"]["uid"])
                stopped += 1
            except (NotFoundError, ConflictError):
                continue
    return stopped


async def _no_mover_runs(client: KubeClient, namespaces: Iterable[str]) -> bool:
    for namespace in namespaces:
        async for page in client.list_pages(PODS, namespace, label_selector=_MOVERS):
            if any((pod.get("status") or {}).get("phase") not in _OVER for pod in page):
                return False
    return True


async def _remove_credentials(client: KubeClient, job: KubeObject) -> None:
    metadata, attempt = job["metadata"], int((job.get("status") or {}).get("attempts") or 0)
    if attempt:
        try:
            await client.delete(SECRETS, metadata["namespace"], names.credentials_name(metadata["name"], metadata["uid"], attempt))
        except (NotFoundError, ForbiddenError):
            return


async def _let_go(client: KubeClient, job: KubeObject) -> bool:
    """Removes our finalizer and nobody else's. Whether the job had it."""
    while names.FINALIZER in (job["metadata"].get("finalizers") or []):
        metadata = job["metadata"]
        others = [name for name in metadata["finalizers"] if name != names.FINALIZER]
        patch = {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"], "finalizers": others}}
        try:
            await client.merge_patch(JOBS, metadata["namespace"], metadata["name"], patch)
        except NotFoundError:
            return False
        except ConflictError:
            try:
                job = await client.get(JOBS, metadata["namespace"], metadata["name"])
            except NotFoundError:
                return False
        else:
            return True
    return False


def main(arguments: Sequence[str]) -> int:
    """Prints what was done. Returns 0 if no job is held any more, 1 if one may be, 2 if a flag or the kubeconfig is wrong."""
    options = _parser().parse_args(arguments)
    place = OperatorPlace(options.namespace, options.deployment, options.selector)
    try:
        connection = read_connection(options.kubeconfig, None, os.environ)

        async def run() -> Uninstalled:
            client = KubeClient(connection.configuration, user_agent="fairlead-uninstall")
            try:
                return await uninstall(client, place, deletes_jobs=options.jobs == "delete", cleanup_seconds=options.cleanup_seconds)
            finally:
                await client.close()

        done = asyncio.run(run())
    except KubeconfigError as error:
        print(f"fairlead uninstall: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE
    except UninstallError as error:
        print(f"fairlead uninstall: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_FAILED
    print(done.text())  # noqa: T201
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fairlead uninstall",
        description="Stops the operator and lets every TransferJob go. The chart runs it before its release goes.",
    )
    parser.add_argument("--namespace", required=True, help="namespace of the operator")
    parser.add_argument("--deployment", required=True, help="name of its Deployment")
    parser.add_argument("--selector", required=True, help="labels of its pods, as kubectl's -l takes them")
    parser.add_argument("--jobs", choices=("keep", "delete"), default="keep", help="keep: jobs and partial files stay; delete: both go")
    parser.add_argument(
        "--cleanup-seconds", type=float, default=120, metavar="SECONDS", help="how long deleted jobs may take to remove partial files (120)"
    )
    parser.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig; the pod's service account if absent")
    return parser
