"""Whose turn it is on what all tests share: many tests at once, or one that must be alone. Works across processes."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SECOND_PATH = pytest.mark.xdist_group("second path")
"""For tests that come one after the other beside all the rest: each counts on the second path."""


@contextmanager
def turn(lock_file: Path, *, alone: bool) -> Iterator[None]:
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
    with turn(lock_file, alone=True):
        first = not marker_file.exists() or marker_file.read_text() != token
        yield first
        marker_file.write_text(token)
