"""Chooses node and interfaces of both ends for one job after another, and keeps count of what they take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial
from types import MappingProxyType
from typing import Final

from fairlead.core.dtn import TransferNode
from fairlead.core.placement import refusals
from fairlead.core.placement.candidates import Candidates, KeyPairs, SharedKeys, best_of_two_nodes
from fairlead.core.placement.load import InterfaceLoad, NodeLoad
from fairlead.core.placement.model import DESTINATION, SOURCE, Answer, EndPlacement, EndWish, Holding, Placement, Request, Waits
from fairlead.core.placement.pairs import best_pair, paired
from fairlead.core.placement.reach import LinkKey, far_matches_of
from fairlead.core.placement.wishes import NodeIndex, fulfils, usable

_NOBODY: Final[frozenset[str]] = frozenset()
_Nodes = tuple[NodeLoad | EndPlacement, NodeLoad | EndPlacement]
"""Of source and destination."""
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
        self._keys = SharedKeys(self.nodes.values())
        self._candidates: dict[tuple[EndWish, bool], Candidates] = {}
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
        answer = self._choose(request)
        if not request.tentative and isinstance(answer, Placement):
            self._take(answer.source, request.namespace, request.rate_bps)
            self._take(answer.destination, request.namespace, request.rate_bps)
        return answer

    def reserve(self, request: Request) -> None:
        """Keeps a slot at each end whose node is given and has one, for a job that has waited for long, for the rest of the pass."""
        for wish in (request.source, request.destination):
            node = self.nodes.get(wish.node or "")
            if node is not None and node.has_room(request.namespace):
                node.take_slot(request.namespace)

    def _choose(self, request: Request) -> Answer:
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
        known = None
        if not request.unready_nodes:
            known = (request.source, request.destination, request.uses_interfaces)
            refused = self._refused.get(request.namespace)
            if refused is not None and known in refused:
                return refused[known]
        chosen: _Nodes | None
        if not isinstance(source, Candidates):
            assert isinstance(destination, Candidates)
            chosen = self._beside(request, source, destination, given_is_source=True)
        elif not isinstance(destination, Candidates):
            chosen = self._beside(request, destination, source, given_is_source=False)
        else:
            chosen = self._among_both(request, source, destination)
        if chosen is not None:
            return self._placed(request, *chosen)
        refusal = refusals.no_slot(request, source, destination)
        if known is not None:
            self._refused.setdefault(request.namespace, {})[known] = refusal
        return refusal

    def _end(self, end: str, wish: EndWish, request: Request) -> NodeLoad | Candidates | EndPlacement | Waits:
        """The node of one end, the nodes to choose from, what is not ours to choose, or why there is none."""
        if wish.node is not None:
            node = self.nodes.get(wish.node)
            if node is not None and not wish.asks_for_nodes:
                return node
            if wish.asks_for_nodes and (node is None or not fulfils(node, wish)):
                return refusals.volume_elsewhere(end, wish)
            if node is None:
                return refusals.network_unknown(end, wish) if wish.network is not None else EndPlacement(wish.node, wish.interfaces)
            return node
        if wish.scheduler_may_choose or not (wish.asks_for_nodes or request.uses_interfaces):
            return EndPlacement(None, wish.interfaces)
        candidates = self._candidates_of(wish, uses_interfaces=request.uses_interfaces)
        if not candidates.nodes and not wish.asks_for_nodes:
            return EndPlacement(None, wish.interfaces)
        ready = [node for node in candidates.nodes if node.name not in request.unready_nodes] if request.unready_nodes else candidates.nodes
        if not ready:
            return refusals.no_node(end, wish, [node for node in self.nodes.values() if fulfils(node, wish)])
        return candidates if candidates.has_interfaces else refusals.no_interface(end, wish, candidates.nodes)

    def _candidates_of(self, wish: EndWish, *, uses_interfaces: bool) -> Candidates:
        known = self._candidates.get((wish, uses_interfaces))
        if known is None:
            nodes = (node for node in self._index.of(wish) if node.ready and node.slots > 0 and fulfils(node, wish))
            interfaces = partial(usable, wish=wish) if uses_interfaces else _as_interface
            known = Candidates(nodes, interfaces, self._keys.of)
            self._candidates[wish, uses_interfaces] = known
        return known

    def _among_both(self, request: Request, source: Candidates, destination: Candidates) -> _Nodes | None:
        excluded = request.unready_nodes | request.avoid_nodes
        found = self._best_of_both(request, source, destination, excluded)
        if found is None and request.avoid_nodes:
            found = self._best_of_both(request, source, destination, request.unready_nodes)
        if found is not None:
            return found
        one, other = (each.best(request.namespace, request.unready_nodes) for each in (source, destination))
        return (one.node, other.node) if one is not None and other is not None and one.node is other.node else None

    def _best_of_both(self, request: Request, source: Candidates, destination: Candidates, excluded: Set[str]) -> _Nodes | None:
        if not request.uses_interfaces:
            one, other = best_of_two_nodes(source.best, destination.best, request.namespace, excluded)
            return None if one is None or other is None else (one.node, other.node)
        for near in (True, False):
            key = (source, destination, near)
            pairs = self._pairs.get(key)
            if pairs is None:
                pairs = self._pairs[key] = KeyPairs(source, destination, near=near)
            found = pairs.best(request.namespace, frozenset(excluded))
            if found is not None:
                return found[0].node, found[1].node
        return None

    def _beside(self, request: Request, given: NodeLoad | EndPlacement, candidates: Candidates, *, given_is_source: bool) -> _Nodes | None:
        """The given end with the best of the candidates for the other one: on another node if there is one."""
        own = frozenset((given.name,)) if isinstance(given, NodeLoad) else _NOBODY
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
            return candidates.best(request.namespace, excluded)
        own = usable(given, wish)
        if not own:
            return candidates.best(request.namespace, excluded)
        for matches_of in (self._keys.near_matches_of, far_matches_of):
            reachable: dict[LinkKey, float] = {}
            for interface in own:
                for key in matches_of(interface.reach):
                    if interface.spare_bps >= reachable.get(key, 0.0):
                        reachable[key] = interface.spare_bps
            best, best_bps = None, -1.0
            for key, spare_bps in reachable.items():
                if spare_bps <= best_bps:
                    continue
                other = candidates.best_by(key, request.namespace, excluded)
                if other is not None and other.spare_bps > best_bps:
                    best, best_bps = other, min(spare_bps, other.spare_bps)
            if best is not None:
                return best
        return None

    def _placed(self, request: Request, source: NodeLoad | EndPlacement, destination: NodeLoad | EndPlacement) -> Answer:
        """The answer for two nodes, if they have slots and interfaces that fit."""
        needed = 2 if source is destination else 1
        if isinstance(source, NodeLoad) and not source.has_room(request.namespace, needed):
            return refusals.node_full(SOURCE, source, request.namespace, needed)
        if isinstance(destination, NodeLoad) and not destination.has_room(request.namespace, needed):
            return refusals.node_full(DESTINATION, destination, request.namespace, needed)
        if not request.uses_interfaces:
            return Placement(EndPlacement(_name(source)), EndPlacement(_name(destination)), request.attempt, note="free slots at both ends")
        own = self._interfaces(SOURCE, source, request.source)
        if isinstance(own, Waits):
            return own
        others = self._interfaces(DESTINATION, destination, request.destination)
        if isinstance(others, Waits):
            return others
        if len(request.source.interfaces) > 1:
            return self._named(request, source, destination, own or (), others or ())
        pair = best_pair(request, own, others)
        if pair is None:
            return refusals.unreachable(request, own or (), others or ())
        one, other, alternative = pair
        least, other_least = one or other, other or one
        spare_bps = capacity_bps = None
        if least is not None and other_least is not None:
            spare_bps = min(least.spare_bps, other_least.spare_bps)
            capacity_bps = min(least.capacity_bps, other_least.capacity_bps)
        return Placement(
            EndPlacement(_name(source), request.source.interfaces) if one is None else one.as_end,
            EndPlacement(_name(destination), request.destination.interfaces) if other is None else other.as_end,
            request.attempt,
            spare_bps,
            capacity_bps,
            alternative,
            refusals.silence(source, destination),
        )

    def _interfaces(self, name: str, end: NodeLoad | EndPlacement, wish: EndWish) -> tuple[InterfaceLoad, ...] | Waits | None:
        """The interfaces of one end to choose from; None where its mover finds out for itself."""
        if isinstance(end, EndPlacement):
            return None
        found = usable(end, wish)
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
        own: Sequence[InterfaceLoad],
        others: Sequence[InterfaceLoad],
    ) -> Answer:
        """The answer for several interfaces, which are used at once."""
        apart = paired(own, others)
        if apart is not None:
            return refusals.apart(*apart)
        return Placement(
            EndPlacement(_name(source), request.source.interfaces),
            EndPlacement(_name(destination), request.destination.interfaces),
            request.attempt,
            min((sum(each.spare_bps for each in ends) for ends in (own, others) if ends), default=None),
            min((sum(each.capacity_bps for each in ends) for ends in (own, others) if ends), default=None),
        )


def _as_interface(node: NodeLoad) -> tuple[InterfaceLoad, ...]:
    return (node.as_interface,)


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
