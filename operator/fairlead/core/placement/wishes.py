"""Which nodes and which of their interfaces fulfil a wish."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from fairlead.core.dtn import NodeInterface
from fairlead.core.placement.kinds import Kind
from fairlead.core.placement.load import InterfaceLoad, NodeLoad
from fairlead.core.placement.model import EndWish


class NodeIndex:
    """Finds the nodes that may fulfil a wish without a look at all of them."""

    def __init__(self, nodes: Iterable[NodeLoad]) -> None:
        self._nodes = tuple(nodes)
        self._by_site: dict[str | None, list[NodeLoad]] | None = None
        self._by_label: dict[str, dict[str | None, list[NodeLoad]]] = {}

    def of(self, wish: EndWish) -> Sequence[NodeLoad]:
        """Nodes of the site, or with the label that the fewest have."""
        if wish.site is not None:
            if self._by_site is None:
                self._by_site = _grouped(self._nodes, lambda node: node.site)
            return self._by_site.get(wish.site, ())
        if not wish.labels:
            return self._nodes
        return min((self._with_label(key).get(value, ()) for key, value in wish.labels), key=len)

    def _with_label(self, key: str) -> Mapping[str | None, Sequence[NodeLoad]]:
        known = self._by_label.get(key)
        if known is None:
            known = self._by_label[key] = _grouped(self._nodes, lambda node: node.labels.get(key))
        return known


def _grouped(nodes: Iterable[NodeLoad], key: Callable[[NodeLoad], str | None]) -> dict[str | None, list[NodeLoad]]:
    groups: dict[str | None, list[NodeLoad]] = defaultdict(list)
    for node in nodes:
        groups[key(node)].append(node)
    return groups


def fulfils(node: NodeLoad, wish: EndWish) -> bool:
    """Whether the node is one of those to choose from: its labels and site, and that the volume can be used there."""
    if wish.site is not None and node.site != wish.site:
        return False
    labels = node.labels
    if any(labels.get(key) != value for key, value in wish.labels):
        return False
    return wish.affinity is None or any(all(rule.holds(node.name, labels) for rule in term) for term in wish.affinity)


def usable(node: NodeLoad, wish: EndWish) -> tuple[InterfaceLoad, ...]:
    """The node's interfaces that the job may use now: of those that it names, in their order, all that have a carrier; none if it may not
    use one of them."""
    if wish.interfaces:
        named = tuple(_named(node, name) for name in wish.interfaces)
        return () if any(each.is_barred for each in named) else tuple(each for each in named if each.is_usable)
    if wish.network is not None:
        return tuple(each for each in node.usable if each.network == wish.network)
    return node.usable


def _named(node: NodeLoad, name: str) -> InterfaceLoad:
    """The interface; one that nothing is known of may be there all the same, and its mover finds out."""
    known = node.interfaces.get(name)
    if known is None:
        known = InterfaceLoad(node, NodeInterface(name, may_carry_data=True))
        known.kind = Kind(known.reach, known.mtu, is_doubtful=True)
    return known
