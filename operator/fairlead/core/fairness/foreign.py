"""Others' traffic on a link, by what agents and movers say of its interfaces: how much of that is believed, and for how long.

An agent belongs to no tenant: what it reports counts in full, also while no mover runs there. A mover belongs to one, and what it reports
steers everybody on the link. So what two sources report counts in full. What one source alone reports counts in full where the link is its
own, otherwise in part and for a while.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

FRAME_OVERHEAD = 1514 / 1500
"""What an interface counts for an IP byte at an MTU of 1500: Ethernet headers. Jumbo frames have less, by less than `_NOTHING`."""
UNSUPPORTED_PART = 0.25
"""The part of what is available that a claim without a second source may take."""
UNSUPPORTED_SECONDS = 60.0
"""For how long it may."""
FORGOTTEN_SECONDS = 600.0
"""A claim without a second source counts anew when there was none for so long."""
_NOTHING = 0.02
"""Others' traffic below this part of the capacity is within what the estimate of our own may be off by."""
_MOST = 1.5
"""A counter that grew by more than this part of the capacity is wrong, or the capacity is: two sources that say so are believed. Readings
may be further apart than it seems.
"""
_OWN_PART = 0.5
"""A counter that grew by less than this part of what its own mover has sent there is wrong."""
_LOOKS = 3


@dataclass(frozen=True, slots=True)
class Foreign:
    """An estimate of others' traffic in each of the last rounds."""

    estimates_bps: tuple[float, ...] = ()

    def noted(self, estimate_bps: float, capacity_bps: float) -> Foreign:
        """With one more round's estimate."""
        kept = estimate_bps if estimate_bps > _NOTHING * capacity_bps else 0.0
        return Foreign((*self.estimates_bps, kept)[-_LOOKS:])

    @property
    def rate_bps(self) -> float | None:
        """The median of the last estimates: one round in which our own counters lag changes nothing. None before any."""
        return statistics.median(self.estimates_bps) if self.estimates_bps else None


@dataclass(frozen=True, slots=True)
class LinkClaims:
    """Others' traffic on a link as reported: the most that any source says, and the most that two say."""

    claimed_bps: float
    supported_bps: float

    def plus(self, seen_bps: float) -> LinkClaims:
        """With what agents see on other interfaces of the link, which needs no second source."""
        return LinkClaims(self.claimed_bps + seen_bps, self.supported_bps + seen_bps)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Others' traffic on an interface by one mover's counter. `exceeds`: the counter grew by more than the link can carry."""

    rate_bps: float
    exceeds: bool = False


def estimate_of(total_bps: float, own_bps: float, ours_bps: float, capacity_bps: float) -> Estimate | None:
    """What a counter that grew by `total_bps` says, with `ours_bps` of all our jobs there; None if it cannot be right.

    `own_bps` is what the job of the mover that reports it has sent there.
    """
    if total_bps < _OWN_PART * own_bps - _NOTHING * capacity_bps:
        return None
    return Estimate(max(0.0, total_bps - ours_bps * FRAME_OVERHEAD), exceeds=exceeds(total_bps, capacity_bps))


def exceeds(rate_bps: float, capacity_bps: float) -> bool:
    """Whether a measured rate is more than a link of this capacity can have carried."""
    return rate_bps > _MOST * capacity_bps


def claims_of(interfaces: Iterable[Mapping[str, Sequence[Estimate]]], *, one_party: bool) -> LinkClaims | None:
    """What is claimed of a link, by the estimates for each of its interfaces by source; None where nobody reports.

    `one_party`: whoever reports or shares the link is one source, and needs no second one.
    """
    claimed_bps = supported_bps = 0.0
    reported = False
    for by_source in interfaces:
        said = sorted((statistics.median_low(each.rate_bps for each in found) for found in by_source.values() if found), reverse=True)
        if said:
            reported = True
            believed_bps = said[0] if one_party else said[1] if len(said) > 1 else 0.0
            within = [[each.rate_bps for each in found if not each.exceeds] for found in by_source.values()]
            alone_bps = max((statistics.median_low(rates) for rates in within if rates), default=0.0)
            supported_bps += believed_bps
            claimed_bps += max(believed_bps, alone_bps)
    return LinkClaims(claimed_bps, supported_bps) if reported else None


@dataclass(frozen=True, slots=True)
class ForeignTraffic:
    """What is known of others' traffic on a link, and since and until when a claim without a second source was seen."""

    supported: Foreign = field(default_factory=Foreign)
    claimed: Foreign = field(default_factory=Foreign)
    since: float | None = None
    last_at: float | None = None

    def noted(self, claims: LinkClaims | None, capacity_bps: float, now: float) -> ForeignTraffic:
        """With one more round. Where nobody reports any more nothing is known: no new reading would ever correct the last one."""
        if claims is None:
            return replace(self, supported=Foreign(), claimed=Foreign())
        after = replace(
            self,
            supported=self.supported.noted(claims.supported_bps, capacity_bps),
            claimed=self.claimed.noted(claims.claimed_bps, capacity_bps),
        )
        if after.unsupported_bps <= _NOTHING * capacity_bps:
            return after
        forgotten = self.last_at is None or now - self.last_at >= FORGOTTEN_SECONDS
        return replace(after, since=now if forgotten else self.since, last_at=now)

    @property
    def unsupported_bps(self) -> float:
        """What one source alone claims."""
        return max(0.0, (self.claimed.rate_bps or 0.0) - (self.supported.rate_bps or 0.0))

    def rate_bps(self, available_bps: float, now: float) -> float | None:
        """What is to be left to others of a link that has `available_bps` without them; None where nobody reports."""
        supported_bps = self.supported.rate_bps
        if supported_bps is None:
            return None
        counts = self.since is not None and now - self.since < UNSUPPORTED_SECONDS
        return supported_bps + (min(self.unsupported_bps, UNSUPPORTED_PART * available_bps) if counts else 0.0)
