"""Nodes in namespaces of their own, each with one data interface, around a router; token buckets are what the links carry."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fairlead_dev.bench.fairness.scenario import DESTINATIONS, DEVICE, LINKS, SOURCES
from fairlead_dev.netlab.links import offload_off, token_bucket, veth
from fairlead_dev.netlab.namespaces import ip, name_of, namespaces, remove_abandoned, sysctl
from fairlead_dev.netlab.pair import Net
from fairlead_dev.netlab.processes import run

PREFIX = "fairlead-fairness"
TABLE = "bench"
BURST_BYTES = 64 << 10
LATENCY = "50ms"
"""How long a packet waits at most in front of a link: what its buffer holds."""
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class BedNode:
    """A node's namespace, its address on the data interface, and the router's end of that."""

    name: str
    namespace: str
    address: str
    router_device: str


@dataclass(slots=True)
class Bed:
    """The nodes and the router between them."""

    router: str
    nodes: Mapping[str, BedNode]
    _counted: set[str] = field(default_factory=set)

    def net(self, source: str, destination: str) -> Net:
        """The path from one node to another, as the mover's bench names it."""
        sender, receiver = self.nodes[source], self.nodes[destination]
        return Net(sender.namespace, receiver.namespace, sender.address, receiver.address, DEVICE)

    def watch_point(self, link: str) -> tuple[str, str]:
        """Namespace and interface that receive what a link has carried."""
        shared = next(each for each in LINKS if each.name == link)
        node = self.nodes[shared.node]
        return (self.router, node.router_device) if shared.direction == "Transmit" else (node.namespace, DEVICE)

    def count(self, job: str, destination: str, port: int) -> None:
        """Counts what arrives for a job, from zero; IP headers are in it, link headers are not."""
        namespace = self.nodes[destination].namespace
        if job not in self._counted:
            run(["nft", "add", "counter", "ip", TABLE, job], namespace=namespace)
            self._counted.add(job)
        rule = ["tcp", "dport", str(port), "counter", "name", job]
        run(["nft", "add", "rule", "ip", TABLE, "arrivals", *rule], namespace=namespace)


@contextlib.contextmanager
def bed() -> Iterator[Bed]:
    """Builds the test bed and removes it. Raises LabError."""
    number = next(_numbers)
    router = _name(number, "router")
    names = [*SOURCES, *DESTINATIONS]
    nodes = {name: BedNode(name, _name(number, name), f"198.18.{place}.2", f"to-{name}") for place, name in enumerate(names, start=1)}
    with namespaces((router, *(node.namespace for node in nodes.values()))):
        sysctl(router, {"net.ipv4.ip_forward": "1"})
        for node in nodes.values():
            _connect(router, node)
        for link in LINKS:
            node = nodes[link.node]
            # What a node sends is shaped at the node, what it receives in front of it.
            place = (node.namespace, DEVICE) if link.direction == "Transmit" else (router, node.router_device)
            token_bucket(*place, link.rate_bps, burst_bytes=BURST_BYTES, latency=LATENCY)
        for name in DESTINATIONS:
            namespace = nodes[name].namespace
            run(["nft", "add", "table", "ip", TABLE], namespace=namespace)
            run(["nft", "add", "chain", "ip", TABLE, "arrivals", "{ type filter hook input priority 0; }"], namespace=namespace)
        yield Bed(router, nodes)


def remove_leftovers() -> None:
    """Removes namespaces of benches that were killed."""
    remove_abandoned(PREFIX)


def _name(number: int, what: str) -> str:
    return name_of(PREFIX, os.getpid(), number, what)


def _connect(router: str, node: BedNode) -> None:
    gateway = node.address.rpartition(".")[0] + ".1"
    veth((node.namespace, DEVICE), (router, node.router_device))
    for namespace, device, address in ((node.namespace, DEVICE, node.address), (router, node.router_device, gateway)):
        ip(namespace, f"addr add {address}/30 dev {device}")
        offload_off(namespace, device)
        ip(namespace, f"link set {device} up")
    ip(node.namespace, f"route add default via {gateway}")
