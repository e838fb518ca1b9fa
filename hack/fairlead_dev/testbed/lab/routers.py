"""A router on either side of a path whose queue and random loss are the kernel's own.

Each has the bottleneck where it sends to the other: a token bucket with a buffer of bytes that drops what does not fit. What comes from
the other side has been through its queue and the delay, and may be lost then. A router, and not the sending host, has the queue: a host's
TCP is told of what its own queue drops, and holds back what fills it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_dev.netlab.links import MTU_BYTES, drop_tail, offload_off, spread_receiving, tun, veth
from fairlead_dev.netlab.namespaces import ip
from fairlead_dev.netlab.processes import run
from fairlead_dev.testbed.scenario.model import Path

TO_ROUTER, TO_HOST = "path0", "host0"
TABLE, LOST = "fairlead", "lost"
"""Of the packet filter: the table, and the counter of what was lost."""
_PARTS = 1_000_000_000
"""Losses are drawn in these parts; the kernel draws 32 bits."""
_BUCKET_S = 0.001
_LEAST_BUCKET_PACKETS = 2


@dataclass(frozen=True, slots=True)
class RouterSide:
    """A host that sends and receives, and its router. `near` and `far` are the other addresses behind the host and beyond the path."""

    host: str
    router: str
    address: str
    router_address: str
    near: tuple[str, ...]
    far: tuple[str, ...]


def bucket_bytes(rate_bps: int) -> int:
    """What may leave at once after a pause: 1 ms of the rate, so that a timer that is as late costs nothing of it; two packets at least."""
    return max(_LEAST_BUCKET_PACKETS * MTU_BYTES, round(rate_bps / 8 * _BUCKET_S))


def loss_rules(device: str, ratio: float) -> str:
    """Rules of the packet filter that lose so many of the packets from `device`, and count them."""
    return f"""table ip {TABLE} {{
  counter {LOST} {{ }}
  chain {LOST} {{
    type filter hook forward priority 0;
    iifname "{device}" numgen random mod {_PARTS} < {round(ratio * _PARTS)} counter name "{LOST}" drop
  }}
}}
"""


def lay(side: RouterSide, device: str, path: Path, *, queue_packets: int, segments: int) -> None:
    """One side of `path`: the veth pair to the router, and the router's `device` with the queue. Raises LabError."""
    veth((side.host, TO_ROUTER), (side.router, TO_HOST))
    for namespace, end in ((side.host, TO_ROUTER), (side.router, TO_HOST)):
        # Rate and buffer are to count packets of the wire's size.
        offload_off(namespace, end)
        # Else all hops of a packet are work of the processor on which `fairlead-wan` writes it, as are the queues' timers.
        spread_receiving(namespace, end)
    ip(
        side.host,
        f"addr add {side.address} peer {side.router_address} dev {TO_ROUTER}",
        f"link set {TO_ROUTER} mtu {MTU_BYTES} gso_max_segs {segments} up",
        *(f"route add {far} via {side.router_address} dev {TO_ROUTER} src {side.address}" for far in side.far),
    )
    ip(
        side.router,
        f"addr add {side.router_address} peer {side.address} dev {TO_HOST}",
        f"link set {TO_HOST} mtu {MTU_BYTES} up",
        *(f"route add {near} via {side.address} dev {TO_HOST}" for near in side.near),
    )
    tun(side.router, device, side.router_address, side.far[0], queue_packets=queue_packets)
    ip(side.router, f"route add default dev {device}")
    drop_tail(side.router, device, path.rate_bps, burst_bytes=bucket_bytes(path.rate_bps), buffer_bytes=path.queue_bytes)
    if path.loss_ratio:
        run(["nft", "-f", "-"], namespace=side.router, stdin=loss_rules(device, path.loss_ratio))
