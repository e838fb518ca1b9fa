"""Chooses node and interfaces of both ends for one job after another, and keeps count of what they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial
from types import MappingProxyType
from typing import Final

from fairlead.core.dtn import TransferNode
from fairlead.core.placement import refusals
from fairlead.core.placement.candidates import Candidates, KeyPairs, best_of_two_nodes
from fairlead.core.placement.kinds import Kinds
from fairlead.core.placement.load import InterfaceLoad, NodeLoad
from fairlead.core.placement.model import DESTINATION, SOURCE, Answer, EndPlacement, EndWish, Holding, Placement, Request, Waits
from fairlead.core.placement.pairs import best_alone, best_pair, paired
from fairlead.core.placement.reach import LinkKey, Reach
from fairlead.core.placement.wishes import NodeIndex, fulfils, usable

_NOBODY: Final[frozenset[str]] = frozenset()
_Nodes = tuple[NodeLoad | EndPlacement, NodeLoad | EndPlacement]
"""Of source and destination."""
_End = NodeLoad | EndPlacement | Candidates
"""A node, what is not ours to choose, or nodes to choose from."""
_Refused = tuple[EndWish, EndWish, bool]
"""Two wishes, and whether interfaces of nodes are used."""


class Board:
    """Slots and interfaces of all nodes in the course of a pass. What is placed only adds to them; a freed slot needs a new board."""

    def __init__(
        self,
        nodes: Mapping[str, TransferNode],
        holdings: Iterable[Holding],
        open_bps: Mapping[tuple[str, str], float] = MappingProxyType({}),
    ) -> None:
        # By name, so that the same choice is made in whatever order they became known.
        self.nodes = {name: NodeLoad(nodes[name]) for name in sorted(nodes)}
        for (name, interface), bps in open_bps.items():
            load = self.nodes[name].interfaces.get(interface) if name in self.nodes else None
            if load is not None:
                load.leave(bps)
        self._index = NodeIndex(self.nodes.values())
        usable_loads = [load for node in self.nodes.values() for load in node.usable]
        kinds = Kinds((load.node.name, load.reach) for load in usable_loads)
        for load in usable_loads:
            load.kind = kinds.of(load.reach, load.mtu, is_doubtful=load.carrier is None)
        self._candidates: tuple[dict[EndWish, Candidates], dict[EndWish, Candidates]] = ({}, {})
        """By wish: for jobs that use no interfaces of nodes, and for those that do."""
        self._pairs: dict[tuple[Candidates, Candidates, bool], KeyPairs] = {}
        self._refused: dict[str, dict[_Refused, Waits]] = {}
        """By namespace."""
        for holding in holdings:
            for end in holding.ends:
                self._take(end, holding.namespace, holding.rate_bps)

    def _take(self, end: EndPlacement, namespace: str, rate_bps: float | None) -> None:
        """Counts what a job has at one end."""
        node = self.nodes.get(end.node or "")
        if node is None:
            return
        node.take_slot(namespace)
        if rate_bps is not None and len(end.interfaces) > 1:
            rate_bps /= len(end.interfaces)
        for name in end.interfaces:
            interface = node.interfaces.get(name)
            if interface is not None:
                interface.put(rate_bps)

    def place(self, request: Request) -> Answer:
        """Where the job runs, and takes its slots and rates; or why it waits, with nothing taken."""
        source, destination = self._end(SOURCE, request.source, request), self._end(DESTINATION, request.destination, request)
        if isinstance(source, NodeLoad) and isinstance(destination, NodeLoad):
            return self._placed(request, source, destination)
        if isinstance(source, Waits):
            return source
        if isinstance(destination, Waits):
            return destination
        if not isinstance(source, Candidates) and not isinstance(destination, Candidates):
            return self._placed(request, source, destination)
        # What an attempt would rather avoid makes no difference to whether there is a place.
        refused = self._refused.get(request.namespace)
        if refused and not request.unready_nodes:
            known = refused.get((request.source, request.destination, request.uses_interfaces))
            if known is not None:
                return known
        chosen = self._chosen(request, source, destination)
        if chosen is not None:
            return self._placed(request, *chosen)
        refusal = refusals.no_slot(request, source, destination)
        if not request.unready_nodes:
            self._refused.setdefault(request.namespace, {})[request.source, request.destination, request.uses_interfaces] = refusal
        return refusal

    def reserve(self, request: Request) -> None:
        """Keeps a slot at each end whose node is given and has one, for a job that has waited for long, for the rest of the pass."""
        for wish in (request.source, request.destination):
            node = self.nodes.get(wish.node or "")
            if node is not None and node.has_room(request.namespace):
                node.take_slot(request.namespace)

    def _chosen(self, request: Request, source: _End, destination: _End) -> _Nodes | None:
        """Two nodes with room for the job, at least one of them from candidates."""
        if not isinstance(source, Candidates):
            assert isinstance(destination, Candidates)
            return self._beside(request, source, destination, given_is_source=True)
        if not isinstance(destination, Candidates):
            return self._beside(request, destination, source, given_is_source=False)
        return self._among_both(request, source, destination)

    def _end(self, end: str, wish: EndWish, request: Request) -> _End | Waits:
        """The node of one end, the nodes to choose from, what is not ours to choose, or why there is none."""
        if wish.node is not None:
            node = self.nodes.get(wish.node)
            if node is not None and not wish.labels and wish.site is None:
                return node
            if wish.asks_for_nodes and (node is None or not fulfils(node, wish)):
                return refusals.volume_elsewhere(end, wish)
            if node is None:
                return refusals.network_unknown(end, wish) if wish.network is not None else EndPlacement(wish.node, wish.interfaces)
            return node
        if wish.scheduler_may_choose or not (request.uses_interfaces or wish.asks_for_nodes):
            return EndPlacement(None, wish.interfaces)
        candidates = self._candidates_of(wish, uses_interfaces=request.uses_interfaces)
        if candidates.interfaces and not request.unready_nodes:
            return candidates
        if not candidates.nodes and not wish.asks_for_nodes:
            return EndPlacement(None, wish.interfaces)
        ready = [node for node in candidates.nodes if node.name not in request.unready_nodes] if request.unready_nodes else candidates.nodes
        if not ready:
            return refusals.no_node(end, wish, [node for node in self.nodes.values() if fulfils(node, wish)])
        return candidates if candidates.has_interfaces else refusals.no_interface(end, wish, candidates.nodes)

    def _candidates_of(self, wish: EndWish, *, uses_interfaces: bool) -> Candidates:
        known = self._candidates[uses_interfaces].get(wish)
        if known is None:
            nodes = (node for node in self._index.of(wish) if node.ready and node.slots > 0 and fulfils(node, wish))
            interfaces = partial(usable, wish=wish) if uses_interfaces else _as_interface
            known = Candidates(nodes, interfaces)
            self._candidates[uses_interfaces][wish] = known
        return known

    def _among_both(self, request: Request, source: Candidates, destination: Candidates) -> _Nodes | None:
        excluded = request.unready_nodes | request.avoid_nodes
        found = self._best_of_both(request, source, destination, excluded)
        if found is None and request.avoid_nodes:
            found = self._best_of_both(request, source, destination, request.unready_nodes)
        if found is not None:
            return found
        one, other = (each.heap.best(request.namespace, request.unready_nodes) for each in (source, destination))
        return (one.node, other.node) if one is not None and other is not None and one.node is other.node else None

    def _best_of_both(self, request: Request, source: Candidates, destination: Candidates, excluded: Set[str]) -> _Nodes | None:
        if not request.uses_interfaces:
            found = best_of_two_nodes(source.heap, destination.heap, request.namespace, excluded)
            return None if found is None else (found[0].node, found[1].node)
        for near in (True, False):
            key = (source, destination, near)
            pairs = self._pairs.get(key)
            if pairs is None:
                pairs = self._pairs[key] = KeyPairs(source, destination, near=near)
            found = pairs.best(request.namespace, excluded)
            if found is not None:
                return found[0].node, found[1].node
        return None

    def _beside(self, request: Request, given: NodeLoad | EndPlacement, candidates: Candidates, *, given_is_source: bool) -> _Nodes | None:
        """The given end with the best of the candidates for the other one: on another node if there is one."""
        own = given.alone if isinstance(given, NodeLoad) else _NOBODY
        wish = request.source if given_is_source else request.destination
        for excluded in _relaxing(request.unready_nodes, request.avoid_nodes, own):
            found = self._best_beside(request, wish, given, candidates, excluded)
            if found is not None:
                return (given, found.node) if given_is_source else (found.node, given)
        return None

    def _best_beside(
        self, request: Request, wish: EndWish, given: NodeLoad | EndPlacement, candidates: Candidates, excluded: Set[str]
    ) -> InterfaceLoad | None:
        if isinstance(given, EndPlacement) or not request.uses_interfaces:
            return candidates.heap.best(request.namespace, excluded)
        own = usable(given, wish)
        if not own:
            return candidates.heap.best(request.namespace, excluded)
        by_reach: dict[Reach, float] = {}
        for interface in own:
            reach = interface.kind.reach
            if interface.spare_bps >= by_reach.get(reach, 0.0):
                by_reach[reach] = interface.spare_bps
        for near in (True, False):
            best, best_bps = None, -1.0
            for key, spare_bps in _by_key(by_reach, near=near).items():
                if spare_bps <= best_bps:
                    continue
                heap = candidates.heap_by(key)
                other = None if heap is None else heap.best(request.namespace, excluded)
                if other is not None and other.spare_bps > best_bps:
                    best, best_bps = other, min(spare_bps, other.spare_bps)
            if best is not None:
                return best
        return None

    def _placed(self, request: Request, source: NodeLoad | EndPlacement, destination: NodeLoad | EndPlacement) -> Answer:
        """The answer for two nodes, if they have slots and interfaces that fit."""
        namespace = request.namespace
        needed = 2 if source is destination else 1
        if isinstance(source, NodeLoad) and not source.has_room(namespace, needed):
            return refusals.node_full(SOURCE, source, namespace, needed)
        if isinstance(destination, NodeLoad) and not destination.has_room(namespace, needed):
            return refusals.node_full(DESTINATION, destination, namespace, needed)
        if not request.uses_interfaces:
            ends = EndPlacement(_name(source)), EndPlacement(_name(destination))
            return self._taken(request, Placement(*ends, request.attempt, note="free slots at both ends"))
        own = self._interfaces(SOURCE, source, request.source)
        if isinstance(own, Waits):
            return own
        others = self._interfaces(DESTINATION, destination, request.destination)
        if isinstance(others, Waits):
            return others
        if len(request.source.interfaces) > 1:
            return self._named(request, source, destination, own, others)
        if own is None or others is None:
            return self._taken(request, _half_known(request, source, destination, own, others))
        pair = best_pair(request, own, others)
        if pair is None:
            return refusals.unreachable(request, own, others)
        one, other, alternative = pair
        placement = Placement(
            one.as_end,
            other.as_end,
            request.attempt,
            one.spare_bps if one.spare_bps < other.spare_bps else other.spare_bps,
            one.capacity_bps if one.capacity_bps < other.capacity_bps else other.capacity_bps,
            alternative,
            "" if one.node.ready and other.node.ready else refusals.silence(source, destination),
        )
        if not request.tentative:
            # As `_taken` does it, without looking for what is at hand.
            one.node.take_slot(namespace)
            one.put(request.rate_bps)
            other.node.take_slot(namespace)
            other.put(request.rate_bps)
        return placement

    def _taken(self, request: Request, placement: Placement) -> Placement:
        """The placement, with its slots and rates taken."""
        if not request.tentative:
            self._take(placement.source, request.namespace, request.rate_bps)
            self._take(placement.destination, request.namespace, request.rate_bps)
        return placement

    def _interfaces(self, name: str, end: NodeLoad | EndPlacement, wish: EndWish) -> tuple[InterfaceLoad, ...] | Waits | None:
        """The interfaces of one end to choose from; None where its mover finds out for itself."""
        if isinstance(end, EndPlacement):
            return None
        found = usable(end, wish) if wish.interfaces or wish.network is not None else end.usable
        if found:
            return found
        # Where an agent is silent and nothing is declared it is as where there is no agent.
        is_open = not end.ready and not wish.interfaces and wish.network is None
        return None if is_open else refusals.no_interface(name, wish, (end,))

    def _named(
        self,
        request: Request,
        source: NodeLoad | EndPlacement,
        destination: NodeLoad | EndPlacement,
        own: Sequence[InterfaceLoad] | None,
        others: Sequence[InterfaceLoad] | None,
    ) -> Answer:
        """The answer for several interfaces, which are used at once: the pairs that have a carrier at both ends."""
        down = _down(source, request.source, own), _down(destination, request.destination, others)
        named = zip(request.source.interfaces, request.destination.interfaces, strict=False)
        pairs = [(one, other) for one, other in named if one not in down[0].interfaces and other not in down[1].interfaces]
        if not pairs:
            return refusals.no_pair(*down)
        ends = EndPlacement(_name(source), tuple(one for one, _ in pairs)), EndPlacement(_name(destination), tuple(it for _, it in pairs))
        loads = [[each for each in known or () if each.name in end.interfaces] for known, end in zip((own, others), ends, strict=True)]
        apart = paired(*loads)
        if apart is not None:
            return refusals.apart(*apart)
        placement = Placement(
            *ends,
            request.attempt,
            min((sum(each.spare_bps for each in known) for known in loads if known), default=None),
            min((sum(each.capacity_bps for each in known) for known in loads if known), default=None),
            note=refusals.left_out(*down),
        )
        return self._taken(request, placement)


def _down(end: NodeLoad | EndPlacement, wish: EndWish, usable_loads: Sequence[InterfaceLoad] | None) -> EndPlacement:
    """Those of the named interfaces that cannot be used now, as far as is known."""
    usable_names = wish.interfaces if usable_loads is None else tuple(each.name for each in usable_loads)
    return EndPlacement(_name(end), tuple(name for name in wish.interfaces if name not in usable_names))


def _half_known(
    request: Request,
    source: NodeLoad | EndPlacement,
    destination: NodeLoad | EndPlacement,
    own: Sequence[InterfaceLoad] | None,
    others: Sequence[InterfaceLoad] | None,
) -> Placement:
    """The placement where the interfaces of at most one end are known."""
    ends, known = [], None
    for end, interfaces, wish in ((source, own, request.source), (destination, others, request.destination)):
        if interfaces is None:
            ends.append(EndPlacement(_name(end), wish.interfaces))
        else:
            known = best_alone(interfaces, wish, request.avoid_interfaces)
            ends.append(known.as_end)
    spare_bps, capacity_bps = (None, None) if known is None else (known.spare_bps, known.capacity_bps)
    return Placement(ends[0], ends[1], request.attempt, spare_bps, capacity_bps, note=refusals.silence(source, destination))


def _as_interface(node: NodeLoad) -> tuple[InterfaceLoad, ...]:
    return (node.as_interface,)


def _by_key(by_reach: Mapping[Reach, float], *, near: bool) -> Mapping[LinkKey, float]:
    """What interfaces have to spare for others, by the keys of those that they reach."""
    by_key: dict[LinkKey, float] = {}
    for reach, spare_bps in by_reach.items():
        keys = reach.near_matches if near else reach.far_matches
        if not by_key:
            by_key = dict.fromkeys(keys, spare_bps)
            continue
        for key in keys:
            if spare_bps >= by_key.get(key, 0.0):
                by_key[key] = spare_bps
    return by_key


def _relaxing(unready: Set[str], avoided: Set[str], own: Set[str]) -> Iterable[Set[str]]:
    """What is left out, at first all of it, then only what must be."""
    yield {*unready, *avoided, *own} if unready or avoided else own
    if own:
        yield {*unready, *avoided}
    if avoided:
        yield {*unready, *own}
        yield unready


def _name(end: NodeLoad | EndPlacement) -> str | None:
    return end.name if isinstance(end, NodeLoad) else end.node
