"""Devices of a namespace: the TUN device of an emulated path, veth pairs, token buckets."""

from __future__ import annotations

import json
import os

from fairlead_dev.netlab.namespaces import ip
from fairlead_dev.netlab.processes import run, wait_until

MTU_BYTES = 1500
CARRIER_LIMIT_S = 30.0
_MASKED_PROCESSORS = 32
"""More would have to be written in groups."""
EMULATOR_QUEUE_PACKETS = 10_000
"""The kernel's 500 packets would drop bursts before the emulator sees them."""


def tun(
    namespace: str, device: str, address: str, peer: str, *, queue_packets: int = EMULATOR_QUEUE_PACKETS, segments: int | None = None
) -> None:
    """An end of an emulated path. `segments` limits what the sender hands on at a time. Raises LabError."""
    limit = "" if segments is None else f" gso_max_segs {segments}"
    ip(
        namespace,
        f"tuntap add {device} mode tun",
        f"addr add {address} peer {peer} dev {device}",
        f"link set {device} mtu {MTU_BYTES} txqueuelen {queue_packets}{limit} up",
    )


def await_carrier(namespace: str, device: str) -> None:
    """Waits until the kernel has noticed that a device carries packets; a mover refuses it before. Raises LabError."""

    def is_up() -> bool:
        (shown,) = json.loads(run(["ip", "-n", namespace, "-json", "link", "show", "dev", device]))
        return shown["operstate"] in ("UP", "UNKNOWN")

    wait_until(is_up, f"the carrier of {device} in {namespace}", CARRIER_LIMIT_S)


def veth(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Joins two devices, each given by its namespace and name; both are down. Raises LabError."""
    (namespace, device), (peer_namespace, peer) = one, other
    ip(namespace, f"link add {device} type veth peer name {peer} netns {peer_namespace}")


def offload_off(namespace: str, device: str) -> None:
    """Makes each packet on a device one of the wire's size, so that counters and buckets count what a wire would. Raises LabError."""
    # `gso` is not about UDP's segments (UDP_SEGMENT): a veth device would take ten datagrams of QUIC's as one packet with one header.
    run(["ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off", "tx-udp-segmentation", "off"], namespace=namespace)


def spread_receiving(namespace: str, device: str) -> None:
    """Lets every processor take packets from a device, those of a flow always the same one. Raises LabError."""
    mask = (1 << min(os.cpu_count() or 1, _MASKED_PROCESSORS)) - 1
    run(["tee", f"/sys/class/net/{device}/queues/rx-0/rps_cpus"], namespace=namespace, stdin=f"{mask:x}\n")


def token_bucket(namespace: str, device: str, rate_bps: float, *, burst_bytes: int, latency: str) -> None:
    """Limits what leaves by a device; a packet waits at most for `latency`, such as `20ms`. Raises LabError."""
    _token_bucket(namespace, device, rate_bps, burst_bytes, "latency", latency)


def drop_tail(namespace: str, device: str, rate_bps: float, *, burst_bytes: int, buffer_bytes: int) -> None:
    """The same with a buffer of so many bytes, which drops what does not fit. Raises LabError."""
    _token_bucket(namespace, device, rate_bps, burst_bytes, "limit", str(buffer_bytes))


def _token_bucket(namespace: str, device: str, rate_bps: float, burst_bytes: int, *room: str) -> None:
    shape = ["tbf", "rate", f"{rate_bps:.0f}bit", "burst", str(burst_bytes), *room]
    run(["tc", "qdisc", "add", "dev", device, "root", *shape], namespace=namespace)
