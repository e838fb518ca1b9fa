"""Which endpoints that movers report are believed: an own port, and an address of the pod or of its node's data interfaces."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fairlead.api.names import ANNOTATION_DATA_ADDRESSES
from fairlead.api.reasons import Reason
from fairlead.api.transferjob.spec import Network
from fairlead.core.observed import MoverPod, NodeFacts, Observed, Role, running_movers
from fairlead.core.reports import EndpointPlace, MoverEndpoint, ReportRefusal

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_METADATA = frozenset(map(ipaddress.ip_address, ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")))
"""Where clouds serve a node's credentials and settings."""
_THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of addresses beside the pod itself. `holders` maps addresses of nodes to the names of these nodes."""

    network: Network
    nodes: Mapping[str, NodeFacts]
    holders: Mapping[str, str]


def vetted(observed: Observed, holders: Mapping[str, str]) -> Observed:
    """`observed` without the endpoints that may not be used, each of which becomes a refusal among its reports.

    `holders` maps addresses of nodes, as far as they are known from pods, to the names of these nodes.
    """
    reports = observed.reports
    receiver, sender = running_movers(observed.pods)
    around = Surroundings(observed.job.spec.network, observed.nodes, holders)
    refusals = []
    for pod, endpoint in ((receiver, reports.receiver_endpoint), (sender, reports.sender_endpoint)):
        if endpoint is None:
            continue
        found = _first_problem(endpoint, pod, around)
        if found is None:
            continue
        place, problem = found
        message = f"its endpoint, {place.address} port {place.port}, {problem}"
        if endpoint is reports.receiver_endpoint:
            reports = replace(reports, receiver_endpoint=None)
            refusals.append(ReportRefusal(Role.RECEIVER.value, Reason.ENDPOINT_REFUSED, message))
        else:
            reports = replace(reports, sender_endpoint=None)
            refusals.append(ReportRefusal(Role.SENDER.value, Reason.ENDPOINT_REFUSED, message))
    return observed if not refusals else replace(observed, reports=replace(reports, refusals=(*reports.refusals, *refusals)))


def _first_problem(endpoint: MoverEndpoint, pod: MoverPod | None, around: Surroundings) -> tuple[MoverEndpoint | EndpointPlace, str] | None:
    """The first of its ends that may not be used, and why; None if all may be."""
    places: tuple[MoverEndpoint | EndpointPlace, ...] = (endpoint, *endpoint.several)
    problems = ((place, problem_of(place, pod, around)) for place in places)
    return next(((place, problem) for place, problem in problems if problem is not None), None)


def problem_of(endpoint: MoverEndpoint | EndpointPlace, pod: MoverPod | None, around: Surroundings) -> str | None:
    """Why the endpoint that `pod` reports is not to be used; None if it may be.

    Of a sender only the address counts: its port is the one that the kernel gave its connection, and nobody connects to it.
    """
    if pod is None:
        return "is none of a running pod"
    address = ipaddress.ip_address(endpoint.address)
    if unusable := _unusable(address):
        return f"is {unusable}, where no data is sent to"
    if pod.role is Role.RECEIVER and endpoint.port != pod.port_base:
        return f"does not have the data port of its pod, {pod.port_base}"
    match around.network:
        case "Pod":
            return None if endpoint.address in pod.addresses else f"is not an address of its pod ({_listed(pod.addresses)})"
        case "Attachment":
            return _problem_of_attachment(endpoint, pod, around)
        case "Host":
            return _problem_on_host(address, pod, around)


def _unusable(address: Address) -> str | None:
    """What is wrong with an address, wherever the pod is; None if it may be that of an interface for data."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return "an address with a scope"
        if address.ipv4_mapped is not None or address.sixtofour is not None or address.teredo is not None:
            return "an IPv4 address in the form of IPv6"
        if address.is_site_local:
            return "a site-local address"
    if address in _METADATA:
        return "a cloud's metadata address"
    if address.is_loopback:
        return "a loopback address"
    if address.is_link_local:
        return "a link-local address"
    if address.is_multicast or address.is_unspecified or address.is_reserved or address in _THIS_NETWORK:
        return "not the address of a host"
    return None


def _problem_of_attachment(endpoint: MoverEndpoint | EndpointPlace, pod: MoverPod, around: Surroundings) -> str | None:
    if pod.attached is not None:
        return None if endpoint.address in pod.attached else f"is not an address of its attachment ({_listed(pod.attached)})"
    # Without the network plugin's word the attachment's addresses are not known; those of nodes are none of them.
    holder = _holder(endpoint.address, around)
    return None if holder is None else f"is an address of node {holder}, and none of its attachment"


def _problem_on_host(address: Address, pod: MoverPod, around: Surroundings) -> str | None:
    facts = around.nodes.get(pod.node or "")
    if str(address) in pod.addresses or (facts is not None and str(address) in facts.addresses):
        return None
    if facts is not None and facts.data_networks is not None:
        if any(address in network for network in facts.data_networks):
            return None
        return f"is not among the node's annotation {ANNOTATION_DATA_ADDRESSES} ({_listed(map(str, facts.data_networks))})"
    for name, other in around.nodes.items():
        if name != pod.node and any(address in network for network in other.data_networks or ()):
            return (
                f"is among the annotation {ANNOTATION_DATA_ADDRESSES} of node {name}, and its pod is on node {pod.node}, which has none:"
                f" an administrator gives node {pod.node} the annotation with its own addresses"
            )
    holder = _holder(str(address), around)
    return None if holder in (None, pod.node) else f"is an address of node {holder}, and its pod is on node {pod.node}"


def _holder(address: str, around: Surroundings) -> str | None:
    named = (name for name, facts in around.nodes.items() if address in facts.addresses)
    return next(named, around.holders.get(address))


def _listed(addresses: Iterable[str]) -> str:
    return ", ".join(sorted(addresses)) or "none is known"
