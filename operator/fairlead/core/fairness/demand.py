"""What a job can use: without bound, until it has used less than its cap for a while.

A job that is limited elsewhere (a disk, another network) leaves what it does not use to others. It keeps a quarter more than it uses,
so that it can be seen to want more: once it comes near its cap, its demand is without bound again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SPARE = 1.25
"""What a limited job may have, over what it uses."""
WANTS = 0.9
"""Using this part of its cap, a job is taken to want more. Above 1 / SPARE, or a limited job would be set free by its own cap."""
LEAVES = 0.8
"""Using less than this part of its cap, a job leaves something."""
PATIENCE_SECONDS = 10.0
"""For how long it must do so until others get it: slow starts and pauses between files are shorter."""
_GROWS = 1.1
"""A rate that is this much above its own mean is still on its way up."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a job was measured to use: lately (one round) and on average (two rounds)."""

    recent_bps: float
    steady_bps: float
    grain_bps: float = 0.0
    """By how much either may be off."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a job is taken to be able to use; `since` is when it began to leave something."""

    most_bps: float = math.inf
    since: float | None = None

    def after(self, usage: Usage | None, cap_bps: float | None, now: float) -> Demand:
        """The demand in view of what the job used under `cap_bps`."""
        if usage is None or cap_bps is None:
            return self
        used_bps = usage.recent_bps + usage.grain_bps
        if used_bps >= WANTS * cap_bps:
            return Demand()
        limited_bps = max(usage.recent_bps, usage.steady_bps) * SPARE + usage.grain_bps
        if self.most_bps < math.inf:
            keeps = LEAVES * self.most_bps <= limited_bps <= self.most_bps
            return self if keeps else Demand(limited_bps, self.since)
        if used_bps >= LEAVES * cap_bps or usage.recent_bps > _GROWS * usage.steady_bps:
            return Demand()
        since = now if self.since is None else self.since
        return Demand(limited_bps if now - since >= PATIENCE_SECONDS else math.inf, since)
