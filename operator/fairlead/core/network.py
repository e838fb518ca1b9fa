"""What a job's `network` implies: for its movers, and for where its ends are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
        # No end names several: for shares the job may cross any link of its node.
        return End(node, None)
    if side.interface != AUTO_INTERFACE:
        return End(node, side.interface)
    if reported is not None:
        return End(node, reported.interface)
    if len(chosen.interfaces) == 1:
        return End(node, chosen.interfaces[0])
    return End(node, known.interface if known is not None and known.node == node else None)
