"""Where a job begins and ends: nodes and interfaces, as far as they are known."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.api.spec import AUTO_INTERFACE, Side
from fairlead.api.status import EndpointStatus
from fairlead.core.model import Endpoint, MoverPod, Observed, Role


@dataclass(frozen=True, slots=True)
class End:
    """One end of a job; None for what is not known yet."""

    node: str | None
    interface: str | None


def ends_of(observed: Observed, attempt: int) -> tuple[End, End]:
    """Source and destination, by what the attempt's pods say, else by the job, its claims and its status."""
    spec, reports, endpoints = observed.job.spec, observed.reports, observed.job.status.endpoints
    pods = {pod.role: pod for pod in observed.pods if pod.attempt == attempt}
    source, destination = (endpoints.source, endpoints.destination) if endpoints else (None, None)
    return (
        _end(observed, spec.source, pods.get(Role.SENDER), reports.sender_endpoint, source),
        _end(observed, spec.destination, pods.get(Role.RECEIVER), reports.receiver_endpoint, destination),
    )


def _end(observed: Observed, side: Side, pod: MoverPod | None, said: Endpoint | None, known: EndpointStatus | None) -> End:
    claim = observed.claims.get(side.volume.persistent_volume_claim.claim_name)
    node = (pod.node if pod else None) or side.node or (claim.node if claim else None) or (known.node if known else None)
    if observed.job.spec.network != "Host":
        # The pod's own interface is none of the node's; which of those carries its traffic is the business of what attaches it.
        return End(node, None)
    if said is not None:
        return End(node, said.interface)
    if side.interface != AUTO_INTERFACE:
        return End(node, side.interface)
    return End(node, known.interface if known is not None and known.node == node else None)
