"""The best pair of interfaces of two nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fairlead.core.placement.load import MOST_STEPS, RATE_STEP, InterfaceLoad
from fairlead.core.placement.model import Alternative, Request
from fairlead.core.placement.reach import NEAR

_SAME_MTU = RATE_STEP // 2
"""Outweighs both disks, and no step of a rate."""
_MOST_BONUS = MOST_STEPS + RATE_STEP
"""More than is added to the level of any pair."""
_LEAST_RANK = -(1 << 60)


class Pair(NamedTuple):
    """Two interfaces; None where the mover of that end chooses."""

    source: InterfaceLoad | None
    destination: InterfaceLoad | None
    alternative: Alternative | None = None


def best_pair(request: Request, source: Sequence[InterfaceLoad] | None, destination: Sequence[InterfaceLoad] | None) -> Pair | None:
    """The pair that is known to be there, reaches each other best, has the most to spare, fits in MTU and is next to the disks, in this
    order; then the first.

    An end whose interfaces are not known is None. Without a pair that reaches each other the answer is None.
    """
    if source is None or destination is None:
        return Pair(
            min(source, key=lambda each: _alone(request, each, request.source.disk_numa_node)) if source else None,
            min(destination, key=lambda each: _alone(request, each, request.destination.disk_numa_node)) if destination else None,
        )
    avoid, source_disk, destination_disk = request.avoid_interfaces, request.source.disk_numa_node, request.destination.disk_numa_node
    has_disk = source_disk is not None or destination_disk is not None
    best: tuple[InterfaceLoad, InterfaceLoad] | None = None
    second: tuple[InterfaceLoad, InterfaceLoad] | None = None
    best_rank = second_rank = _LEAST_RANK
    best_bps = second_bps = 0.0
    for one in source:
        tier_of, level, mtu, doubt, spare_bps = one.reach.to, one.level, one.mtu, one.doubt, one.spare_bps
        for other in destination:
            rank = level if level < other.level else other.level
            # Most pairs are too slow to be among the best two, whatever else speaks for them.
            if rank + _MOST_BONUS < second_rank:
                continue
            tier = tier_of(other.reach)
            if tier is None:
                continue
            if tier == NEAR:
                rank += MOST_STEPS
            # Where an agent reports, what it did not find is probably not there; where it is silent, all are alike.
            rank -= doubt + other.doubt
            if mtu == other.mtu or mtu is None or other.mtu is None:
                rank += _SAME_MTU
            if avoid and ((one.node.name, one.name) in avoid or (other.node.name, other.name) in avoid):
                rank -= 2 * MOST_STEPS
            if has_disk:
                rank += (one.numa_node == source_disk) + (other.numa_node == destination_disk)
            least_bps = spare_bps if spare_bps < other.spare_bps else other.spare_bps
            if rank > best_rank or (rank == best_rank and least_bps > best_bps):
                second, second_rank, second_bps = best, best_rank, best_bps
                best, best_rank, best_bps = (one, other), rank, least_bps
            elif rank > second_rank:
                second, second_rank, second_bps = (one, other), rank, least_bps
    if best is None:
        return None
    return Pair(best[0], best[1], None if second is None else Alternative(second[0].name, second[1].name, second_bps))


def paired(source: Sequence[InterfaceLoad], destination: Sequence[InterfaceLoad]) -> tuple[InterfaceLoad, InterfaceLoad] | None:
    """The first of the named pairs that do not reach each other, None if all do."""
    return next(((one, other) for one, other in zip(source, destination, strict=False) if one.reach.to(other.reach) is None), None)


def _alone(request: Request, interface: InterfaceLoad, disk_numa_node: int | None) -> tuple[bool, bool, float, bool, str]:
    """The order of the interfaces of one end while nothing is known of the other."""
    is_avoided = (interface.node.name, interface.name) in request.avoid_interfaces
    is_local = disk_numa_node is not None and interface.numa_node == disk_numa_node
    return interface.doubt > 0, is_avoided, -interface.level, not is_local, interface.name
