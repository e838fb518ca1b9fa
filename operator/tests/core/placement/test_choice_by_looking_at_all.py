"""The choice is the one that a look at every node and every pair of interfaces would make."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from placement_builders import make_interface, make_node, make_nodes, make_request

from fairlead.core.dtn import NodeInterface, TransferNode
from fairlead.core.placement import Board
from fairlead.core.placement.model import EndWish, Placement, Request

_Chosen = tuple[TransferNode, NodeInterface]
_SITES = ("north", "south")

INTERFACES = st.builds(
    make_interface,
    st.just("data"),
    st.sampled_from((1, 5, 10, 40)),
    st.sampled_from(("198.18.0.1/24", "198.18.0.2/24", "198.18.1.1/24", "2001:db8::1/64")),
    network=st.sampled_from((None, None, "wan", "lan")),
    mtu=st.sampled_from((None, 1500, 9000)),
    carrier=st.sampled_from((True, True, True, False)),
)
NODES = st.lists(st.tuples(st.lists(INTERFACES, min_size=1, max_size=3), st.integers(1, 4)), min_size=2, max_size=6)
ENDS = st.sampled_from(("named", "of the site"))
JOBS = st.lists(
    st.tuples(st.booleans(), ENDS, ENDS, st.integers(0, 5), st.integers(0, 5), st.sampled_from((None, 1e9, 4e9)), st.sampled_from("xy")),
    max_size=12,
)


class _Plain:
    """Counts what nodes carry, and compares all pairs."""

    def __init__(self, nodes: Mapping[str, TransferNode]) -> None:
        self.nodes = nodes
        self.slots: Counter[str] = Counter()
        self.held: Counter[tuple[str, str]] = Counter()
        self.taken_bps: Counter[tuple[str, str]] = Counter()
        self.sharers: Counter[tuple[str, str]] = Counter()

    def spare_bps(self, at: _Chosen) -> float:
        key = (at[0].name, at[1].name)
        assert at[1].rate_bps is not None
        return max(0.0, at[1].rate_bps - self.taken_bps[key]) / (1 + self.sharers[key])

    def has_room(self, node: TransferNode, namespace: str) -> bool:
        share = min(node.slots, max(2, node.slots * 3 // 4))
        return self.slots[node.name] < node.slots and self.held[node.name, namespace] < share

    def best(self, request: Request) -> tuple[int, float] | None:
        """Whether the best two nodes share a network, and what they leave the job; None without any."""
        found = [
            (int(is_near), least_bps)
            for source, destination in product(self._nodes(request.source), self._nodes(request.destination))
            if self.has_room(source, request.namespace) and self.has_room(destination, request.namespace)
            for _, is_near, least_bps in self.pairs(source, destination)
        ]
        return max(found, default=None)

    def pairs(self, source: TransferNode, destination: TransferNode) -> Iterable[tuple[tuple[str, str], bool, float]]:
        """Pairs of interfaces that reach each other: their names, whether on one network, and what the lesser has to spare."""
        for one, other in product(source.interfaces, destination.interfaces):
            near = _is_near(one, other)
            if near is not None and one.carrier is not False and other.carrier is not False:
                yield (one.name, other.name), near, min(self.spare_bps((source, one)), self.spare_bps((destination, other)))

    def take(self, request: Request, placement: Placement) -> None:
        for end in (placement.source, placement.destination):
            assert end.node is not None
            self.slots[end.node] += 1
            self.held[end.node, request.namespace] += 1
            for name in end.interfaces:
                if request.rate_bps is None:
                    self.sharers[end.node, name] += 1
                else:
                    self.taken_bps[end.node, name] += int(request.rate_bps)

    def _nodes(self, wish: EndWish) -> list[TransferNode]:
        return [node for node in self.nodes.values() if (node.name == wish.node if wish.node else node.site == wish.site)]


def _is_near(one: NodeInterface, other: NodeInterface) -> bool | None:
    if one.network is not None and other.network is not None:
        return True if one.network == other.network else None
    if one.addresses[0].network == other.addresses[0].network:
        return True
    return False if one.addresses[0].version == other.addresses[0].version else None


def _rank(plain: _Plain, source: TransferNode, destination: TransferNode) -> dict[tuple[str, str], tuple[bool, int, bool, float]]:
    """What speaks for each pair of interfaces of two nodes, the weightiest first."""
    ranks = {}
    for names, is_near, least_bps in plain.pairs(source, destination):
        one, other = source.interface(names[0]), destination.interface(names[1])
        assert one is not None
        assert other is not None
        fits = one.mtu is None or other.mtu is None or one.mtu == other.mtu
        ranks[names] = (is_near, round(8 * math.log2(least_bps + 1)), fits, least_bps)
    return ranks


def _wish(kind: str, site: str, names: list[str], number: int) -> EndWish:
    return EndWish(node=names[number % len(names)]) if kind == "named" and names else EndWish(site=site)


@given(NODES, JOBS)
def test_no_other_nodes_and_no_other_interfaces_would_have_left_the_job_more(
    described: list[tuple[list[NodeInterface], int]], jobs: list[tuple[bool, str, str, int, int, float | None, str]]
) -> None:
    nodes = make_nodes(*(_node(number, *each) for number, each in enumerate(described)))
    by_site = {site: [node.name for node in nodes.values() if node.site == site] for site in _SITES}
    plain, board = _Plain(nodes), Board(nodes, ())
    for number, (southward, source, destination, one, other, rate_bps, namespace) in enumerate(jobs):
        start, end = _SITES if southward else _SITES[::-1]
        ends = _wish(source, start, by_site[start], one), _wish(destination, end, by_site[end], other)
        request = make_request(f"job-{number}", *ends, rate_bps=rate_bps, namespace=namespace)
        best, answer = plain.best(request), board.place(request)
        assert isinstance(answer, Placement) == (best is not None), answer
        if isinstance(answer, Placement):
            two = nodes[answer.source.node or ""], nodes[answer.destination.node or ""]
            assert best == max((int(is_near), least_bps) for _, is_near, least_bps in plain.pairs(*two))
            ranks = _rank(plain, *two)
            assert ranks[answer.source.interfaces[0], answer.destination.interfaces[0]] == max(ranks.values())
            plain.take(request, answer)


def _node(number: int, interfaces: list[NodeInterface], slots: int) -> TransferNode:
    named = (replace(each, name=f"data{at}") for at, each in enumerate(interfaces))
    return make_node(f"n{number}", *named, site=_SITES[number % 2], slots=slots)
