"""What a job can use: without bound, until it has used less than its cap for a while.

A job that is limited elsewhere (a disk, another network) leaves what it does not use to others. It keeps a fifth more than it uses,
so that it can be seen to want more: once it has used that too for two rounds, its demand is without bound again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

SPARE = 1.2
"""What a limited job may have, over what it uses: others lack the difference, and a disk's lumps must stay below it."""
WANTS = 0.95
"""Using this part of what it may have, a job is taken to want more: pacing comes nearer to a cap, and a disk's jitter must not."""
LEAVES = 0.8
"""Using less than this part of its cap, a job leaves something."""
PATIENCE_SECONDS = 8.0
"""For how long it must do so until others get it: slow starts and pauses between files are shorter."""
WANTING_SECONDS = 4.0
"""For how long a limited job must use all it may until it is free: two rounds. A disk that comes in lumps does so for one, and freeing
it takes from others what it then leaves."""
_GROWS = 1.1
"""A rate that is this much above its own mean is still on its way up."""


@dataclass(frozen=True, slots=True)
class JobUsage:
    """What a job was measured to use: lately (one round) and on average (two rounds)."""

    recent_bps: float
    steady_bps: float


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job is taken to be able to use; `since` is when it began to leave something."""

    most_bps: float = math.inf
    since: float | None = None
    wants_since: float | None = None
    """Since when a limited job uses all that it may."""

    def after(self, usage: JobUsage | None, cap_bps: float | None, now: float, least_bps: float = 0.0) -> Demand:
        """The demand in view of what the job used under `cap_bps`. It has `least_bps` however little it uses."""
        if usage is None or cap_bps is None:
            return self
        used_bps = usage.recent_bps
        limited_bps = max(used_bps * SPARE, usage.steady_bps * SPARE, least_bps)
        if self.most_bps < math.inf:
            return self._limited_after(used_bps, limited_bps, cap_bps, now)
        if used_bps >= WANTS * cap_bps:
            return Demand()
        if used_bps >= LEAVES * cap_bps or used_bps > _GROWS * usage.steady_bps:
            return Demand()
        since = now if self.since is None else self.since
        return Demand(limited_bps if now - since >= PATIENCE_SECONDS else math.inf, since)

    def _limited_after(self, used_bps: float, limited_bps: float, cap_bps: float, now: float) -> Demand:
        if used_bps >= WANTS * self.most_bps:
            wants_since = now if self.wants_since is None else self.wants_since
            return Demand() if now - wants_since >= WANTING_SECONDS else replace(self, wants_since=wants_since)
        # Under a cap below what it was seen to be able to use, a job shows nothing new.
        keeps = LEAVES * self.most_bps <= limited_bps <= self.most_bps or used_bps >= LEAVES * cap_bps
        return Demand(self.most_bps if keeps else limited_bps, self.since)
