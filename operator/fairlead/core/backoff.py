"""How long to wait before the next attempt."""

from __future__ import annotations

from datetime import timedelta

_MOST_DOUBLINGS = 30


def delay_after(failures: int, *, first: timedelta, most: timedelta) -> timedelta:
    """The pause after the given number of failed attempts (1 or more): doubles each time, up to `most`."""
    doublings = min(max(failures - 1, 0), _MOST_DOUBLINGS)
    return min(first * (1 << doublings), most)
