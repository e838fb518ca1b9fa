"""How fast this machine is, beside the one on which the costs of runs were measured."""

from __future__ import annotations

import time

REFERENCE_SQUARES_S = 0.065
"""What a million squares took there."""
_SQUARES = 1_000_000
_TRIES = 3


def squares_s() -> float:
    """What a million squares take of the processor's time, so that what else runs here counts little."""
    began_s = time.thread_time()
    sum(number * number for number in range(_SQUARES))
    return time.thread_time() - began_s


def bearable_cores(cores: float, asked: float | None = None) -> float:
    """So many of this machine's cores as do what `cores` do there, and no more of them: on a slow machine a run takes more of each.

    `asked`: what a command line asks for in their place.
    """
    return asked if asked is not None else scaled_cores(cores, min(squares_s() for _ in range(_TRIES)))


def scaled_cores(cores: float, taken_s: float) -> float:
    """The same where a million squares take `taken_s`."""
    return round(cores * min(1.0, REFERENCE_SQUARES_S / taken_s), 2)
