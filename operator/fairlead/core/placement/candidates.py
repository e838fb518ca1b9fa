"""The nodes that fulfil a wish, and the best of their interfaces without looking at all of them.

What an interface has to spare only falls while a pass places jobs. So a heap whose entries are looked at again as they come to the top,
and put back where they have fallen behind, has the best one on top (Minoux's lazy greedy).
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Set
from functools import partial
from heapq import heapify, heappop, heappush, heapreplace

from fairlead.core.placement.load import InterfaceLoad, NodeLoad
from fairlead.core.placement.reach import FAMILY, SUBNET, LinkKey, Reach, matches_of

_Entry = tuple[float, str, str, InterfaceLoad]
_NOBODY: frozenset[str] = frozenset()
_Best = Callable[[str, Set[str]], InterfaceLoad | None]
"""By namespace and the nodes that are left out."""
_Two = tuple[InterfaceLoad, InterfaceLoad] | tuple[None, None]


class _Heap:
    """Interfaces by what they have to spare, then by node and name. In one for a namespace, nodes without room for it are left out."""

    __slots__ = ("entries", "of_namespace")

    def __init__(self, entries: list[_Entry]) -> None:
        self.entries = entries
        self.of_namespace: dict[str, _Heap] = {}

    def best(self, namespace: str, excluded: Set[str]) -> InterfaceLoad | None:
        """The best interface of a node with a slot for the namespace, None without any."""
        own = self.of_namespace.get(namespace)
        entries = (self if own is None else own).entries
        aside: list[_Entry] = []
        found: InterfaceLoad | None = None
        while entries:
            value, name, _, load = entries[0]
            node = load.node
            if node.free <= 0:
                heappop(entries)
                continue
            if load.spare_bps != -value:
                heapreplace(entries, (-load.spare_bps, name, load.name, load))
                continue
            if node.held_by.get(namespace, 0) >= node.share:
                if own is not None:
                    heappop(entries)
                    continue
                # Its share is used up for the rest of the pass: from now on the namespace has a heap of its own.
                own = _Heap([entry for entry in entries if entry[3].node.has_room(namespace)] + aside)
                heapify(own.entries)
                self.of_namespace[namespace] = own
                found = self.best(namespace, excluded)
                break
            if name in excluded:
                aside.append(heappop(entries))
                continue
            found = load
            break
        for entry in aside:
            heappush(entries, entry)
        return found


class SharedKeys:
    """By what interfaces of different nodes can be reached. Most subnets are on one node alone, and need not be looked at."""

    def __init__(self, nodes: Iterable[NodeLoad]) -> None:
        first: dict[Hashable, NodeLoad] = {}
        self._subnets: set[Hashable] = set()
        for node in nodes:
            for load in node.usable:
                for kind, name, _ in load.reach.near_keys:
                    if kind == SUBNET and first.setdefault(name, node) is not node:
                        self._subnets.add(name)
        self._known: dict[Reach, tuple[LinkKey, ...]] = {}
        self._near_matches: dict[Reach, tuple[LinkKey, ...]] = {}

    def near_matches_of(self, reach: Reach) -> tuple[LinkKey, ...]:
        """The keys of interfaces on other nodes that are on one network or subnet with an interface."""
        known = self._near_matches.get(reach)
        if known is None:
            known = self._near_matches[reach] = tuple(key for key in reach.near_matches if key[0] != SUBNET or key[1] in self._subnets)
        return known

    def of(self, reach: Reach) -> tuple[LinkKey, ...]:
        """The keys of an interface."""
        known = self._known.get(reach)
        if known is None:
            known = self._known[reach] = tuple(key for key in reach.keys if key[0] != SUBNET or key[1] in self._subnets)
        return known


class Candidates:
    """Nodes that fulfil a wish, with their interfaces that do."""

    def __init__(
        self,
        nodes: Iterable[NodeLoad],
        eligible: Callable[[NodeLoad], Iterable[InterfaceLoad]],
        keys_of: Callable[[Reach], Iterable[LinkKey]],
    ) -> None:
        self.nodes = tuple(nodes)
        self.by_key: dict[LinkKey, list[InterfaceLoad]] = defaultdict(list)
        self._heaps: dict[LinkKey, _Heap] = {}
        self._any: _Heap | None = None
        self.interfaces = [load for node in self.nodes for load in eligible(node)]
        for load in self.interfaces:
            for key in keys_of(load.reach):
                self.by_key[key].append(load)

    @property
    def has_interfaces(self) -> bool:
        """Whether any of the nodes has an interface that fulfils the wish."""
        return bool(self.interfaces)

    def is_spent(self, key: LinkKey) -> bool:
        """Whether no node whose interface can be reached by `key` has a slot, for whomever."""
        heap = self._heaps.get(key)
        return heap is not None and not heap.entries

    def best_by(self, key: LinkKey, namespace: str, excluded: Set[str] = _NOBODY) -> InterfaceLoad | None:
        """The interface with the most to spare that can be reached by `key`, on a node with a slot for the namespace."""
        heap = self._heaps.get(key)
        if heap is None:
            if key not in self.by_key:
                return None
            heap = self._heaps[key] = _heap_of(self.by_key[key])
        return heap.best(namespace, excluded)

    def best(self, namespace: str, excluded: Set[str] = _NOBODY) -> InterfaceLoad | None:
        """The interface with the most to spare, whatever it can be reached by."""
        if self._any is None:
            self._any = _heap_of(self.interfaces)
        return self._any.best(namespace, excluded)


class KeyPairs:
    """Pairs of keys by which two sets of candidates reach each other, the best one first."""

    def __init__(self, source: Candidates, destination: Candidates, *, near: bool) -> None:
        self._source = source
        self._destination = destination
        keys = [key for key in source.by_key if (key[0] != FAMILY) is near]
        pairs = ((key, match) for key in keys for match in matches_of(key) if match in destination.by_key)
        self._entries = [(-math.inf, number, pair) for number, pair in enumerate(pairs) if not self._is_one_node(*pair)]

    def _is_one_node(self, key: LinkKey, match: LinkKey) -> bool:
        """Whether only one node can be reached by both, which need not be tried again and again."""
        own, others = self._source.by_key[key], self._destination.by_key[match]
        node = own[0].node
        return others[-1].node is node and all(load.node is node for load in itertools.chain(own, others))

    def best(self, namespace: str, excluded: Set[str]) -> tuple[InterfaceLoad, InterfaceLoad] | None:
        """The interfaces of two nodes of which the lesser has the most to spare."""
        entries, aside, found = self._entries, [], None
        while entries:
            value, number, (key, match) = entries[0]
            one, other = best_of_two_nodes(
                partial(self._source.best_by, key), partial(self._destination.best_by, match), namespace, excluded
            )
            if one is None or other is None:
                entry = heappop(entries)
                if not (self._source.is_spent(key) or self._destination.is_spent(match)):
                    aside.append(entry)
                continue
            present = -min(one.spare_bps, other.spare_bps)
            if present > value:
                heapreplace(entries, (present, number, (key, match)))
                continue
            found = (one, other)
            break
        for entry in aside:
            heappush(entries, entry)
        return found


def best_of_two_nodes(source: _Best, destination: _Best, namespace: str, excluded: Set[str]) -> _Two:
    """The best interface of each end, on two nodes; None for both without two. The only node of the destination is left to it."""
    one = source(namespace, excluded)
    other = None if one is None else destination(namespace, {*excluded, one.node.name})
    if one is not None and other is None:
        other = destination(namespace, excluded)
        one = None if other is None else source(namespace, {*excluded, other.node.name})
    return (None, None) if one is None or other is None else (one, other)


def _heap_of(interfaces: Iterable[InterfaceLoad]) -> _Heap:
    entries = [(-load.spare_bps, load.node.name, load.name, load) for load in interfaces]
    heapify(entries)
    return _Heap(entries)
