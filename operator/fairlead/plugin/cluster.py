"""The user's connection, what is read and followed over it, and how it ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeVar

from fairlead.api.transferjob import TransferJob
from fairlead.commands.connection import load_connection, user_clock
from fairlead.commands.explain.facts import readable, refusal
from fairlead.kube.client import JOBS, KubeClient, KubeObject, ResourceKind
from fairlead.kube.clock import ServerClock
from fairlead.kube.errors import ConflictError, ForbiddenError, KubeError, ThrottledError, UnavailableError

T = TypeVar("T")

WATCH_SECONDS: Final = 300
POLL_SECONDS: Final = 2.0

Pause = Callable[[float], Awaitable[Any]]


class Exit(IntEnum):
    """Exit codes of `kubectl fairlead`."""

    DONE = 0
    """Done; of a job that was waited for: it succeeded."""
    ERROR = 1
    """The request could not be carried out; one line on standard error says why and what to do."""
    USAGE = 2
    """A flag, an argument or the kubeconfig is wrong."""
    FAILED = 3
    """A job that was waited for has failed, or a check of `preflight`; by `predict` the job would not be taken, or not start."""
    TIMEOUT = 4
    """The time of --timeout was over."""
    ENDED = 5
    """A job that was waited for was deleted, or is suspended and not held by Kueue, which resumes it by itself."""
    INTERRUPTED = 130
    """Interrupted by SIGINT or SIGTERM."""


class PluginError(Exception):
    """What the user asked for cannot be done. The message has the remedy."""

    def __init__(self, message: str, code: Exit = Exit.ERROR) -> None:
        super().__init__(message)
        self.code = code


class PassingError(PluginError):
    """The API server does not answer, or asks for patience: in a moment it may be otherwise."""


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the cluster, as the flags say it."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    all_namespaces: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """An open connection. `scope` is the namespace to list, None for all of them; `clock` is set right by every answer."""

    client: KubeClient
    server: str
    namespace: str
    scope: str | None
    clock: ServerClock

    def failure(self, error: KubeError, verb: str, kind: ResourceKind, namespace: str | None) -> PluginError:
        """What the API server refused, in words for the user."""
        passes = isinstance(error, (UnavailableError, ThrottledError))
        return (PassingError if passes else PluginError)(refusal(error, verb, kind, namespace, self.server))

    async def list_all(self, kind: ResourceKind, namespace: str | None = None) -> list[KubeObject]:
        """The collection. Raises PluginError."""
        try:
            return [body async for page in self.client.list_pages(kind, namespace) for body in page]
        except KubeError as error:
            raise self.failure(error, "list", kind, namespace) from error


@asynccontextmanager
async def open_session(access: Access, *, timeout_seconds: float = 15.0) -> AsyncIterator[Session]:
    """Connects with the user's kubeconfig. Raises KubeconfigError."""
    connection = await load_connection(access.kubeconfig, access.context, os.environ)
    clock = user_clock()
    client = KubeClient(connection.configuration, user_agent="kubectl-fairlead", timeout_seconds=timeout_seconds, clock=clock)
    namespace = access.namespace or connection.namespace
    try:
        yield Session(client, connection.configuration.host, namespace, None if access.all_namespaces else namespace, clock)
    finally:
        await client.close()


async def told_again(source: AsyncGenerator[T, None], seconds: float) -> AsyncGenerator[T, None]:
    """What `source` yields, and its last value again after every so many seconds in which nothing new came: time alone tells too."""
    task: asyncio.Future[T] | None = None
    known: list[T] = []
    try:
        while True:
            task = task or asyncio.ensure_future(anext(source))
            done, _ = await asyncio.wait({task}, timeout=seconds if known else None)
            if done:
                finished, task = task, None
                try:
                    known = [finished.result()]
                except StopAsyncIteration:
                    return
            yield known[0]
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        await source.aclose()


Jobs = dict[str, TransferJob]
"""Jobs by their UID."""


async def follow_jobs(
    session: Session,
    *,
    name: str | None = None,
    on_trouble: Callable[[str], None] = lambda words: None,
    pause: Pause = asyncio.sleep,
) -> AsyncGenerator[Jobs, None]:
    """The jobs of the session's scope, first as they are and then again after each change; of that `name` alone if one is given.

    A connection that breaks is made again, and `on_trouble` is told. Where the user may list and not watch, they are listed again and
    again. Raises PluginError where they cannot be listed.
    """
    selector = f"metadata.name={name}" if name is not None else None
    jobs: Jobs = {}
    reached, may_watch = False, True
    while True:
        version = ""

        def take(found: str) -> None:
            nonlocal version
            version = found

        try:
            listed = session.client.list_pages(JOBS, session.scope, field_selector=selector, on_version=take)
            jobs = {job.metadata.uid: job for job in readable(TransferJob, [body async for page in listed for body in page])}
            reached = True
            yield dict(jobs)
            if not may_watch:
                await pause(POLL_SECONDS)
                continue
            async for change in session.client.changes(JOBS, version, WATCH_SECONDS, namespace=session.scope, field_selector=selector):
                uid = change.body["metadata"]["uid"]
                jobs.pop(uid, None)
                if change.kind != "DELETED":
                    jobs |= {job.metadata.uid: job for job in readable(TransferJob, [change.body])}
                yield dict(jobs)
        except ConflictError:
            # The version is too old: everything is listed again.
            continue
        except ForbiddenError as error:
            if not version or error.status != 403:
                raise session.failure(error, "list", JOBS, session.scope) from error
            may_watch = False
        except (UnavailableError, ThrottledError) as error:
            if not reached:
                raise session.failure(error, "list", JOBS, session.scope) from error
            on_trouble(f"{session.failure(error, 'list', JOBS, session.scope)}; trying again")
            await pause(POLL_SECONDS)
        except KubeError as error:
            raise session.failure(error, "list", JOBS, session.scope) from error
