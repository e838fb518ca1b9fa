"""The network namespaces of a run: traffic and probe on either side of the emulated path.

    probe-a ── veth ── a ── wan0 ═ fairlead-wan ═ wan0 ── b ── veth ── probe-b

A path whose queue is the kernel's has a router on either side (routers.py):

    probe-a ── veth ── a ── veth ── router-a ── wan0 ═ fairlead-wan ═ wan0 ── router-b ── veth ── b ── veth ── probe-b

Probe packets pass the same queues as the traffic but share no socket memory, metrics or counters with it. Every run has the
same addresses: nothing joins one run's namespaces with another's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from fairlead_dev.netlab.links import MTU_BYTES, tun, veth
from fairlead_dev.netlab.namespaces import ip, name_of, namespaces, sysctl
from fairlead_dev.netlab.namespaces import remove_abandoned as remove_abandoned_of
from fairlead_dev.testbed.lab import routers
from fairlead_dev.testbed.scenario.model import Path

PREFIX = "fairlead-testbed"
DEVICE = "wan0"
ADDRESS_A, ADDRESS_B = "198.18.0.1", "198.18.0.2"
PROBE_ADDRESS_A, PROBE_ADDRESS_B = "198.18.1.1", "198.18.2.1"
_GATEWAY_A, _GATEWAY_B = "198.18.1.2", "198.18.2.2"
_ROUTER_A, _ROUTER_B = "198.18.3.1", "198.18.3.2"
_QUEUE_PACKETS = 20_000
_BURST_S = 0.0002

_SYSCTLS = {
    "net.ipv4.ip_forward": "1",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    "net.ipv4.conf.all.send_redirects": "0",
    # The path, not a socket's buffer, is to limit a flow.
    "net.ipv4.tcp_rmem": "4096 1048576 536870912",
    "net.ipv4.tcp_wmem": "4096 262144 536870912",
    # A connection must not begin with what an earlier one learnt.
    "net.ipv4.tcp_no_metrics_save": "1",
}


@dataclass(frozen=True, slots=True)
class Names:
    """The namespaces of one run."""

    a: str
    b: str
    probe_a: str
    probe_b: str
    router_a: str
    router_b: str

    @staticmethod
    def of(process_id: int, number: int) -> Names:
        """The names that the process of that id gives to its run of that number."""
        return Names(*(name_of(PREFIX, process_id, number, end) for end in ("a", "b", "pa", "pb", "ra", "rb")))

    def of_path(self, path: Path) -> tuple[str, ...]:
        """Those that a run on `path` has."""
        hosts = (self.a, self.b, self.probe_a, self.probe_b)
        return (*hosts, self.router_a, self.router_b) if path.emulator == "kernel" else hosts

    def path_ends(self, path: Path) -> tuple[str, str]:
        """Those with the devices that `fairlead-wan` joins."""
        return (self.router_a, self.router_b) if path.emulator == "kernel" else (self.a, self.b)


def burst_packets(rate_bps: int) -> int:
    """The packets that a sender may hand on at a time: one as on a wire, or what a fast path carries in 0.2 ms.

    A paced sender wakes up for every burst: BBR at 400 Mb/s packet by packet fills a processor core with timers.
    """
    return max(1, int(rate_bps * _BURST_S / (8 * MTU_BYTES)))


@asynccontextmanager
async def run_namespaces(names: Names, path: Path) -> AsyncIterator[None]:
    """The namespaces and their links until the block is left, also when making them fails half-way. Raises LabError."""
    made = _made(names, path)
    making = asyncio.ensure_future(asyncio.to_thread(made.__enter__))
    try:
        # A cancellation waits for them: what is half made cannot be removed.
        await asyncio.shield(making)
        yield
    finally:
        await asyncio.wait([making])
        if making.exception() is None:
            await asyncio.to_thread(made.__exit__, None, None, None)


@contextmanager
def _made(names: Names, path: Path) -> Iterator[None]:
    sides = (
        (names.a, names.probe_a, names.router_a, ADDRESS_A, ADDRESS_B, PROBE_ADDRESS_A, _GATEWAY_A, PROBE_ADDRESS_B, _ROUTER_A),
        (names.b, names.probe_b, names.router_b, ADDRESS_B, ADDRESS_A, PROBE_ADDRESS_B, _GATEWAY_B, PROBE_ADDRESS_A, _ROUTER_B),
    )
    segments = burst_packets(path.rate_bps)
    with namespaces(names.of_path(path)):
        for traffic, probe, router, address, peer, probe_address, gateway, probe_peer, router_address in sides:
            if path.emulator == "kernel":
                side = routers.RouterSide(traffic, router, address, router_address, near=(probe_address,), far=(peer, probe_peer))
                routers.lay(side, DEVICE, path, queue_packets=_QUEUE_PACKETS, segments=segments)
                sysctl(router, _SYSCTLS)
            else:
                tun(traffic, DEVICE, address, peer, queue_packets=_QUEUE_PACKETS, segments=segments)
                ip(traffic, f"route add {probe_peer} via {peer} dev {DEVICE}")
            veth((traffic, "probe"), (probe, "eth0"))
            ip(traffic, f"addr add {gateway}/30 dev probe", "link set probe up")
            ip(probe, f"addr add {probe_address}/30 dev eth0", "link set eth0 up", f"route add default via {gateway}")
            sysctl(traffic, _SYSCTLS)
        yield


def remove_abandoned() -> list[str]:
    """Removes the namespaces of runners that are dead, and returns their names."""
    return remove_abandoned_of(PREFIX)
