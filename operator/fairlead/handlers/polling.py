"""Polls the movers of every job beside the workers, which never wait for one: a pass takes the last good reports."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fairlead.api.transferjob import TransferJob
from fairlead.core.observed import MoverPod, running_movers
from fairlead.core.poll_wishes import MOST_NEWS_A_SECOND, MOST_POLLS_A_SECOND, NEWS_SECONDS, PollWish, facts_of, wish_of
from fairlead.core.reports import Reports
from fairlead.handlers.cache import ObjectKey
from fairlead.handlers.poll_queue import PollQueue
from fairlead.handlers.queue import TimerHandle, Timers
from fairlead.handlers.worker import BackgroundService
from fairlead.kube.observe.reports import ReportReader

FORGOTTEN_SECONDS = 900.0
"""A job of which no pass has got as far as its reports for so long after a poll is polled no more: it cannot be read, say. One that is gone
is forgotten at once, and an outage of the API server, in which all passes fail, is over by then."""

logger = logging.getLogger(__name__)


@dataclass
class _Polled:
    """A job with running movers. `seen` has its pods' UIDs, and whether each was ready."""

    key: ObjectKey
    uid: str
    pods: Sequence[MoverPod] = ()
    seen: frozenset[tuple[str, bool]] = frozenset()
    is_news: bool = False
    """One of them has just come up and has not been asked since."""
    wish: PollWish = field(default_factory=lambda: PollWish(0.0, 0.0))
    begun_at: float = 0.0
    """When its last poll began."""
    unlooked_since: float | None = None
    """When its first poll ended that no pass has taken up yet."""
    due: float = 0.0
    timer: TimerHandle | None = None
    task: asyncio.Task[None] | None = None


class ReportPoller(BackgroundService):
    """Polls each job with running movers as often as it wishes, and gives its key to `on_read` after each poll. Where the jobs wish more
    than `most_a_second` they take turns (`core.poll_wishes`, `PollQueue`). Those whose movers have just come up need not wait for them, nor
    those that begin with the answer.

    `competes` tells by UID whether a job's rate decides what others get. How many polls are under way, and how often the silent are asked,
    is bounded by the reader. Used from one event loop only.
    """

    def __init__(
        self,
        reader: ReportReader,
        timers: Timers,
        interval_seconds: float,
        on_read: Callable[[ObjectKey], None],
        *,
        now: Callable[[], datetime],
        competes: Callable[[str], bool] = lambda uid: False,
        most_a_second: float = MOST_POLLS_A_SECOND,
    ) -> None:
        super().__init__()
        self._reader = reader
        self._timers = timers
        self._interval_seconds = interval_seconds
        self._on_read = on_read
        self._now = now
        self._competes = competes
        self._jobs: dict[str, _Polled] = {}
        self._uids: dict[ObjectKey, str] = {}
        self._usual, self._news = PollQueue(most_a_second), PollQueue(MOST_NEWS_A_SECOND)
        self._next_turn: TimerHandle | None = None
        self._stopped = False

    @property
    def due(self) -> int:
        """How many jobs wait for their turn."""
        return len(self._usual) + len(self._news)

    def latest(self, job: TransferJob, pods: Sequence[MoverPod]) -> Reports:
        """The last good reports of the job's running pods. Sees to it that they are polled: at once where one is new or newly ready."""
        uid, movers = job.metadata.uid, [pod for pod in running_movers(pods) if pod is not None]
        reports = self._reader.known(uid, pods)
        if not movers or self._stopped:
            self._forget(uid)
            return reports
        polled, is_known = self._jobs.get(uid), uid in self._jobs
        if polled is None:
            key, due_now = ObjectKey(job.metadata.namespace, job.metadata.name), self._timers.time() - self._interval_seconds
            self.drop(key)
            polled = self._jobs[uid] = _Polled(key, uid, begun_at=due_now)
            self._uids[key] = uid
        facts = facts_of(movers, reports, self._now(), competes=self._competes(uid))
        seen = frozenset((pod.uid, pod.ready) for pod in movers)
        # Movers that were up long before this operator began are no news, and there may be thousands.
        polled.is_news |= bool(seen - polled.seen) and (is_known or facts.age_seconds < NEWS_SECONDS)
        polled.pods, polled.seen, polled.unlooked_since = tuple(pods), seen, None
        polled.wish = wish_of(facts, self._interval_seconds)
        if polled.task is None:
            self._poll_at(polled, self._timers.time() if polled.is_news else polled.begun_at + polled.wish.interval_seconds)
        return reports

    def drop(self, key: ObjectKey) -> None:
        """Forgets a job that is gone."""
        if key in self._uids:
            self._forget(self._uids[key])

    async def stop(self) -> None:
        """Ends all polls at once."""
        self._stopped = True
        tasks = [polled.task for polled in self._jobs.values() if polled.task is not None]
        for uid in list(self._jobs):
            self._forget(uid)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _work(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        return []

    def _poll_at(self, polled: _Polled, due: float) -> None:
        """The job is due then. Of several such wishes the earliest counts."""
        if polled.timer is not None:
            if polled.due <= due:
                return
            polled.timer.cancel()
        polled.due, polled.timer = due, self._timers.call_at(due, lambda: self._await_turn(polled))

    def _await_turn(self, polled: _Polled) -> None:
        polled.timer = None
        now = self._timers.time()
        if polled.unlooked_since is not None and now - polled.unlooked_since > FORGOTTEN_SECONDS:
            self._forget(polled.uid)
            return
        queue = self._news if polled.is_news or polled.wish.is_start else self._usual
        queue.add(polled.uid, polled.key.namespace, polled.due + polled.wish.patience_seconds)
        self._take_turns()

    def _take_turns(self) -> None:
        now = self._timers.time()
        for queue in (self._news, self._usual):
            while (uid := queue.take(now)) is not None:
                self._begin(self._jobs[uid])
        waits = [seconds for queue in (self._news, self._usual) if (seconds := queue.wait_seconds(now)) is not None]
        if self._next_turn is None and waits:
            self._next_turn = self._timers.call_at(now + min(waits), self._next)

    def _next(self) -> None:
        self._next_turn = None
        self._take_turns()

    def _begin(self, polled: _Polled) -> None:
        self._withdraw(polled)
        polled.begun_at, polled.is_news = self._timers.time(), False
        polled.task = asyncio.get_running_loop().create_task(self._poll(polled), name=f"poll {polled.key.namespace}/{polled.key.name}")

    def _withdraw(self, polled: _Polled) -> None:
        if polled.timer is not None:
            polled.timer.cancel()
            polled.timer = None
        self._usual.drop(polled.uid)
        self._news.drop(polled.uid)

    async def _poll(self, polled: _Polled) -> None:
        try:
            await self._reader.read(polled.uid, polled.pods, polled.key.namespace)
        except Exception:
            logger.exception("TransferJob %s/%s: a defect of the operator in polling its movers", polled.key.namespace, polled.key.name)
        polled.task = None
        if self._jobs.get(polled.uid) is not polled:
            self._reader.forget(polled.uid)
            return
        now = self._timers.time()
        polled.unlooked_since = now if polled.unlooked_since is None else polled.unlooked_since
        # A pass takes up what was read and asks for the next poll. This one is for a job whose pass fails.
        self._poll_at(polled, now if polled.is_news else now + self._interval_seconds)
        self._on_read(polled.key)

    def _forget(self, uid: str) -> None:
        polled = self._jobs.pop(uid, None)
        if polled is None:
            return
        del self._uids[polled.key]
        self._withdraw(polled)
        if polled.task is not None:
            polled.task.cancel()
        self._reader.forget(uid)
