"""What interfaces have in common for whoever pairs those of two nodes: thousands of them are of a few kinds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from fairlead.core.placement.reach import NEAR, Reach

RATE_STEP: Final = 8
"""What one step of a rate weighs when pairs are compared: more than all that decides among equal steps."""
MOST_STEPS: Final = 1024 * RATE_STEP
"""More than any rate weighs."""
LEAST_RANK: Final = -(1 << 60)
"""Less than that of any pair that reaches each other."""
UNREACHABLE: Final = 2 * LEAST_RANK
"""The worth of a pair that does not, whatever its rates are."""
_SAME_MTU = RATE_STEP // 2
"""Outweighs both disks, and no step of a rate."""
_DOUBT = 4 * MOST_STEPS
"""What sets an interface that is only declared behind all that were found."""


class Kind:
    """A kind of interface."""

    __slots__ = ("is_doubtful", "mtu", "reach", "worth")

    def __init__(self, reach: Reach, mtu: int | None, *, is_doubtful: bool) -> None:
        self.reach = reach
        self.mtu = mtu
        self.is_doubtful = is_doubtful
        """Only declared: where an agent reports, what it did not find is probably not there; where it is silent, all are alike."""
        self.worth: dict[Kind, int] = _Worth(self)
        """What speaks for a pair with one of another kind beside their rates, in the weight of steps."""

    def worth_beside(self, other: Kind, tier: int | None) -> int:
        """The worth of a pair whose interfaces reach each other as `tier` says."""
        if tier is None:
            return UNREACHABLE
        worth = MOST_STEPS if tier == NEAR else 0
        if self.mtu == other.mtu or self.mtu is None or other.mtu is None:
            worth += _SAME_MTU
        return worth - _DOUBT * (self.is_doubtful + other.is_doubtful)


class _Worth(dict[Kind, int]):
    """Found as it is first asked for."""

    __slots__ = ("_own",)

    def __init__(self, own: Kind) -> None:
        self._own = own

    def __missing__(self, other: Kind) -> int:
        worth = self[other] = self._own.worth_beside(other, self._own.reach.to(other.reach))
        return worth


class Kinds:
    """The kinds of the interfaces of all nodes. Most subnets are on one node alone, and make no difference to others."""

    def __init__(self, reaches: Iterable[tuple[str, Reach]]) -> None:
        """`reaches` has what each interface is on, with the name of its node."""
        first: dict[Hashable, str] = {}
        self._shared = {subnet for node, reach in reaches for subnet in reach.subnets if first.setdefault(subnet, node) != node}
        self._known: dict[tuple[Reach, int | None, bool], Kind] = {}

    def of(self, reach: Reach, mtu: int | None, *, is_doubtful: bool) -> Kind:
        """The kind of an interface. On the same node its own subnets count as well, which a kind does not have."""
        key = (reach.on(self._shared), mtu, is_doubtful)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Kind(key[0], mtu, is_doubtful=is_doubtful)
        return known
