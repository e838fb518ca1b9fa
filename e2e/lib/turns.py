"""Whose turn it is on what all tests share: many tests at once, or one that must have some of it alone. Works across processes."""

from __future__ import annotations

import fcntl
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

SECOND_PATH = pytest.mark.xdist_group("second path")
"""For tests that come one after the other beside all the rest: each counts on the second path."""


PROCESSORS, CLUSTER = "processors", "cluster"
SHARED = (PROCESSORS, CLUSTER)
"""What all tests share."""


@contextmanager
def turn(folder: Path, alone: Collection[str] = ()) -> Iterator[None]:
    """Waits for all that is shared and holds it together with others; or waits for `alone`, some of it, and holds that and nothing else.

    `folder` has the locks.
    """
    unknown = set(alone) - {*SHARED}
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))} is nothing that tests share: that is {', '.join(SHARED)}")
    awaited, *others = (folder / f"{name}.lock" for name in SHARED if not alone or name in alone)
    while True:
        with ExitStack() as held:
            held.enter_context(_lock(awaited, alone=bool(alone)))
            busy = next((each for each in others if not held.enter_context(_lock_if_free(each, alone=bool(alone)))), None)
            if busy is None:
                yield
                return
        # Nothing is held while something else is waited for: whoever needs that alone goes first.
        others[others.index(busy)], awaited = awaited, busy


@contextmanager
def _lock_if_free(lock_file: Path, *, alone: bool) -> Iterator[bool]:
    """Holds the lock if that is possible without waiting; yields whether it does."""
    with lock_file.open("a") as handle:
        try:
            fcntl.flock(handle, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


@contextmanager
def _lock(lock_file: Path, *, alone: bool) -> Iterator[None]:
    """Waits until no other process holds the lock alone (or, to be alone, holds it at all) and holds it."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


@contextmanager
def once(marker_file: Path, token: str, lock_file: Path) -> Iterator[bool]:
    """Yields True to the first process that comes with `token` and False to the others, which wait until the first is done.

    If the first one fails, the next one tries.
    """
    with _lock(lock_file, alone=True):
        first = not marker_file.exists() or marker_file.read_text() != token
        yield first
        marker_file.write_text(token)
