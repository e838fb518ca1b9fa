"""What nodes and interfaces carry already."""

from __future__ import annotations

from math import log2
from typing import Final

from fairlead.core.dtn import NodeInterface, TransferNode
from fairlead.core.placement.model import EndPlacement
from fairlead.core.placement.reach import Reach, reach_of

UNKNOWN_RATE_BPS: Final = 1e9
"""What an interface of unknown rate counts as."""
_NAMESPACE_NUMERATOR, _NAMESPACE_DENOMINATOR = 3, 4
_LEAST_SHARE_SLOTS = 2
"""A sender and a receiver on one node, however few slots it has."""
_STEPS_PER_DOUBLING = 8
"""Steps of some nine per cent."""
RATE_STEP: Final = 8
"""What one step of a rate weighs when pairs are compared: more than all that decides among equal steps."""
MOST_STEPS: Final = 1024 * RATE_STEP
"""More than any rate weighs."""


class InterfaceLoad:
    """An interface with what was placed on it."""

    __slots__ = (
        "_sharers",
        "_taken_bps",
        "as_end",
        "capacity_bps",
        "carrier",
        "doubt",
        "is_offered",
        "is_usable",
        "level",
        "mtu",
        "name",
        "network",
        "node",
        "numa_node",
        "reach",
        "spare_bps",
    )

    def __init__(self, node: NodeLoad, facts: NodeInterface) -> None:
        self.node = node
        self.name = facts.name
        self.as_end = EndPlacement(node.name, (facts.name,))
        self.is_offered = facts.may_carry_data
        """Whether it may carry data, as far as the node's administrator and agent say."""
        self.carrier = facts.carrier
        self.doubt = 4 * MOST_STEPS if facts.carrier is None else 0
        """What sets one that is only declared behind all that were found, in the weight of steps."""
        self.is_usable = facts.may_carry_data and facts.carrier is not False
        """Whether it may carry data now."""
        self.capacity_bps = UNKNOWN_RATE_BPS if facts.rate_bps is None else float(facts.rate_bps)
        self.mtu = facts.mtu
        self.numa_node = facts.numa_node
        self.network = facts.network
        self.reach: Reach = reach_of(facts)
        self._taken_bps = 0.0
        self._sharers = 0
        self.spare_bps = self.capacity_bps
        """What one more job would get: what is not taken, shared with those that take what they get."""
        self.level = _level(self.spare_bps)
        """The same in the weight of its steps, so that what is nearly the same compares as the same."""

    def leave(self, open_bps: float) -> None:
        """Keeps what a shared link does not leave to jobs, such as others' traffic, out of what there is to spare."""
        if open_bps < self.capacity_bps:
            self.put(self.capacity_bps - open_bps)

    def put(self, rate_bps: float | None) -> None:
        """Adds a job that sends at most this, or as much as it gets."""
        if rate_bps is None:
            self._sharers += 1
        else:
            self._taken_bps += rate_bps
        left_bps = self.capacity_bps - self._taken_bps
        self.spare_bps = left_bps / (1 + self._sharers) if left_bps > 0.0 else 0.0
        self.level = _level(self.spare_bps)


class NodeLoad:
    """A node with its slots and interfaces."""

    __slots__ = ("_as_interface", "free", "held_by", "interfaces", "labels", "name", "ready", "share", "site", "slots", "usable")

    def __init__(self, facts: TransferNode) -> None:
        self.name = facts.name
        self.ready = facts.ready
        self.site = facts.site
        self.labels = facts.labels
        self.slots = facts.slots
        self.free = facts.slots
        self.share = min(facts.slots, max(_LEAST_SHARE_SLOTS, facts.slots * _NAMESPACE_NUMERATOR // _NAMESPACE_DENOMINATOR))
        """Most slots that one namespace may have."""
        self.held_by: dict[str, int] = {}
        """Slots by namespace."""
        self._as_interface: InterfaceLoad | None = None
        self.interfaces = {each.name: InterfaceLoad(self, each) for each in facts.interfaces}
        self.usable = tuple(each for each in self.interfaces.values() if each.is_usable)
        """Interfaces that may carry data now, by name."""

    @property
    def as_interface(self) -> InterfaceLoad:
        """Stands for the node where none of its interfaces is used: it has as much to spare as there are free slots."""
        if self._as_interface is None:
            self._as_interface = InterfaceLoad(self, NodeInterface(name=""))
            self._as_interface.spare_bps = self.free
        return self._as_interface

    def has_room(self, namespace: str, slots: int = 1) -> bool:
        """Whether a job of the namespace may take slots."""
        return self.free >= slots and self.leaves_share(namespace, slots)

    def leaves_share(self, namespace: str, slots: int = 1) -> bool:
        """Whether with so many more the namespace has no more than one may have, free or not."""
        return self.held_by.get(namespace, 0) + slots <= self.share

    def take_slot(self, namespace: str) -> None:
        """Takes a slot. Those that run already keep theirs, also if there are fewer by now."""
        self.free -= 1
        if self._as_interface is not None:
            self._as_interface.spare_bps = self.free
        self.held_by[namespace] = self.held_by.get(namespace, 0) + 1


def _level(rate_bps: float) -> int:
    """A rate in the weight of its steps."""
    return RATE_STEP * round(_STEPS_PER_DOUBLING * log2(rate_bps + 1.0))
