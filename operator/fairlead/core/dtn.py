"""Data transfer nodes as decisions take them: what is declared of a node, over what its agent found there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv4Interface, IPv6Interface, ip_interface
from typing import Final

from fairlead.api.datatransfernode import DataTransferNode
from fairlead.api.datatransfernode.spec import DeclaredInterface, declared_rate_bps
from fairlead.api.datatransfernode.status import InterfaceStatus
from fairlead.api.reasons import DtnReason
from fairlead.api.shared.quantity import parse_rate

REPORT_INTERVAL: Final = timedelta(minutes=5)
"""An agent reports so often when nothing changes."""
SILENT_AFTER: Final = timedelta(minutes=11)
"""Two reports that did not come, and some time for a busy API server."""
MOST_AHEAD: Final = timedelta(minutes=2)
"""How far a node's clock may be ahead of ours."""

_BRIDGE = "bridge"


@dataclass(frozen=True, slots=True)
class NodeInterface:
    """An interface of a data transfer node. None is unknown."""

    name: str
    rate_bps: int | None = None
    mtu: int | None = None
    numa_node: int | None = None
    addresses: tuple[IPv4Interface | IPv6Interface, ...] = ()
    carrier: bool | None = None
    network: str | None = None
    """Name of the network that it reaches, as declared."""
    is_management: bool = False
    """Whether it holds the kubelet's address."""
    may_carry_data: bool = False


@dataclass(frozen=True, slots=True)
class NodeStorage:
    """Space of a file system of the node, as of the last report."""

    path: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class NodeState:
    """The Kubernetes node of the same name."""

    ready: bool
    """Whether its kubelet reports that it is."""
    schedulable: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TransferNode:
    """A data transfer node. Where its agent does not report (`ready` is False) only what is declared is known."""

    name: str
    site: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those of the Kubernetes node; of the DataTransferNode where that is not known."""
    ready: bool = False
    """Whether new movers can be placed there: its agent reports, and the Kubernetes node is ready and takes pods as far as is known."""
    slots: int = 8
    interfaces: tuple[NodeInterface, ...] = ()
    congestion_controls: tuple[str, ...] | None = None
    """Those that movers may choose; None if unknown."""
    storage: tuple[NodeStorage, ...] = ()
    cpus: int | None = None

    def interface(self, name: str) -> NodeInterface | None:
        """The interface of that name, None if the node has none as far as is known."""
        return next((interface for interface in self.interfaces if interface.name == name), None)

    @property
    def data_interfaces(self) -> tuple[NodeInterface, ...]:
        """Those that may carry data, in the order of their names."""
        return tuple(interface for interface in self.interfaces if interface.may_carry_data)


def doubt_of(node: DataTransferNode, now: datetime) -> DtnReason | None:
    """Why what the agent has reported is not used; None where it is."""
    reported_at = node.status.last_report_time
    if reported_at is None:
        return DtnReason.NEVER_REPORTED
    if reported_at > now + MOST_AHEAD:
        return DtnReason.CLOCK_AHEAD
    if now - reported_at > SILENT_AFTER:
        return DtnReason.AGENT_SILENT
    # Agents that take turns are seen over time, by whoever watches: the condition says so.
    known = {condition.reason for condition in node.status.conditions if condition.status != "True"}
    return DtnReason.SEVERAL_AGENTS if DtnReason.SEVERAL_AGENTS in known else None


def transfer_node_of(node: DataTransferNode, now: datetime, kubernetes_node: NodeState | None = None) -> TransferNode:
    """The node for decisions at `now`. `kubernetes_node` is None where nothing is known of the Kubernetes node."""
    spec, status = node.spec, node.status
    believed = doubt_of(node, now) is None
    controls = status.kernel.allowed_congestion_controls if believed and status.kernel is not None else ()
    takes_pods = kubernetes_node is None or (kubernetes_node.ready and kubernetes_node.schedulable)
    return TransferNode(
        name=node.metadata.name,
        site=spec.site,
        labels=node.metadata.labels if kubernetes_node is None else kubernetes_node.labels,
        ready=believed and takes_pods,
        slots=spec.slots,
        interfaces=interfaces_of(node, now),
        congestion_controls=controls or None,
        storage=tuple(NodeStorage(each.path, each.total_bytes, each.free_bytes) for each in status.storage) if believed else (),
        cpus=status.cpus if believed else None,
    )


def interfaces_of(node: DataTransferNode, now: datetime) -> tuple[NodeInterface, ...]:
    """Declared and found interfaces by name, and which of them may carry data."""
    found = {each.name: each for each in node.status.interfaces} if doubt_of(node, now) is None else {}
    declared = {each.name: each for each in node.spec.interfaces}
    automatic = _automatic(tuple(found.values()))
    return tuple(
        _merged(
            name,
            declared.get(name),
            found.get(name),
            may_carry_data=declared[name].data if name in declared else not declared and name in automatic,
        )
        for name in sorted(declared.keys() | found.keys())
    )


def _automatic(found: tuple[InterfaceStatus, ...]) -> frozenset[str]:
    """The interfaces that carry data where none are declared, by the mover's own rule: the management interface only for want of others."""
    usable = [each for each in found if each.carrier is not False and each.kind != _BRIDGE and any(map(_is_global, _addresses(each)))]
    others = [each for each in usable if not each.management]
    return frozenset(each.name for each in others or usable)


def _merged(name: str, declared: DeclaredInterface | None, found: InterfaceStatus | None, *, may_carry_data: bool) -> NodeInterface:
    rate_bps, mtu, numa_node = declared_rate_bps(declared), declared.mtu if declared else None, declared.numa_node if declared else None
    network = declared.network if declared else None
    if found is None:
        return NodeInterface(name, rate_bps, mtu, numa_node, network=network, may_carry_data=may_carry_data)
    found_bps = None if found.rate is None else parse_rate(found.rate) or None
    return NodeInterface(
        name=name,
        rate_bps=found_bps if rate_bps is None else rate_bps,
        mtu=found.mtu if mtu is None else mtu,
        numa_node=found.numa_node if numa_node is None else numa_node,
        addresses=_addresses(found),
        carrier=found.carrier,
        network=network,
        is_management=found.management,
        may_carry_data=may_carry_data,
    )


def _addresses(found: InterfaceStatus) -> tuple[IPv4Interface | IPv6Interface, ...]:
    """The addresses, without what is none: the API server checks their characters alone."""
    read: list[IPv4Interface | IPv6Interface] = []
    for text in found.addresses:
        try:
            read.append(ip_interface(text))
        except ValueError:
            continue
    return tuple(read)


def _is_global(address: IPv4Interface | IPv6Interface) -> bool:
    """Whether the address can be reached from beyond its link."""
    ip = address.ip
    return not (ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast)
