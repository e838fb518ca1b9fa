"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from fairlead_dev.clock import Clock

T = TypeVar("T")

PATIENCE_S = 480.0
"""How long anything is waited for: longer than it takes on a machine that is slow and busy with other things, so only a hang fails."""


class WaitedTooLongError(AssertionError):
    """What was waited for did not come in time."""


def wait_until(
    check: Callable[[], T | None],
    what: str,
    timeout_s: float = PATIENCE_S,
    interval_s: float = 0.3,
    clock: Clock = time,
    not_yet: tuple[type[Exception], ...] = (),
    last_seen: Callable[[], object] | None = None,
) -> T:
    """The first result of `check` that is true. Raises WaitedTooLongError after `timeout_s`.

    Between two checks it waits `interval_s`, or as long as the first of them took: what is looked at often needs the processors too.
    `check` runs at least twice: at once, and when the time is over. Its errors of the kinds `not_yet` count as no result. The error's
    message ends with what `last_seen` returns when the time is over, or without it with the last result or error of `check`.
    """
    deadline_s = clock.monotonic() + timeout_s
    while True:
        began_s = clock.monotonic()
        late = began_s >= deadline_s
        try:
            result = check()
            seen = repr(result)
        except not_yet as error:
            result, seen = None, f"{type(error).__name__}: {error}"
        if result:
            return result
        if late:
            seen = seen if last_seen is None else repr(last_seen())
            raise WaitedTooLongError(f"not within {timeout_s:g} s: {what}; last seen: {seen}")
        now_s = clock.monotonic()
        clock.sleep(min(max(interval_s, now_s - began_s), max(0.0, deadline_s - now_s)))


def stays_true(check: Callable[[], bool], what: str, seconds: float, interval_s: float = 0.5, clock: Clock = time) -> None:
    """Asserts that `check` holds at every look during a window, for what must not happen and so has no condition to wait for."""
    end_s = clock.monotonic() + seconds
    while True:
        last = clock.monotonic() >= end_s
        assert check(), f"did not hold for {seconds:g} s: {what}"
        if last:
            return
        clock.sleep(interval_s)
