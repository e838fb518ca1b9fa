"""Everything that runs in the background: workers that take keys from a queue, and loops. Each is started, stopped and checked alike."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from fairlead.api.shared.errors import ReconcileError
from fairlead.handlers.queue import QueueClosedError, WorkQueue

K = TypeVar("K", bound=Hashable)

DRAIN_SECONDS = 20.0
"""How long a worker may take to end the passes under way when it is stopped."""

STUCK_SECONDS = 600.0
"""A worker that has had one key for so long is stuck. A pass makes up to a dozen requests, each of which may take half a minute where the
API server hardly answers; to end that process would make things worse."""

logger = logging.getLogger(__name__)


class NotHealthyError(Exception):
    """The process should be restarted; the message says why."""


class BackgroundService(ABC):
    """Tasks that run until the service is stopped."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Starts the tasks."""
        self._tasks = [asyncio.create_task(work, name=name) for name, work in self._work()]

    @abstractmethod
    async def stop(self) -> None:
        """Ends the tasks."""

    @abstractmethod
    def _work(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """The tasks to start, with their names."""

    async def _cancel(self) -> None:
        """Ends the tasks at once."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def ended(self) -> list[str]:
        """Names of the tasks that have ended by themselves, which none should."""
        return [task.get_name() for task in self._tasks if task.done()]

    def check(self) -> Mapping[str, float]:
        """Figures for the health probe. Raises NotHealthyError if only a restart can help."""
        return {}


class BackgroundLoop(BackgroundService):
    """One task that runs for ever and is cancelled at the end; `check` adds what the health probe shows of it."""

    def __init__(self, name: str, run: Callable[[], Coroutine[Any, Any, None]], check: Callable[[], Mapping[str, float]] = dict) -> None:
        super().__init__()
        self._name = name
        self._run = run
        self._check = check

    async def stop(self) -> None:
        """Cancels the task at once."""
        await self._cancel()

    def check(self) -> Mapping[str, float]:
        return self._check()

    def _work(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        return [(self._name, self._run())]


async def _remember_nothing(key: object, error: Exception) -> None:
    """Nothing to remember of a failure."""


@dataclass(frozen=True, slots=True)
class ErrorPolicy(Generic[K]):
    """How a worker reports the passes that fail.

    `subject` names a key in log lines, `count` counts errors by kind, `remember` keeps what the next pass over that key has to know.
    """

    subject: Callable[[K], str]
    count: Callable[[str], None]
    remember: Callable[[K, Exception], Awaitable[None]] = _remember_nothing


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """What a failed pass leads to. `delay_seconds` is None where the back-off of the key decides; `retries` False waits for an event."""

    kind: str
    level: int
    retries: bool = True
    delay_seconds: float | None = None
    is_defect: bool = False


_LEVELS = {"nobody": logging.DEBUG, "cluster": logging.WARNING, "administrator": logging.WARNING}


def response_to(error: Exception) -> ErrorResponse:
    """What an error's own properties ask for; an error that has none is a defect of the operator."""
    if not isinstance(error, ReconcileError):
        return ErrorResponse("Internal", logging.ERROR, is_defect=True)
    return ErrorResponse(error.kind, _LEVELS.get(error.blame, logging.ERROR), error.retry, error.delay_seconds, is_defect=error.is_defect)


class Worker(BackgroundService, Generic[K]):
    """Reconciles the keys of one queue with `count` tasks, each key in one task at a time. A key's failure is that key's alone.

    `reconcile` returns when to reconcile the key again, None for not before the next event. `busy_with` describes a stuck pass in the
    health probe; empty for no such check.
    """

    def __init__(
        self,
        name: str,
        queue: WorkQueue[K],
        reconcile: Callable[[K], Awaitable[timedelta | None]],
        errors: ErrorPolicy[K],
        *,
        count: int = 1,
        busy_with: str = "",
    ) -> None:
        super().__init__()
        self._name = name
        self._queue = queue
        self._reconcile = reconcile
        self._errors = errors
        self._count = count
        self._busy_with = busy_with

    async def run(self) -> None:
        """Works until the queue is closed."""
        while True:
            try:
                key = await self._queue.get()
            except QueueClosedError:
                return
            try:
                await self.handle(key)
            finally:
                self._queue.done(key)

    async def handle(self, key: K) -> None:
        """One pass over `key`, after which the key is scheduled again if need be. Errors end here, as log lines, metrics and back-off."""
        try:
            again = await self._reconcile(key)
        except Exception as error:
            await self._errors.remember(key, error)
            self._respond(key, error, response_to(error))
        else:
            self._queue.forget(key)
            if again is not None:
                self._queue.add_after(key, again.total_seconds())

    async def stop(self) -> None:
        """Lets the passes under way end, and cancels those that take too long."""
        self._queue.close()
        done, late = await asyncio.wait(self._tasks, timeout=DRAIN_SECONDS) if self._tasks else (set(), set())
        for task in late:
            task.cancel()
        await asyncio.gather(*done, *late, return_exceptions=True)

    def check(self) -> Mapping[str, float]:
        if self._busy_with and (slowest := self._queue.longest_work_seconds()) > STUCK_SECONDS:
            raise NotHealthyError(f"{self._busy_with} for {slowest:.0f} s")
        return {}

    def _work(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        names = [self._name] if self._count == 1 else [f"{self._name} {number}" for number in range(self._count)]
        return [(name, self.run()) for name in names]

    def _respond(self, key: K, error: Exception, response: ErrorResponse) -> None:
        subject = self._errors.subject(key)
        self._errors.count(response.kind)
        if not response.retries:
            # Somebody has to change the object, and that will be an event.
            self._queue.forget(key)
            logger.log(response.level, "%s cannot be read: %s", subject, error)
            return
        delay_seconds = response.delay_seconds
        if delay_seconds is None:
            delay_seconds = self._queue.retry(key)
        else:
            self._queue.add_after(key, delay_seconds)
        if response.is_defect:
            logger.error("%s: a defect of the operator, again in %.1f s", subject, delay_seconds, exc_info=error)
        else:
            logger.log(response.level, "%s: %s, again in %.1f s: %s", subject, response.kind, delay_seconds, error)
