"""The best pair of interfaces of two nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fairlead.core.placement.load import RATE_STEPS, InterfaceLoad
from fairlead.core.placement.model import Alternative, Request
from fairlead.core.placement.reach import NEAR


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
    best: tuple[int, float, InterfaceLoad, InterfaceLoad] | None = None
    second: tuple[int, float, InterfaceLoad, InterfaceLoad] | None = None
    for one in source:
        reaches, level, mtu, doubt = one.reach, one.level, one.mtu, one.doubt
        for other in destination:
            tier = reaches.to(other.reach)
            if tier is None:
                continue
            rank = other.level if other.level < level else level
            if tier == NEAR:
                rank += RATE_STEPS
            if avoid and ((one.node.name, one.name) in avoid or (other.node.name, other.name) in avoid):
                rank -= 2 * RATE_STEPS
            # Where an agent reports, what it did not find is probably not there; where it is silent, all are alike.
            rank -= doubt + other.doubt
            rank = 8 * rank
            if mtu == other.mtu or mtu is None or other.mtu is None:
                rank += 4
            if source_disk is not None or destination_disk is not None:
                rank += (one.numa_node == source_disk) + (other.numa_node == destination_disk)
            least_bps = one.spare_bps if one.spare_bps < other.spare_bps else other.spare_bps
            if best is None or rank > best[0] or (rank == best[0] and least_bps > best[1]):
                best, second = (rank, least_bps, one, other), best
            elif second is None or rank > second[0]:
                second = (rank, least_bps, one, other)
    if best is None:
        return None
    return Pair(best[2], best[3], None if second is None else Alternative(second[2].name, second[3].name, second[1]))


def paired(source: Sequence[InterfaceLoad], destination: Sequence[InterfaceLoad]) -> tuple[InterfaceLoad, InterfaceLoad] | None:
    """The first of the named pairs that do not reach each other, None if all do."""
    return next(((one, other) for one, other in zip(source, destination, strict=False) if one.reach.to(other.reach) is None), None)


def _alone(request: Request, interface: InterfaceLoad, disk_numa_node: int | None) -> tuple[bool, bool, float, bool, str]:
    """The order of the interfaces of one end while nothing is known of the other."""
    is_avoided = (interface.node.name, interface.name) in request.avoid_interfaces
    is_local = disk_numa_node is not None and interface.numa_node == disk_numa_node
    return interface.doubt > 0, is_avoided, -interface.level, not is_local, interface.name
