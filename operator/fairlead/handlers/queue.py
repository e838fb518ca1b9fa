"""The work queue: every key is worked on by one worker at a time, once for all that happened meanwhile, and tenants take turns."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)

HIGHEST_EXPONENT = 30
MOST_AHEAD = 7
"""How many keys of the rank that goes first are handed out in a row while others of the same tenant wait."""
MOST_COMING_UP = 128
"""While more than so many keys wait for the next step of their start, no other start goes before them: what is begun would come up late,
or too late."""


class Rank(IntEnum):
    """What a key waits for. The least goes first, apart from what `MOST_COMING_UP` is for."""

    URGENT = 0
    NEW = 1
    """Nothing was done for it yet."""
    COMING_UP = 2
    """It was begun, and does not transfer yet."""
    USUAL = 3


_STARTED_FIRST = (Rank.URGENT, Rank.COMING_UP, Rank.NEW, Rank.USUAL)


class QueueClosedError(Exception):
    """The queue was closed; the worker should end."""


class TimerHandle(Protocol):
    """A scheduled call that can be taken back."""

    def cancel(self) -> None:
        """Takes the call back; no effect once it was made."""


class Timers(Protocol):
    """A monotonic clock in seconds that can call back; an asyncio event loop is one."""

    def time(self) -> float:
        """Seconds since some fixed moment."""

    def call_at(self, when: float, callback: Callable[[], None], /) -> TimerHandle:
        """Calls `callback` once at `when`."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a key rests after each failure in a row: doubling from `first_seconds` to `most_seconds`."""

    first_seconds: float = 0.5
    most_seconds: float = 120.0

    def delay_seconds(self, failures: int) -> float:
        """The rest after the given number of failures (from 1)."""
        return min(self.most_seconds, self.first_seconds * 2.0 ** min(failures - 1, HIGHEST_EXPONENT))


class _Line(Generic[K]):
    """The keys of one tenant, by rank, each in order of arrival."""

    def __init__(self) -> None:
        self._keys: dict[Rank, OrderedDict[K, None]] = {}
        self._in_a_row = 0
        self._passed_over = deque(reversed(Rank))
        """The one first whose turn it is among those that do not go first."""

    def __bool__(self) -> bool:
        return any(self._keys.values())

    def put(self, key: K, rank: Rank) -> None:
        """Takes a key that is not in the line."""
        self._keys.setdefault(rank, OrderedDict())[key] = None

    def drop(self, key: K, rank: Rank) -> None:
        """Takes a key out."""
        del self._keys[rank][key]

    def take(self, order: Iterable[Rank]) -> K:
        """The next key. Every so often it is none of those that go first by `order`: they must not keep the others waiting for ever."""
        first, *others = (rank for rank in order if self._keys.get(rank))
        if others and self._in_a_row >= MOST_AHEAD:
            self._in_a_row = 0
            first = next(rank for rank in self._passed_over if rank in others)
            self._passed_over.remove(first)
            self._passed_over.append(first)
        else:
            self._in_a_row = self._in_a_row + 1 if others else 0
        return self._keys[first].popitem(last=False)[0]


class WorkQueue(Generic[K]):
    """Keys waiting for a worker. `tenant_of` names whose a key is: tenants take turns, and each one's keys come by their rank and in order
    of arrival. `rank_of` is asked when a key is added.

    While keys of several tenants wait or are worked on, each tenant has at most `most_beside_others` keys at work, so that a pass does not
    share the process with many passes of another tenant.

    `on_wait` is told how many seconds each key has waited that is handed out.

    A key is held once however often it is added. A key that is added while a worker has it is handed out again when that worker is done,
    so that no two workers have the same key and no event is lost. Everything happens on one event loop.
    """

    def __init__(
        self,
        timers: Timers,
        backoff: Backoff | None = None,
        *,
        tenant_of: Callable[[K], Hashable] = lambda key: None,
        rank_of: Callable[[K], Rank] = lambda key: Rank.USUAL,
        most_beside_others: int = 1,
        on_wait: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._timers = timers
        self._backoff = backoff if backoff is not None else Backoff()
        self._tenant_of = tenant_of
        self._rank_of = rank_of
        self._most_beside_others = most_beside_others
        self._on_wait = on_wait
        self._at_work: Counter[Hashable] = Counter()
        self._ready: OrderedDict[Hashable, _Line[K]] = OrderedDict()
        self._waiting_since: dict[K, float] = {}
        self._ranks: dict[K, Rank] = {}
        """Of the keys that wait."""
        self._coming_up = 0
        """How many of those come up."""
        self._new_taken_at = -math.inf
        self._working_since: dict[K, float] = {}
        self._again: dict[K, bool] = {}
        """Of the keys that workers have, those that come again, and whether they are urgent."""
        self._scheduled: dict[K, tuple[float, TimerHandle]] = {}
        self._failures: dict[K, int] = {}
        self._wakeups: deque[asyncio.Future[None]] = deque()
        self._paused = False
        self._closed = False

    def pause(self) -> None:
        """Hands out no key until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """Hands out keys again, after `pause`."""
        self._paused = False
        self._wake_one()

    def add(self, key: K) -> None:
        """Asks for work on `key` as soon as possible."""
        self._add(key, self._rank_of(key))

    def add_first(self, key: K) -> None:
        """Asks for work on `key` before what else its tenant waits for, and after what was asked for so before."""
        self._add(key, Rank.URGENT)

    def _add(self, key: K, rank: Rank) -> None:
        if self._closed:
            return
        if key in self._working_since:
            self._again[key] = rank is Rank.URGENT or self._again.get(key, False)
            return
        line = self._ready.setdefault(self._tenant_of(key), _Line())
        before = self._ranks.get(key)
        if before is None:
            self._waiting_since[key] = self._timers.time()
        elif rank < before:
            line.drop(key, before)
        else:
            return
        line.put(key, rank)
        self._note_rank(key, rank)
        self._wake_one()

    def _note_rank(self, key: K, rank: Rank | None) -> None:
        """The rank of a key that waits, None for one that does no more."""
        before = self._ranks.pop(key, None)
        if rank is not None:
            self._ranks[key] = rank
        self._coming_up += (rank is Rank.COMING_UP) - (before is Rank.COMING_UP)

    def add_after(self, key: K, delay_seconds: float) -> None:
        """Asks for work on `key` after a while. Of several such wishes the earliest counts; work that starts sooner settles all."""
        if self._closed:
            return
        if delay_seconds <= 0:
            self.add(key)
            return
        when = self._timers.time() + delay_seconds
        earlier = self._scheduled.get(key)
        if earlier is not None:
            if earlier[0] <= when:
                return
            earlier[1].cancel()
        self._scheduled[key] = (when, self._timers.call_at(when, lambda: self._due(key)))

    def retry(self, key: K) -> float:
        """Counts a failure of `key`, asks for work after its back-off and returns that, in seconds."""
        self._failures[key] = self._failures.get(key, 0) + 1
        delay_seconds = self._backoff.delay_seconds(self._failures[key])
        self.add_after(key, delay_seconds)
        return delay_seconds

    def forget(self, key: K) -> None:
        """Clears the failures of `key`."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key: the oldest of the tenant whose turn it is. The worker must call `done` afterwards. Raises QueueClosedError."""
        while (tenant := self._whose_turn()) is None:
            if self._closed:
                raise QueueClosedError
            wakeup: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._wakeups.append(wakeup)
            try:
                await wakeup
            except asyncio.CancelledError:
                if wakeup in self._wakeups:
                    self._wakeups.remove(wakeup)
                else:
                    self._wake_one()
                raise
        line = self._ready.pop(tenant[0])
        key = line.take(_STARTED_FIRST if self._coming_up > MOST_COMING_UP else Rank)
        if self._ranks[key] is Rank.NEW:
            self._new_taken_at = self._timers.time()
        self._note_rank(key, None)
        if line:
            self._ready[tenant[0]] = line
        self._at_work[tenant[0]] += 1
        now = self._timers.time()
        self._on_wait(now - self._waiting_since.pop(key))
        self._working_since[key] = now
        scheduled = self._scheduled.pop(key, None)
        if scheduled is not None:
            scheduled[1].cancel()
        self._wake_one()
        return key

    def done(self, key: K) -> None:
        """Ends the work that `get` began."""
        del self._working_since[key]
        tenant = self._tenant_of(key)
        self._at_work[tenant] -= 1
        if not self._at_work[tenant]:
            del self._at_work[tenant]
        self._wake_one()
        if (is_urgent := self._again.pop(key, None)) is not None:
            self._add(key, Rank.URGENT if is_urgent else self._rank_of(key))

    def close(self) -> None:
        """Takes no more keys and lets waiting workers end; work under way is not touched."""
        self._closed = True
        for _, handle in self._scheduled.values():
            handle.cancel()
        self._scheduled.clear()
        self._ready.clear()
        self._waiting_since.clear()
        self._ranks.clear()
        self._coming_up = 0
        self._again.clear()
        while self._wakeups:
            self._wake_one()

    @property
    def depth(self) -> int:
        """Keys that wait for a worker."""
        return len(self._waiting_since)

    @property
    def scheduled(self) -> int:
        """Keys that wait for their time."""
        return len(self._scheduled)

    @property
    def working(self) -> int:
        """Keys that workers have."""
        return len(self._working_since)

    def oldest_wait_seconds(self) -> float:
        """How long the oldest key has waited; 0 if none does. New ones wait where many come at once, and count from when one was taken."""
        since = (max(at, self._new_taken_at) if self._ranks[key] is Rank.NEW else at for key, at in self._waiting_since.items())
        oldest = min(since, default=None)
        return 0.0 if oldest is None else self._timers.time() - oldest

    def longest_work_seconds(self) -> float:
        """How long the slowest worker has had its key; 0 if none works."""
        return self._timers.time() - min(self._working_since.values()) if self._working_since else 0.0

    def _due(self, key: K) -> None:
        self._scheduled.pop(key, None)
        self.add(key)

    def _whose_turn(self) -> tuple[Hashable] | None:
        """The tenant whose key comes next, which may be any value, or None if no key may be worked on now."""
        if self._paused:
            return None
        if len(self._ready.keys() | self._at_work.keys()) <= 1:
            return next(((tenant,) for tenant in self._ready), None)
        return next(((tenant,) for tenant in self._ready if self._at_work[tenant] < self._most_beside_others), None)

    def _wake_one(self) -> None:
        if not self._closed and self._whose_turn() is None:
            return
        while self._wakeups:
            wakeup = self._wakeups.popleft()
            if not wakeup.done():
                wakeup.set_result(None)
                return
