"""The best pair of interfaces of two nodes."""

from __future__ import annotations

from collections.abc import Sequence, Set

from fairlead.core.placement.kinds import LEAST_RANK, MOST_STEPS, UNREACHABLE
from fairlead.core.placement.load import InterfaceLoad
from fairlead.core.placement.model import Alternative, EndWish, Request

Pair = tuple[InterfaceLoad, InterfaceLoad, Alternative | None]
"""Two interfaces, and the names of those that came second."""


def best_pair(request: Request, source: Sequence[InterfaceLoad], destination: Sequence[InterfaceLoad]) -> Pair | None:
    """The pair that is known to be there, reaches each other best, has the most to spare, fits in MTU and is next to the disks, in this
    order; then the first. None without a pair that reaches each other.
    """
    is_plain = not (
        request.avoid_interfaces
        or request.source.disk_numa_node is not None
        or request.destination.disk_numa_node is not None
        or source[0].node is destination[0].node
    )
    best: float = UNREACHABLE
    second: float = UNREACHABLE
    one = other = second_one = second_other = source[0]
    for left in source:
        level, worth = left.level, left.kind.worth
        for right in destination:
            if is_plain:
                # As `_rank` has it without what only few jobs know.
                rank: float = worth[right.kind]
                least = right.level
                rank += level if level < least else least
            else:
                rank = _rank(request, left, right)
            if rank > second:
                if rank > best:
                    second, second_one, second_other = best, one, other
                    best, one, other = rank, left, right
                else:
                    second, second_one, second_other = rank, left, right
    if best < LEAST_RANK:
        return None
    alternative = None
    if second >= LEAST_RANK:
        spare_bps = second_one.spare_bps if second_one.spare_bps < second_other.spare_bps else second_other.spare_bps
        alternative = Alternative(second_one.name, second_other.name, spare_bps)
    return one, other, alternative


def _rank(request: Request, one: InterfaceLoad, other: InterfaceLoad) -> float:
    """What speaks for two interfaces, in the weight of steps."""
    # On one node an interface reaches itself by subnets that no other node is on.
    worth = one.kind.worth_beside(other.kind, one.reach.to(other.reach)) if one.node is other.node else one.kind.worth[other.kind]
    rank = worth + min(one.level, other.level)
    if (one.node.name, one.name) in request.avoid_interfaces or (other.node.name, other.name) in request.avoid_interfaces:
        rank -= 2 * MOST_STEPS
    disks = request.source.disk_numa_node, request.destination.disk_numa_node
    if disks != (None, None):
        rank += (one.numa_node == disks[0]) + (other.numa_node == disks[1])
    return rank


def paired(source: Sequence[InterfaceLoad], destination: Sequence[InterfaceLoad]) -> tuple[InterfaceLoad, InterfaceLoad] | None:
    """The first of the named pairs that do not reach each other, None if all do."""
    return next(((one, other) for one, other in zip(source, destination, strict=False) if one.reach.to(other.reach) is None), None)


def best_alone(interfaces: Sequence[InterfaceLoad], wish: EndWish, avoid: Set[tuple[str, str]]) -> InterfaceLoad:
    """The best interface of one end while nothing is known of the other."""

    def order(each: InterfaceLoad) -> tuple[bool, bool, int, bool, str]:
        is_local = wish.disk_numa_node is not None and each.numa_node == wish.disk_numa_node
        return each.carrier is None, (each.node.name, each.name) in avoid, -round(each.level), not is_local, each.name

    return min(interfaces, key=order)
