"""What nodes and interfaces carry already."""

from __future__ import annotations

from math import log2
from typing import Final

from fairlead.core.dtn import NodeInterface, TransferNode
from fairlead.core.placement.kinds import RATE_STEP, Kind
from fairlead.core.placement.model import EndPlacement
from fairlead.core.placement.reach import Reach, reach_of

UNKNOWN_RATE_BPS: Final = 1e9
"""What an interface of unknown rate counts as."""
_NAMESPACE_NUMERATOR, _NAMESPACE_DENOMINATOR = 3, 4
_LEAST_SHARE_SLOTS = 2
"""A sender and a receiver on one node, however few slots it has."""
_STEPS_PER_DOUBLING = 8
"""Steps of some nine per cent."""
_WITHIN_STEP = 0.5
_WHOLE_STEP = RATE_STEP - _WITHIN_STEP


class InterfaceLoad:
    """An interface with what was placed on it."""

    __slots__ = (
        "_parts",
        "_taken_bps",
        "as_end",
        "capacity_bps",
        "carrier",
        "is_barred",
        "is_usable",
        "kind",
        "level",
        "mtu",
        "name",
        "network",
        "node",
        "numa_node",
        "reach",
        "spare_bps",
    )

    kind: Kind
    """Of the usable ones, set by whoever knows which subnets are on several nodes."""

    def __init__(self, node: NodeLoad, facts: NodeInterface) -> None:
        self.node = node
        self.name = facts.name
        self.as_end = EndPlacement(node.name, (facts.name,))
        self.carrier = facts.carrier
        """None for one that is only declared."""
        self.is_usable = facts.may_carry_data and facts.carrier is not False
        """Whether it may carry data now."""
        # Without a carrier an interface that nobody declared may not carry data either.
        self.is_barred = not facts.may_carry_data and facts.carrier is not False
        """Whether it may not carry data, and not for want of a carrier alone."""
        self.capacity_bps = UNKNOWN_RATE_BPS if facts.rate_bps is None else float(facts.rate_bps)
        self.mtu = facts.mtu
        self.numa_node = facts.numa_node
        self.network = facts.network
        self.reach: Reach = reach_of(facts)
        self.spare_bps: float
        """What one more job would get: what is not taken, shared with those that take what they get."""
        self.level: float
        """The same in the weight of its steps. Within one, where it is nearly the same, it rises by less than any other reason weighs."""
        self._taken_bps = 0.0
        self._parts = 1
        self._weigh()

    def leave(self, open_bps: float) -> None:
        """Keeps what a shared link does not leave to jobs, such as others' traffic, out of what there is to spare."""
        if open_bps < self.capacity_bps:
            self.put(self.capacity_bps - open_bps)

    def put(self, rate_bps: float | None) -> None:
        """Adds a job that sends at most this, or as much as it gets."""
        if rate_bps is None:
            self._parts += 1
        else:
            self._taken_bps += rate_bps
        self._weigh()

    def _weigh(self) -> None:
        """Follows what is taken."""
        left_bps = self.capacity_bps - self._taken_bps
        self.spare_bps = spare_bps = left_bps / self._parts if left_bps > 0.0 else 0.0
        steps = _STEPS_PER_DOUBLING * log2(spare_bps + 1.0)
        self.level = _WHOLE_STEP * round(steps) + _WITHIN_STEP * steps


class NodeLoad:
    """A node with its slots and interfaces."""

    __slots__ = ("_as_interface", "alone", "free", "held_by", "interfaces", "labels", "name", "ready", "share", "site", "slots", "usable")

    def __init__(self, facts: TransferNode) -> None:
        self.name = facts.name
        self.alone = frozenset((facts.name,))
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
        return self.free >= slots and self.held_by.get(namespace, 0) + slots <= self.share

    def leaves_share(self, namespace: str, slots: int = 1) -> bool:
        """Whether with so many more the namespace has no more than one may have, free or not."""
        return self.held_by.get(namespace, 0) + slots <= self.share

    def take_slot(self, namespace: str) -> None:
        """Takes a slot. Those that run already keep theirs, also if there are fewer by now."""
        self.free -= 1
        if self._as_interface is not None:
            self._as_interface.spare_bps = self.free
        self.held_by[namespace] = self.held_by.get(namespace, 0) + 1
