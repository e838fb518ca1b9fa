"""How much more has arrived than the caps in force allow: a leaky bucket that drains at the cap (generic cell rate algorithm, ITU-T I.371).

The rate that a receiver measures exceeds the cap for some seconds also where the cap is kept: its clock stands still in a paused probe
while data that was sent before still arrives, and after any stop the guard on the node lets more than a second's worth pass at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

TOLERANCE = 1.05
"""A measured rate this much above the cap still counts as kept: pacing works on packets, without their headers' exact share."""
CATCH_UP_SECONDS = 4.0
"""So much at the cap may arrive too early: what the guard lets pass after a stop, and what a receiver's disk held up for some seconds."""
_MOST = 1.1
"""The excess grows no further than this part of what is allowed, so that it is soon over once the cap is kept again."""
_BITS = 8
RECEIVER_WINDOW_SECONDS = 10
"""A receiver reports the mean rate of this time."""
MEASURED_SECONDS = RECEIVER_WINDOW_SECONDS + 3.0
"""For how long an earlier cap shows in what a receiver measures: its report may be some seconds old."""
LONGEST_SECONDS = 900.0
"""For how long an earlier cap is remembered at most, as what came since a receiver's last report may have come under it."""
BLOCK_BITS = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Arrived:
    """What a receiver reported at a moment, in Unix time: payload bytes of this attempt, and over how many streams they come."""

    at: float
    count_bytes: int
    streams: int


@dataclass(frozen=True, slots=True)
class CapHistory:
    """The caps of a job under which what its receiver tells may have come, in bit/s, each with its beginning in Unix time, oldest first."""

    changes: tuple[tuple[float, float], ...] = ()

    def noted(self, now: float, cap_bps: float, last: Arrived | None = None) -> CapHistory:
        """With the cap that is in force now; `last` is what the receiver reported before."""
        if self.changes and self.changes[-1][1] == cap_bps:
            return self
        return CapHistory((*self._since(_begin(now, last)), (now, cap_bps)))

    def highest_bps(self, now: float, last: Arrived | None = None) -> float:
        """The highest cap that was in force while the present rate was measured, and since the receiver reported before."""
        return max(cap_bps for _, cap_bps in self._since(_begin(now, last)))

    def _since(self, begin: float) -> tuple[tuple[float, float], ...]:
        return tuple(change for change, end in zip(self.changes, self._ends(), strict=True) if end >= begin)

    def _ends(self) -> tuple[float, ...]:
        return (*(since for since, _ in self.changes[1:]), math.inf) if self.changes else ()


def _begin(now: float, last: Arrived | None) -> float:
    measured = now - MEASURED_SECONDS
    return measured if last is None else max(min(measured, last.at), now - LONGEST_SECONDS)


@dataclass(frozen=True, slots=True)
class CapExcess:
    """By how many bits what arrived was ahead of the cap at the receiver's last report, and how many prove nothing yet."""

    last: Arrived
    bits: float = 0.0
    allowed_bits: float = math.inf

    @property
    def is_proven(self) -> bool:
        """Whether more is ahead than a sender that keeps to the cap can cause."""
        return self.bits > self.allowed_bits


def excess_after(before: CapExcess | None, arrived: Arrived | None, cap_bps: float) -> CapExcess | None:
    """The excess in view of a new report, under the highest cap that was in force since the one before.

    A counter that fell belongs to a new attempt and starts anew, as does a job without a cap. Without a report nothing changes.
    """
    if arrived is None:
        return before
    if before is None or arrived.count_bytes < before.last.count_bytes or cap_bps == math.inf:
        return CapExcess(arrived)
    allowed_bits = cap_bps * CATCH_UP_SECONDS + BLOCK_BITS * max(1, arrived.streams)
    came_bits = (arrived.count_bytes - before.last.count_bytes) * _BITS
    drained_bits = cap_bps * TOLERANCE * max(0.0, arrived.at - before.last.at)
    bits = min(max(0.0, before.bits + came_bits - drained_bits), allowed_bits * _MOST)
    return CapExcess(arrived, bits, allowed_bits)
