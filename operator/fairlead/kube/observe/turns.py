"""Who is asked when: a bounded number of polls at a time, few of them on one node, and pauses for servers that do not answer."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

MOST_POLLS = 128
"""A hundred jobs a second have three servers each, of which one that is 100 ms away needs two round trips for an answer: 60 of them."""
MOST_ON_NODE = 8
MOST_SILENT = 16
"""Of all polls, those of servers that did not answer the last time."""
MOST_SILENT_ON_NODE = 2
MOST_HEARD_IN_A_ROW = 15
"""Turns of those that answer while silent ones wait: where there are never too few of the former, a server that was silent once must be
asked again all the same."""
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
    number: int
    granted: asyncio.Future[None]


class _Line:
    """Those who wait, by tenant and node, on each node in the order in which they came."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, dict[str, deque[_Waiter]]] = OrderedDict()

    def __len__(self) -> int:
        return sum(len(waiters) for nodes in self._tenants.values() for waiters in nodes.values())

    def append(self, waiter: _Waiter) -> None:
        """Takes one that has come last."""
        self._tenants.setdefault(waiter.target.tenant, {}).setdefault(waiter.target.node, deque()).append(waiter)

    def drop(self, waiter: _Waiter) -> None:
        """Takes one out, if it waits."""
        nodes = self._tenants.get(waiter.target.tenant, {})
        waiters = nodes.get(waiter.target.node, deque())
        with suppress(ValueError):
            waiters.remove(waiter)
        if not waiters:
            nodes.pop(waiter.target.node, None)
        if not nodes:
            self._tenants.pop(waiter.target.tenant, None)

    def take(self, may_ask: Callable[[str], bool]) -> _Waiter | None:
        """The one that came first of the next tenant that has any on a node that may be asked, which is behind all other tenants then."""
        for tenant, nodes in self._tenants.items():
            heads = [waiters[0] for node, waiters in nodes.items() if may_ask(node)]
            if heads:
                waiter = min(heads, key=lambda head: head.number)
                self._tenants.move_to_end(tenant)
                self.drop(waiter)
                return waiter
        return None


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
        self._silences: dict[str, dict[PollTarget, _Silence]] = {}
        """By pod UID."""
        self._heard, self._silent = _Line(), _Line()
        """Apart, so that thousands of silent ones, of which few have a turn, are not gone through for each of the others."""
        self._heard_in_a_row = 0
        self._numbers = itertools.count()
        self._asked_on: Counter[str] = Counter()
        self._silent_on: Counter[str] = Counter()

    @property
    def under_way(self) -> int:
        """Number of polls under way."""
        return self._asked_on.total()

    @property
    def waiting(self) -> int:
        """Number of polls that wait for their turn."""
        return len(self._heard) + len(self._silent)

    @property
    def silent(self) -> int:
        """Number of servers that did not answer the last time."""
        return sum(map(len, self._silences.values()))

    @asynccontextmanager
    async def turn(self, target: PollTarget) -> AsyncIterator[None]:
        """Waits for the target's turn and holds it while the block runs. Raises NotNowError."""
        silence = self._silence_of(target)
        if silence is not None and self._monotonic() < silence.until:
            raise NotNowError(is_silent=True)
        is_silent = silence is not None
        await self._await_turn(_Waiter(target, is_silent, next(self._numbers), asyncio.get_running_loop().create_future()))
        try:
            yield
        finally:
            self._release(target, is_silent)

    def answered(self, target: PollTarget) -> None:
        """The target has answered, or refused the connection at once."""
        of_pod = self._silences.get(target.pod_uid, {})
        of_pod.pop(target, None)
        if not of_pod:
            self._silences.pop(target.pod_uid, None)

    def was_silent(self, target: PollTarget) -> None:
        """The target kept us waiting, or answered something unusable: it rests, twice as long after each time in a row."""
        before = self._silence_of(target)
        failures = before.failures + 1 if before else 1
        pause_seconds = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, _MOST_DOUBLINGS))
        self._silences.setdefault(target.pod_uid, {})[target] = _Silence(failures, self._monotonic() + pause_seconds)

    def forget(self, pod_uid: str) -> None:
        """Forgets a pod that is gone."""
        self._silences.pop(pod_uid, None)

    def _silence_of(self, target: PollTarget) -> _Silence | None:
        return self._silences.get(target.pod_uid, {}).get(target)

    def _line_of(self, waiter: _Waiter) -> _Line:
        return self._silent if waiter.is_silent else self._heard

    async def _await_turn(self, waiter: _Waiter) -> None:
        self._line_of(waiter).append(waiter)
        self._grant()
        try:
            async with asyncio.timeout(self._longest_wait_seconds):
                await waiter.granted
        except BaseException as error:
            if waiter.granted.done() and not waiter.granted.cancelled():
                self._release(waiter.target, waiter.is_silent)
            else:
                self._line_of(waiter).drop(waiter)
            if isinstance(error, TimeoutError):
                raise NotNowError(is_silent=False) from error
            raise

    def _grant(self) -> None:
        """Gives free turns to those who wait, one tenant after the other: mostly to those that answer, of whom nobody needs patience."""
        while (waiter := self._next()) is not None:
            if waiter.granted.done():
                # Its time is over, and it has not come to leave the line yet.
                continue
            self._asked_on[waiter.target.node] += 1
            self._silent_on[waiter.target.node] += waiter.is_silent
            waiter.granted.set_result(None)

    def _next(self) -> _Waiter | None:
        if self.under_way >= self._most:
            return None
        lines = (self._next_heard, self._next_silent)
        for take in lines if self._heard_in_a_row < MOST_HEARD_IN_A_ROW else reversed(lines):
            if (waiter := take()) is not None:
                self._heard_in_a_row = 0 if waiter.is_silent else self._heard_in_a_row + 1
                return waiter
        return None

    def _next_heard(self) -> _Waiter | None:
        return self._heard.take(lambda node: self._asked_on[node] < self._most_on_node)

    def _next_silent(self) -> _Waiter | None:
        if self._silent_on.total() >= MOST_SILENT:
            return None
        return self._silent.take(lambda node: self._asked_on[node] < self._most_on_node and self._silent_on[node] < MOST_SILENT_ON_NODE)

    def _release(self, target: PollTarget, is_silent: bool) -> None:
        self._asked_on[target.node] -= 1
        self._silent_on[target.node] -= is_silent
        if not self._asked_on[target.node]:
            del self._asked_on[target.node]
            del self._silent_on[target.node]
        self._grant()
