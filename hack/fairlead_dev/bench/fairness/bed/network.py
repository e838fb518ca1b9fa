"""Nodes in namespaces of their own, each with one data interface, around a router; token buckets are what the links carry."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fairlead_dev.bench.fairness.scenario import DESTINATIONS, DEVICE, LINKS, SOURCES
from fairlead_dev.bench.mover.lab.errors import BenchError
from fairlead_dev.bench.mover.lab.network import Net
from fairlead_dev.bench.mover.lab.process import run

PREFIX = "fairlead-fairness"
TABLE = "bench"
BURST_BYTES = 64 << 10
LATENCY = "50ms"
"""How long a packet waits at most in front of a link: what its buffer holds."""
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Node:
    """A node's namespace, its address on the data interface, and the router's end of that."""

    name: str
    namespace: str
    address: str
    router_device: str


@dataclass(slots=True)
class Bed:
    """The nodes and the router between them."""

    router: str
    nodes: Mapping[str, Node]
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
    """Builds the test bed and removes it. Raises BenchError."""
    number = next(_numbers)
    router = _name(number, "router")
    names = [*SOURCES, *DESTINATIONS]
    nodes = {name: Node(name, _name(number, name), f"198.18.{place}.2", f"to-{name}") for place, name in enumerate(names, start=1)}
    try:
        for namespace in (router, *(node.namespace for node in nodes.values())):
            run(["ip", "netns", "add", namespace])
            run(["ip", "-n", namespace, "link", "set", "lo", "up"])
        run(["sysctl", "-qw", "net.ipv4.ip_forward=1"], namespace=router)
        for node in nodes.values():
            _connect(router, node)
        for link in LINKS:
            node = nodes[link.node]
            # What a node sends is shaped at the node, what it receives in front of it.
            place = (node.namespace, DEVICE) if link.direction == "Transmit" else (router, node.router_device)
            shape = ["tbf", "rate", f"{link.rate_bps:.0f}bit", "burst", str(BURST_BYTES), "latency", LATENCY]
            run(["tc", "qdisc", "add", "dev", place[1], "root", *shape], namespace=place[0])
        for name in DESTINATIONS:
            namespace = nodes[name].namespace
            run(["nft", "add", "table", "ip", TABLE], namespace=namespace)
            run(["nft", "add", "chain", "ip", TABLE, "arrivals", "{ type filter hook input priority 0; }"], namespace=namespace)
        yield Bed(router, nodes)
    finally:
        for namespace in (*(node.namespace for node in nodes.values()), router):
            _remove(namespace)


def remove_leftovers() -> None:
    """Namespaces of benches that were killed."""
    for path in Path("/run/netns").glob(f"{PREFIX}-*"):
        owner = path.name.split("-")[2]
        if owner.isdigit() and not Path("/proc", owner).exists():
            _remove(path.name)


def _name(number: int, what: str) -> str:
    return f"{PREFIX}-{os.getpid()}-{number}-{what}"


def _connect(router: str, node: Node) -> None:
    gateway = node.address.rpartition(".")[0] + ".1"
    peer = ["peer", "name", node.router_device, "netns", router]
    run(["ip", "link", "add", DEVICE, "netns", node.namespace, "type", "veth", *peer])
    for namespace, device, address in ((node.namespace, DEVICE, node.address), (router, node.router_device, gateway)):
        run(["ip", "-n", namespace, "addr", "add", f"{address}/30", "dev", device])
        # Each packet is of the wire's size, so that counters and buckets count what a wire would.
        run(["ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off"], namespace=namespace)
        run(["ip", "-n", namespace, "link", "set", device, "up"])
    run(["ip", "-n", node.namespace, "route", "add", "default", "via", gateway])


def _remove(namespace: str) -> None:
    with contextlib.suppress(BenchError):
        run(["ip", "netns", "del", namespace])
