"""Where a job begins and ends: nodes and interfaces, as far as they are known."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.api.spec import AUTO_INTERFACE, Side
from fairlead.api.status import EndpointStatus
from fairlead.core.model import Endpoint, MoverPod, Observed, Role
from fairlead.core.network import traits_of


@dataclass(frozen=True, slots=True)
class End:
    """One end of a job; None for what is not known yet."""

    node: str | None
    interface: str | None


def ends_of(observed: Observed, attempt: int) -> tuple[End, End]:
    """Source and destination, by what the attempt's pods say, else by the job, its claims and its status."""
    spec, reports, endpoints = observed.job.spec, observed.reports, observed.job.status.endpoints
    source, destination = (endpoints.source, endpoints.destination) if endpoints else (None, None)
    return (
        _end(observed, spec.source, observed.mover(Role.SENDER, attempt), reports.sender_endpoint, source),
        _end(observed, spec.destination, observed.mover(Role.RECEIVER, attempt), reports.receiver_endpoint, destination),
    )


def _end(observed: Observed, side: Side, pod: MoverPod | None, said: Endpoint | None, known: EndpointStatus | None) -> End:
    node = (pod.node if pod else None) or side.node or observed.claim_node(side) or (known.node if known else None)
    if not traits_of(observed.job).uses_node_interfaces:
        # The pod's own interface is none of the node's; which of those carries its traffic is the business of what attaches it.
        return End(node, None)
    if said is not None:
        return End(node, said.interface)
    if side.interface != AUTO_INTERFACE:
        return End(node, side.interface)
    return End(node, known.interface if known is not None and known.node == node else None)
