"""Who is asked when: a bounded number of polls at a time, few of them on one node, and pauses for servers that do not answer."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

MOST_POLLS = 128
"""A hundred jobs a second have three servers each, of which one that is 100 ms away needs two round trips for an answer: 60 of them."""
MOST_ON_NODE = 8
MOST_SILENT = 16
"""Of all polls, those of servers that did not answer the last time."""
MOST_SILENT_ON_NODE = 2
LONGEST_WAIT_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 3.0
LONGEST_PAUSE_SECONDS = 30.0
_MOST_DOUBLINGS = 10


@dataclass(frozen=True, slots=True)
class PollTarget:
    """A server of a pod. `is_ready`: one that becomes ready is asked anew, whatever it did before. `tenant` is its namespace."""

    pod_uid: str
    port: int
    is_ready: bool
    node: str = field(compare=False)
    tenant: str = field(compare=False)


class NotNowError(Exception):
    """The target is not asked this time. `is_silent`: since it has not answered before; otherwise too many others are asked."""

    def __init__(self, *, is_silent: bool) -> None:
        super().__init__("the target is not asked this time")
        self.is_silent = is_silent


@dataclass(frozen=True, slots=True)
class _Silence:
    failures: int
    until: float


@dataclass(eq=False, slots=True)
class _Waiter:
    target: PollTarget
    is_silent: bool
    granted: asyncio.Future[None]


class PollTurns:
    """Hands out turns to poll, to tenants in rotation. `monotonic` is a clock in seconds. Used from one event loop only."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        *,
        most: int = MOST_POLLS,
        most_on_node: int = MOST_ON_NODE,
        longest_wait_seconds: float = LONGEST_WAIT_SECONDS,
    ) -> None:
        self._monotonic = monotonic
        self._most = most
        self._most_on_node = most_on_node
        self._longest_wait_seconds = longest_wait_seconds
        self._silences: dict[PollTarget, _Silence] = {}
        self._waiting: dict[str, deque[_Waiter]] = {}
        self._asked_on: Counter[str] = Counter()
        self._silent_on: Counter[str] = Counter()

    @property
    def under_way(self) -> int:
        """Number of polls under way."""
        return self._asked_on.total()

    @property
    def waiting(self) -> int:
        """Number of polls that wait for their turn."""
        return sum(map(len, self._waiting.values()))

    @property
    def silent(self) -> int:
        """Number of servers that did not answer the last time."""
        return len(self._silences)

    @asynccontextmanager
    async def turn(self, target: PollTarget) -> AsyncIterator[None]:
        """Waits for the target's turn and holds it while the block runs. Raises NotNowError."""
        silence = self._silences.get(target)
        if silence is not None and self._monotonic() < silence.until:
            raise NotNowError(is_silent=True)
        is_silent = silence is not None
        await self._await_turn(_Waiter(target, is_silent, asyncio.get_running_loop().create_future()))
        try:
            yield
        finally:
            self._release(target, is_silent)

    def answered(self, target: PollTarget) -> None:
        """The target has answered, or refused the connection at once."""
        self._silences.pop(target, None)

    def was_silent(self, target: PollTarget) -> None:
        """The target kept us waiting, or answered something unusable: it rests, twice as long after each time in a row."""
        before = self._silences.get(target)
        failures = before.failures + 1 if before else 1
        pause_seconds = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
        self._silences[target] = _Silence(failures, self._monotonic() + pause_seconds)

    def forget(self, pod_uid: str) -> None:
        """Forgets a pod that is gone."""
        for target in [target for target in self._silences if target.pod_uid == pod_uid]:
            del self._silences[target]

    async def _await_turn(self, waiter: _Waiter) -> None:
        queue = self._waiting.setdefault(waiter.target.tenant, deque())
        queue.append(waiter)
        self._grant()
        try:
            async with asyncio.timeout(self._longest_wait_seconds):
                await waiter.granted
        except BaseException as error:
            if waiter.granted.done() and not waiter.granted.cancelled():
                self._release(waiter.target, waiter.is_silent)
            else:
                self._drop(waiter)
            if isinstance(error, TimeoutError):
                raise NotNowError(is_silent=False) from error
            raise

    def _grant(self) -> None:
        """Gives free turns to those who wait, one tenant after the other."""
        granted = True
        while granted and self.under_way < self._most:
            granted = False
            for tenant in list(self._waiting):
                waiter = next((waiter for waiter in self._waiting[tenant] if self._may_ask(waiter)), None)
                if waiter is None:
                    continue
                granted = True
                self._drop(waiter)
                if tenant in self._waiting:
                    # Behind all others that wait.
                    self._waiting[tenant] = self._waiting.pop(tenant)
                self._asked_on[waiter.target.node] += 1
                self._silent_on[waiter.target.node] += waiter.is_silent
                waiter.granted.set_result(None)

    def _may_ask(self, waiter: _Waiter) -> bool:
        node = waiter.target.node
        if waiter.granted.done():
            # Its time is over, and it has not come to leave the queue yet.
            return False
        if self.under_way >= self._most or self._asked_on[node] >= self._most_on_node:
            return False
        return not waiter.is_silent or (self._silent_on.total() < MOST_SILENT and self._silent_on[node] < MOST_SILENT_ON_NODE)

    def _release(self, target: PollTarget, is_silent: bool) -> None:
        self._asked_on[target.node] -= 1
        self._silent_on[target.node] -= is_silent
        if not self._asked_on[target.node]:
            del self._asked_on[target.node]
            del self._silent_on[target.node]
        self._grant()

    def _drop(self, waiter: _Waiter) -> None:
        queue = self._waiting[waiter.target.tenant]
        queue.remove(waiter)
        if not queue:
            del self._waiting[waiter.target.tenant]
