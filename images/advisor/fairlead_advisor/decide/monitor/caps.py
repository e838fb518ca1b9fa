"""Which changes of the transfer's cap alter what it measures: a cap is rewritten all the time on a shared link, mostly to no effect."""

import math
from dataclasses import dataclass

AT_CAP_RATIO = 0.9
"""A cap counts headers too, and its pacing leaves a little: from here on the cap holds the transfer."""
MOVED_RATIO = 1.2
"""As the least step of the goodput that counts."""
_ROOM = 1.25


def reachable_bps(cap_bps: float | None) -> float:
    """What a cap lets through for certain; infinite without one."""
    return math.inf if cap_bps is None else AT_CAP_RATIO * cap_bps


def at_cap(goodput_bps: float, cap_bps: float | None) -> bool:
    """Whether the cap holds a transfer of this goodput."""
    return goodput_bps >= reachable_bps(cap_bps)


def leaves_room(goodput_bps: float, cap_bps: float | None) -> bool:
    """Whether a cap lets through a quarter more for certain."""
    return _ROOM * goodput_bps <= reachable_bps(cap_bps)


@dataclass(frozen=True, slots=True)
class CapRange:
    """The range of the caps that bounded the transfer since the change detector began."""

    least_bps: float = math.inf
    most_bps: float = 0.0

    @property
    def wide(self) -> bool:
        """Whether what was usual at one end is a step at the other."""
        return self.most_bps > MOVED_RATIO * self.least_bps


def moved(span: CapRange, before_bps: float | None, after_bps: float | None, goodput_bps: float) -> CapRange:
    """Takes in a change of the cap of a transfer that had `goodput_bps`; one that neither holds it before nor after is none."""
    held = goodput_bps >= reachable_bps(before_bps)
    if not held and goodput_bps < reachable_bps(after_bps):
        return span
    level_bps = before_bps if held and before_bps is not None else goodput_bps / AT_CAP_RATIO
    levels_bps = level_bps, math.inf if after_bps is None else after_bps
    return CapRange(min(span.least_bps, *levels_bps), max(span.most_bps, *levels_bps))
