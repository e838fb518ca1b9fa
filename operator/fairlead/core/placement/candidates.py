"""The nodes that fulfil a wish, and the best of their interfaces without looking at all of them.

What an interface has to spare only falls while a pass places jobs. So a heap whose entries are looked at again as they come to the top,
and put back where they have fallen behind, has the best one on top (Minoux's lazy greedy).
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property
from heapq import heapify, heappop, heappush, heapreplace

from fairlead.core.placement.load import InterfaceLoad, NodeLoad
from fairlead.core.placement.reach import FAMILY, LinkKey, matches_of

_Entry = tuple[float, str, str, InterfaceLoad]
_NOBODY: frozenset[str] = frozenset()
Two = tuple[InterfaceLoad, InterfaceLoad]
_PairEntry = tuple[float, int, "Heap", "Heap"]
"""What a pair has to spare at most, less than nothing as in heaps, and its number."""


class Heap:
    """Interfaces by what they have to spare, then by node and name. In one for a namespace, nodes without room for it are left out."""

    __slots__ = ("entries", "of_namespace")

    def __init__(self, loads: Iterable[InterfaceLoad]) -> None:
        self.entries: list[_Entry] = [(-load.spare_bps, load.node.name, load.name, load) for load in loads]
        """Of those that have changed since, what they had to spare before; nodes without a free slot go as they come to the top."""
        heapify(self.entries)
        self.of_namespace: dict[str, Heap] = {}

    @property
    def bound(self) -> float | None:
        """What the best interface has to spare, less than nothing as in entries, whoever may have it; None without a free slot."""
        entries = self.entries
        while entries:
            value, name, interface, load = entries[0]
            if load.node.free <= 0:
                heappop(entries)
            elif load.spare_bps != -value:
                heapreplace(entries, (-load.spare_bps, name, interface, load))
            else:
                return value
        return None

    def best(self, namespace: str, excluded: Set[str] = _NOBODY) -> InterfaceLoad | None:
        """The best interface of a node with a slot for the namespace, None without any."""
        own = self.of_namespace.get(namespace)
        entries = self.entries if own is None else own.entries
        aside: list[_Entry] | None = None
        found: InterfaceLoad | None = None
        while entries:
            value, name, interface, load = entries[0]
            node = load.node
            if node.free <= 0:
                heappop(entries)
            elif load.spare_bps != -value:
                heapreplace(entries, (-load.spare_bps, name, interface, load))
            elif node.held_by.get(namespace, 0) >= node.share:
                if own is not None:
                    heappop(entries)
                    continue
                # Its share is used up for the rest of the pass: from now on the namespace has a heap of its own.
                at_hand = entries if aside is None else entries + aside
                self.of_namespace[namespace] = Heap(entry[3] for entry in at_hand if entry[3].node.has_room(namespace))
                found = self.best(namespace, excluded)
                break
            elif name in excluded:
                if aside is None:
                    aside = []
                aside.append(heappop(entries))
            else:
                found = load
                break
        if aside is not None:
            for entry in aside:
                heappush(entries, entry)
        return found


class Candidates:
    """Nodes that fulfil a wish, with their interfaces that do."""

    def __init__(self, nodes: Iterable[NodeLoad], eligible: Callable[[NodeLoad], Iterable[InterfaceLoad]]) -> None:
        self.nodes = tuple(nodes)
        self.interfaces = [load for node in self.nodes for load in eligible(node)]
        self._heaps: dict[LinkKey, Heap | None] = {}

    @property
    def has_interfaces(self) -> bool:
        """Whether any of the nodes has an interface that fulfils the wish."""
        return bool(self.interfaces)

    @cached_property
    def by_key(self) -> Mapping[LinkKey, Sequence[InterfaceLoad]]:
        """The interfaces by what they can be reached by from other nodes."""
        found: dict[LinkKey, list[InterfaceLoad]] = defaultdict(list)
        for load in self.interfaces:
            for key in load.kind.reach.keys:
                found[key].append(load)
        return dict(found)

    @cached_property
    def heap(self) -> Heap:
        """All interfaces, whatever they can be reached by."""
        return Heap(self.interfaces)

    def heap_by(self, key: LinkKey) -> Heap | None:
        """The interfaces that can be reached by `key`, None without any."""
        try:
            return self._heaps[key]
        except KeyError:
            heap = self._heaps[key] = Heap(self.by_key[key]) if key in self.by_key else None
            return heap


class KeyPairs:
    """Pairs of keys by which two sets of candidates reach each other, the best one first.

    What a pair is sorted by is no less than what it has to spare for anybody: the best of its interfaces may be on one node, or on nodes
    without room for a namespace.
    """

    def __init__(self, source: Candidates, destination: Candidates, *, near: bool) -> None:
        keys = [key for key in source.by_key if (key[0] != FAMILY) is near]
        pairs = ((key, match) for key in keys for match in matches_of(key) if match in destination.by_key)
        self._entries: list[_PairEntry] = []
        for number, (key, match) in enumerate(pairs):
            one, other = source.heap_by(key), destination.heap_by(match)
            if one is not None and other is not None and not _is_one_node(source.by_key[key], destination.by_key[match]):
                self._keep(number, one, other)

    def _keep(self, number: int, source: Heap, destination: Heap) -> None:
        """Adds a pair, unless one end has no free slot."""
        bound, other_bound = source.bound, destination.bound
        if bound is not None and other_bound is not None:
            heappush(self._entries, (bound if bound > other_bound else other_bound, number, source, destination))

    def best(self, namespace: str, excluded: Set[str]) -> Two | None:
        """The interfaces of two nodes of which the lesser has the most to spare."""
        entries = self._entries
        changed: list[_PairEntry] = []
        found: Two | None = None
        least_bps, first = math.inf, 0
        """Of what is found: what it has to spare, less than nothing as in heaps, and the number of its pair."""
        while entries:
            bound, number, source, destination = entries[0]
            if bound > least_bps or (bound == least_bps and number > first):
                break
            two = best_of_two_nodes(source, destination, namespace, excluded)
            if two is not None:
                one, other = two
                present = -(one.spare_bps if one.spare_bps < other.spare_bps else other.spare_bps)
                if present < least_bps or (present == least_bps and number < first):
                    found, least_bps, first = two, present, number
                if present == bound:
                    break
            changed.append(heappop(entries))
        for _, number, source, destination in changed:
            self._keep(number, source, destination)
        return found


def _is_one_node(source: Sequence[InterfaceLoad], destination: Sequence[InterfaceLoad]) -> bool:
    """Whether all of them are on one node, which need not be tried again and again."""
    node = source[0].node
    return destination[-1].node is node and all(load.node is node for load in itertools.chain(source, destination))


def best_of_two_nodes(source: Heap, destination: Heap, namespace: str, excluded: Set[str]) -> Two | None:
    """The best interface of each end, on two nodes; None without two. The only node of the destination is left to it."""
    one = source.best(namespace, excluded)
    if one is None:
        return None
    other = destination.best(namespace, {*excluded, one.node.name} if excluded else one.node.alone)
    if other is None:
        other = destination.best(namespace, excluded)
        one = None if other is None else source.best(namespace, {*excluded, other.node.name})
    return None if one is None or other is None else (one, other)
