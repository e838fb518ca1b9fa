"""What a job's `network` implies: for its movers, and for where its ends are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fairlead.api.transferjob import TransferJob
from fairlead.api.transferjob.spec import AUTO_INTERFACE, Network, Side
from fairlead.api.transferjob.status import EndpointStatus
from fairlead.core.observed import MoverPod, Observed, Role
from fairlead.core.paths.model import End
from fairlead.core.placement.model import EndPlacement, Placement
from fairlead.core.reports import MoverEndpoint


@dataclass(frozen=True, slots=True)
class NetworkTraits:
    """What one value of `spec.network` implies."""

    uses_node_interfaces: bool = False
    """Movers share the interfaces of their node: the namespace needs permission, interfaces and so paths are known, and the node guard
    can hold caps."""
    has_bucket: bool = True
    """Something may make a token bucket for the pod as it starts, whose rate cannot be changed later."""
    bucket_follows_cap: bool = False
    """A CNI plugin makes that bucket by the annotation that has the cap on the nodes' network."""
    needs_attachment: bool = False
    """Each end names a NetworkAttachmentDefinition."""


_TRAITS: Mapping[Network, NetworkTraits] = {
    "Host": NetworkTraits(uses_node_interfaces=True, has_bucket=False),
    "Attachment": NetworkTraits(needs_attachment=True),
    "Pod": NetworkTraits(bucket_follows_cap=True),
}


def traits_of(job: TransferJob) -> NetworkTraits:
    """What the job's network implies."""
    return _TRAITS[job.spec.network]


def ends_of(observed: Observed, attempt: int) -> tuple[End, End]:
    """Source and destination: nodes by the attempt's pods, else by the job, its claims and its status; interfaces by the job, and where
    it leaves the choice open by what the movers report, else by what was chosen, else by its status."""
    spec, reports, endpoints = observed.job.spec, observed.reports, observed.job.status.endpoints
    source, destination = (endpoints.source, endpoints.destination) if endpoints else (None, None)
    chosen = _chosen(observed)
    return (
        _end(observed, spec.source, observed.mover(Role.SENDER, attempt), reports.sender_endpoint, source, chosen=chosen[0]),
        _end(observed, spec.destination, observed.mover(Role.RECEIVER, attempt), reports.receiver_endpoint, destination, chosen=chosen[1]),
    )


def lanes_of(observed: Observed, attempt: int) -> tuple[tuple[End, End], ...]:
    """Source and destination of each path of a job that has several, in their order. Empty for one that has one, where an interface is not
    one of the node's, and where the attempt's sender knows one cap for all of them."""
    spec, reports, endpoints = observed.job.spec, observed.reports, observed.job.status.endpoints
    sender, receiver = observed.mover(Role.SENDER, attempt), observed.mover(Role.RECEIVER, attempt)
    if not traits_of(observed.job).uses_node_interfaces or (sender is not None and not sender.watches_paths):
        return ()
    chosen = _chosen(observed)
    sources = chosen[0].interfaces or spec.source.named_interfaces
    reported, known = reports.receiver_endpoint, endpoints.destination if endpoints else None
    destinations: tuple[str | None, ...] = chosen[1].interfaces or spec.destination.named_interfaces
    if reported is not None:
        destinations = tuple(place.interface for place in reported.places)
    elif not destinations and known is not None and receiver is not None and known.pod == receiver.name:
        destinations = tuple(each.name for each in known.interfaces or ()) or (known.interface,)
    paths = pair_paths(sources or (AUTO_INTERFACE,), destinations or (None,))
    if len(paths) == 1:
        return ()
    source, destination = ends_of(observed, attempt)
    return tuple((End(source.node, own), End(destination.node, peer)) for own, peer in paths)


_Peer = TypeVar("_Peer")


def pair_paths(interfaces: Sequence[str], peers: Sequence[_Peer]) -> list[tuple[str, _Peer]]:
    """The sender's interface and the receiver's end of each path. Where one end has fewer, its own are used several times; an interface
    that the sender chooses itself has one path."""
    count = 1 if AUTO_INTERFACE in interfaces else max(len(interfaces), len(peers))
    return [(interfaces[path % len(interfaces)], peers[path % len(peers)]) for path in range(count)]


def _chosen(observed: Observed) -> tuple[EndPlacement, EndPlacement]:
    """What is chosen for both ends of the attempt under way, or of the one that is about to start."""
    if isinstance(observed.placement, Placement):
        return observed.placement.source, observed.placement.destination
    placed = observed.job.status.placement if observed.attempt_under_way else None
    if placed is None:
        return EndPlacement(), EndPlacement()
    return (
        EndPlacement(placed.source.node, placed.source.interfaces or ()),
        EndPlacement(placed.destination.node, placed.destination.interfaces or ()),
    )


def _end(
    observed: Observed,
    side: Side,
    pod: MoverPod | None,
    reported: MoverEndpoint | None,
    known: EndpointStatus | None,
    *,
    chosen: EndPlacement,
) -> End:
    node = (pod.node if pod else None) or chosen.node or side.node or observed.claim_node(side) or (known.node if known else None)
    if not traits_of(observed.job).uses_node_interfaces:
        # The pod's own interface is none of the node's; which of those carries its traffic is the business of what attaches it.
        return End(node, None)
    if len(side.named_interfaces or chosen.interfaces) > 1 or (reported is not None and reported.several):
        # No end names several: what cannot count on the links of each path may cross any link of its node.
        return End(node, None)
    if side.interface != AUTO_INTERFACE:
        return End(node, side.interface)
    if reported is not None:
        return End(node, reported.interface)
    if len(chosen.interfaces) == 1:
        return End(node, chosen.interfaces[0])
    return End(node, known.interface if known is not None and known.node == node else None)
