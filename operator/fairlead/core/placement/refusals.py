"""Why a job waits for a place, in words that name the field and the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairlead.api.reasons import Reason
from fairlead.core.placement.candidates import Candidates
from fairlead.core.placement.load import InterfaceLoad, NodeLoad
from fairlead.core.placement.model import EndPlacement, EndWish, Request, Waits

_MOST_NAMED = 3


def volume_elsewhere(end: str, wish: EndWish) -> Waits:
    """The volume is confined to a node that is not one of those asked for."""
    message = (
        f"{end}: the volume lives on node {wish.node}, which is no DataTransferNode with {_asked(wish)}: create a job without"
        f" {_field(wish)}, or give the node's DataTransferNode that {_field(wish)}"
    )
    return Waits(Reason.NO_NODE_MATCHES, message, needs_person=True)


def no_node(end: str, wish: EndWish, matching: Sequence[NodeLoad]) -> Waits:
    """No node with what is asked for can be used."""
    if not matching:
        where = f"no DataTransferNode has {_asked(wish)}" + (" and can mount the volume" if wish.affinity is not None else "")
        message = f"{end}.{_field(wish)}: {where}: correct it in a new job, or see `kubectl get dtn --show-labels`"
        return Waits(Reason.NO_NODE_MATCHES, message, needs_person=True)
    closed = [node for node in matching if node.slots == 0]
    if len(closed) == len(matching):
        message = f"{end}: spec.slots of DataTransferNode {_listed(closed)} is 0: an administrator keeps movers away; the job waits"
        return Waits(Reason.NO_SLOT_FREE, message)
    message = (
        f"{end}: of the DataTransferNodes that match none is ready ({_listed(matching)}): `kubectl describe dtn` says why; the job waits"
    )
    return Waits(Reason.NO_NODE_MATCHES, message)


def no_slot(request: Request, source: object, destination: object) -> Waits:
    """Every node to choose from is full, or none reaches the other end."""
    for name, end in (("source", source), ("destination", destination)):
        if isinstance(end, Candidates):
            open_nodes = [node for node in end.nodes if node.name not in request.unready_nodes]
            if not any(node.has_room(request.namespace) for node in open_nodes):
                return _full(name, open_nodes, request.namespace)
        elif isinstance(end, NodeLoad) and not end.has_room(request.namespace):
            return node_full(name, end, request.namespace, 1)
    message = (
        "no interface of the source reaches one of the destination on a node with a free slot: check `network` of the interfaces in"
        " spec.interfaces of the DataTransferNodes; the job waits"
    )
    return Waits(Reason.NO_INTERFACE_FITS, message)


def node_full(end: str, node: NodeLoad, namespace: str, needed: int) -> Waits:
    """The only node has no slot for the job."""
    if node.slots < needed:
        remedy = f"raise spec.slots of DataTransferNode {node.name} to {needed} or more"
        message = f"{end}: node {node.name} takes {node.slots} movers, and the job needs {needed} there: an administrator may {remedy}"
        return Waits(Reason.NO_SLOT_FREE, message, needs_person=True)
    return _full(end, [node], namespace, needed)


def _full(end: str, nodes: Sequence[NodeLoad], namespace: str, needed: int = 1) -> Waits:
    one = nodes[0] if len(nodes) == 1 else None
    # Where it has all that it may have, slots that others take and give back change nothing for it.
    is_at_share = all(node.share < node.slots and not node.leaves_share(namespace, needed) for node in nodes)
    if is_at_share or any(node.free >= needed for node in nodes):
        share = f"{one.share} of the {one.slots} slots of node {one.name}" if one else "as many slots of every node that matches"
        message = (
            f"{end}: movers of namespace {namespace} have {share}, which is what one namespace may have;"
            " the job starts when another one of the namespace ends"
        )
        return Waits(Reason.SLOT_SHARE_USED_UP, message)
    where = f"all {one.slots} slots of node {one.name} are" if one else f"every slot of the {len(nodes)} nodes that match is"
    taken = "taken"
    if one is not None and one.free > 0:
        where = f"all but {one.free} of the {one.slots} slots of node {one.name} are"
        taken = f"taken, and the job needs {needed} there"
    raise_where = f"DataTransferNode {one.name}" if one else "one of them"
    message = f"{end}: {where} {taken}; the job starts when one is free, or an administrator raises spec.slots of {raise_where}"
    return Waits(Reason.NO_SLOT_FREE, message)


def network_unknown(end: str, wish: EndWish) -> Waits:
    """A network is asked for on a node that nobody describes."""
    message = (
        f"{end}.interfaceNetwork: node {wish.node} has no DataTransferNode that tells which interface reaches {wish.network}:"
        f" create a job that names {end}.interface, or ask an administrator to describe the node"
    )
    return Waits(Reason.NO_INTERFACE_FITS, message, needs_person=True)


def no_interface(end: str, wish: EndWish, nodes: Iterable[NodeLoad]) -> Waits:
    """None of the interfaces on these nodes can be used as the job asks."""
    nodes = tuple(nodes)
    where = f"node {nodes[0].name}" if len(nodes) == 1 else "the nodes that match"
    wanted = [each for node in nodes for each in node.interfaces.values() if _is_wanted(each, wish)]
    barred = [each for each in wanted if each.is_barred]
    down = [each for each in wanted if each.carrier is False]
    if down and not (wish.interfaces and barred):
        names = ", ".join(sorted({each.name for each in down})[:_MOST_NAMED])
        return Waits(Reason.NO_INTERFACE_FITS, f"{end}: interface {names} of {where} has no carrier: check its link; the job waits")
    if wish.interfaces and barred:
        message = (
            f"{end}: interface {barred[0].name} of {where} may not carry data: create a job that names another one or none, or ask an"
            f" administrator to list it in spec.interfaces of DataTransferNode {barred[0].node.name}"
        )
        return Waits(Reason.NO_INTERFACE_FITS, message, needs_person=True)
    if wish.network is not None:
        networks = sorted({each.network for node in nodes for each in node.interfaces.values() if each.network is not None})
        message = (
            f"{end}.interfaceNetwork: no interface of {where} is declared to reach {wish.network}"
            f" (declared are: {', '.join(networks[:_MOST_NAMED]) or 'none'}): correct it in a new job, or ask an administrator to set"
            " `network` in spec.interfaces of the DataTransferNode"
        )
        return Waits(Reason.NO_INTERFACE_FITS, message, needs_person=True)
    message = (
        f"{end}: {where} has no interface that may carry data: an administrator may list one in spec.interfaces of the DataTransferNode;"
        " the job waits"
    )
    return Waits(Reason.NO_INTERFACE_FITS, message)


def no_pair(source: EndPlacement, destination: EndPlacement) -> Waits:
    """Of several named interfaces, which are used in pairs, each pair lacks one. The ends have those that lack their carrier."""
    message = (
        f"each pair of the interfaces has one without a carrier ({_with_nodes(source, destination)}): check their links; the job waits"
    )
    return Waits(Reason.NO_INTERFACE_FITS, message)


def left_out(*down: EndPlacement) -> str:
    """Which named interfaces a placement does without."""
    listed = _with_nodes(*down)
    return f"without {listed}, for want of a carrier" if listed else ""


def apart(source: InterfaceLoad, destination: InterfaceLoad) -> Waits:
    """Two named interfaces that cannot reach each other."""
    message = (
        f"{_describe(source)} does not reach {_describe(destination)}, with which it is paired: name them in another order in a new job,"
        " or ask an administrator to correct `network` in spec.interfaces of the DataTransferNodes"
    )
    return Waits(Reason.NO_INTERFACE_FITS, message, needs_person=True)


def unreachable(request: Request, source: Sequence[InterfaceLoad], destination: Sequence[InterfaceLoad]) -> Waits:
    """No usable interface of one end reaches one of the other."""
    if len(source) == 1 and len(destination) == 1 and request.source.interfaces and request.destination.interfaces:
        return apart(source[0], destination[0])
    message = (
        f"no interface of the source ({', '.join(map(_describe, source[:_MOST_NAMED]))}) reaches one of the destination"
        f" ({', '.join(map(_describe, destination[:_MOST_NAMED]))}): check `network` in spec.interfaces of the DataTransferNodes;"
        " the job waits"
    )
    return Waits(Reason.NO_INTERFACE_FITS, message)


def silence(*ends: NodeLoad | EndPlacement) -> str:
    """What the choice could not rest on."""
    names = [end.name for end in ends if isinstance(end, NodeLoad) and not end.ready]
    return f"the agent of {' and '.join(names)} does not report, so only what is declared of it is known" if names else ""


def _is_wanted(interface: InterfaceLoad, wish: EndWish) -> bool:
    if wish.interfaces:
        return interface.name in wish.interfaces
    return wish.network is None or interface.network == wish.network


def _with_nodes(*ends: EndPlacement) -> str:
    return ", ".join(f"{name} of {end.node}" for end in ends for name in end.interfaces)


def _describe(interface: InterfaceLoad) -> str:
    network = f" on network {interface.network}" if interface.network is not None else ""
    return f"{interface.name} of {interface.node.name}{network}"


def _asked(wish: EndWish) -> str:
    if wish.site is not None:
        return f"site {wish.site}"
    return "the labels " + ", ".join(f"{key}={value}" for key, value in wish.labels)


def _field(wish: EndWish) -> str:
    return "site" if wish.site is not None else "nodeSelector"


def _listed(nodes: Sequence[NodeLoad]) -> str:
    names = sorted(node.name for node in nodes)
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"
