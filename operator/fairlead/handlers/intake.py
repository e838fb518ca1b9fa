"""Lets the watches show what exists before the workers begin."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from fairlead.handlers.queue import TimerHandle, Timers, WorkQueue

K = TypeVar("K", bound=Hashable)

PATIENCE_SECONDS = 10.0
"""How long workers wait at most for the watches to show the keys of the first list."""


class Intake(Generic[K]):
    """Pauses a queue from the start of the watches until they have shown all keys of the first list.

    The watches begin with every object at once. Passes over thousands of them at the same time would delay a new object by seconds, as
    everything runs on one event loop.
    """

    def __init__(self, queue: WorkQueue[K], timers: Timers) -> None:
        self._queue = queue
        self._timers = timers
        self._expected: set[K] = set()
        self._patience: TimerHandle | None = None

    def expect(self, keys: Iterable[K]) -> None:
        """Pauses the queue until `seen` was called with each of `keys`, or until patience ends."""
        self._expected = set(keys)
        if self._expected:
            self._queue.pause()
            self._patience = self._timers.call_at(self._timers.time() + PATIENCE_SECONDS, self._complete)

    def seen(self, key: K, *, is_listed: bool) -> None:
        """Takes in that a watch has shown `key`, in its first list or later: then its list is over."""
        if not self._expected:
            return
        self._expected.discard(key)
        if not self._expected or not is_listed:
            self._complete()

    def _complete(self) -> None:
        self._expected.clear()
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self._queue.resume()
