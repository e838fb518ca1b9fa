"""What the tuning rules look at: a node's settings, and the paths and peers that they have to suit. What is not known is None or absent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fairlead.api.datatransfernode import DataTransferNode
from fairlead.api.datatransfernode.status import MOST_CPUS, BondStatus, KernelStatus
from fairlead.api.networkpath import NetworkPath
from fairlead.api.networkpath.spec import PathEnd
from fairlead.api.shared.quantity import RateError, parse_milliseconds, parse_rate
from fairlead.core.dtn import NodeInterface, interfaces_of

LONGEST_RTT_SECONDS = 1.0
"""What advisors report above it is not used: no terrestrial path is longer, and a false report must not ask for gigabytes of buffers."""


@dataclass(frozen=True, slots=True)
class TunedInterface:
    """An interface that may carry data."""

    name: str
    rate_bps: int | None = None
    mtu: int | None = None
    """As the agent found it."""
    declared_mtu: int | None = None
    numa_node: int | None = None
    network: str | None = None
    bond: BondStatus | None = None
    is_reported: bool = False
    """Whether the agent has described it, so that one without a bond has none."""
    qdisc: str | None = None
    interrupt_cpus: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class FarEnd:
    """An interface of another node that this one exchanges data with."""

    node: str
    interface: str
    rate_bps: int | None = None
    mtu: int | None = None

    def __str__(self) -> str:
        return f"{self.interface} of {self.node}"


@dataclass(frozen=True, slots=True)
class MeasuredPath:
    """A NetworkPath that begins or ends at the node."""

    name: str
    interface: str | None
    """The node's own interface; None where the path names none."""
    far: FarEnd | None
    """The other end; None where its interface is not known."""
    sends: bool
    """Whether the node is the sending end."""
    rtt_seconds: float
    rate_bps: int | None
    """The least of what its ends and its declared capacity allow; where these are unknown, the most that a transfer got."""
    is_declared: bool = False
    """Whether somebody declared its capacity."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What is known of one node."""

    kernel: KernelStatus = field(default_factory=KernelStatus)
    interfaces: tuple[TunedInterface, ...] = ()
    numa_cpus: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """CPUs by NUMA node."""
    paths: tuple[MeasuredPath, ...] = ()
    largest_mtu: Mapping[str, FarEnd] = field(default_factory=dict)
    """By network, the interface with the largest MTU."""

    @property
    def longest_path(self) -> MeasuredPath | None:
        """The path with the largest product of rate and RTT, None if none is known."""
        known = (path for path in self.paths if path.rate_bps)
        return max(known, key=lambda path: (path.rtt_seconds * (path.rate_bps or 0), path.name), default=None)


class NodesAndPaths:
    """All nodes and paths, looked up by what the facts of one node need. Made once for a pass over all nodes."""

    def __init__(self, nodes: Iterable[DataTransferNode], paths: Iterable[NetworkPath], now: datetime) -> None:
        self._interfaces = {node.metadata.name: {each.name: each for each in interfaces_of(node, now)} for node in nodes}
        self._paths: dict[str, list[NetworkPath]] = defaultdict(list)
        for path in paths:
            for end in {path.spec.source.node, path.spec.destination.node}:
                self._paths[end].append(path)
        self._largest_mtu: dict[str, FarEnd] = {}
        for name, interfaces in sorted(self._interfaces.items()):
            for interface in interfaces.values():
                self._note_mtu(name, interface)

    def facts_of(self, node: DataTransferNode) -> HostFacts:
        """What the rules look at for one of the nodes."""
        name, status = node.metadata.name, node.status
        merged = self._interfaces.get(name, {})
        found = {each.name: each for each in status.interfaces}
        interfaces = []
        for each in merged.values():
            if not each.may_carry_data or each.name not in found:
                continue
            declared = node.spec.declared(each.name)
            interfaces.append(
                TunedInterface(
                    name=each.name,
                    rate_bps=each.rate_bps,
                    mtu=found[each.name].mtu,
                    declared_mtu=declared.mtu if declared else None,
                    numa_node=each.numa_node,
                    network=each.network,
                    bond=found[each.name].bond,
                    is_reported=True,
                    qdisc=found[each.name].qdisc,
                    interrupt_cpus=cpus_of(found[each.name].interrupt_cpus),
                )
            )
        return HostFacts(
            kernel=status.kernel or KernelStatus(),
            interfaces=tuple(interfaces),
            numa_cpus={each.number: cpus for each in status.numa_nodes if (cpus := cpus_of(each.cpus))},
            paths=tuple(measured for path in self._paths.get(name, ()) for measured in self._measured(name, path)),
            largest_mtu=self._largest_mtu,
        )

    def _note_mtu(self, node: str, interface: NodeInterface) -> None:
        if interface.network is None or interface.mtu is None or not interface.may_carry_data:
            return
        known = self._largest_mtu.get(interface.network)
        if known is None or (known.mtu or 0) < interface.mtu:
            self._largest_mtu[interface.network] = FarEnd(node, interface.name, interface.rate_bps, interface.mtu)

    def _measured(self, node: str, path: NetworkPath) -> list[MeasuredPath]:
        rtt = path.status.rtt_minimum or path.status.rtt
        rtt_seconds = parse_milliseconds(rtt) if rtt else None
        if not rtt_seconds or rtt_seconds > LONGEST_RTT_SECONDS or path.spec.source.node == path.spec.destination.node:
            return []
        sends = path.spec.source.node == node
        own, other = (path.spec.source, path.spec.destination) if sends else (path.spec.destination, path.spec.source)
        limits = (self._rate(own), self._rate(other), path.spec.capacity_bps)
        rate_bps = min((limit for limit in limits if limit), default=None) or _rate_bps(path.status.capacity)
        far = self._interfaces.get(other.node, {}).get(other.interface or "")
        return [
            MeasuredPath(
                name=path.metadata.name,
                interface=own.interface,
                far=FarEnd(other.node, far.name, far.rate_bps, far.mtu) if far else None,
                sends=sends,
                rtt_seconds=rtt_seconds,
                rate_bps=rate_bps,
                is_declared=path.spec.capacity is not None,
            )
        ]

    def _rate(self, end: PathEnd) -> int | None:
        """What the end's interface carries; where the path names none, the fastest that may carry data."""
        interfaces = self._interfaces.get(end.node, {})
        if end.interface is not None:
            return interfaces[end.interface].rate_bps if end.interface in interfaces else None
        return max((each.rate_bps for each in interfaces.values() if each.may_carry_data and each.rate_bps), default=None)


def _rate_bps(text: str | None) -> int | None:
    try:
        return parse_rate(text) if text else None
    except RateError:
        return None


def cpus_of(text: str | None) -> frozenset[int] | None:
    """The CPUs of a list such as `0-3,8`; None for an unknown or malformed one, and for one with more than any node has."""
    if not text:
        return None
    cpus: set[int] = set()
    count = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()) or len(first) > 5 or len(last) > 5:
            return None
        listed = range(int(first), int(last or first) + 1)
        count += len(listed)
        if count > MOST_CPUS:
            return None
        cpus.update(listed)
    return frozenset(cpus)


def cpu_list(cpus: Iterable[int]) -> str:
    """CPUs as the kernel writes them, `0-3,8`."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
