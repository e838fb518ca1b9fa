"""Network namespaces of the boxes: the management network that joins them, and the ends of the emulated paths."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.layout import DATA_LINKS, NODES, TRANSFER_NODES, ClusterNode, DataLink
from fairlead_dev.cluster.machine import shell

NAMESPACES = Path("/run/netns")

FORWARDING = {
    "net.ipv4.ip_forward": "1",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
}

TRANSFER_TUNING = {
    # A path of 1 Gb/s and 100 ms holds 12.5 MB in flight and a sender needs about twice that: with the usual
    # maxima of a few MB the buffer, not the network, would set the rate. Only connections that need it grow so far.
    "net.ipv4.tcp_rmem": "4096 131072 67108864",
    "net.ipv4.tcp_wmem": "4096 65536 67108864",
    # Paths with jumbo frames or tunnels drop large segments silently where ICMP is filtered; probing finds the size that passes.
    "net.ipv4.tcp_mtu_probing": "1",
    # A pause to read the disk must not cost a new slow start over a long path.
    "net.ipv4.tcp_slow_start_after_idle": "0",
}
"""What a data transfer node sets, as the tuning guides for such hosts recommend."""


def control_plane_commands() -> list[str]:
    """Lines for `ip -batch` in the control plane's namespace: the bridge that every node hangs on."""
    bridge = layout.MANAGEMENT_BRIDGE
    return [
        "link set lo up",
        f"link add {bridge} type bridge",
        f"addr add {layout.CONTROL_PLANE_ADDRESS}/{layout.MANAGEMENT.prefixlen} dev {bridge}",
        f"link set {bridge} up",
    ]


def attachment_commands(node: ClusterNode) -> list[str]:
    """Lines for `ip -batch` in the control plane's namespace: the node's cable, and the way to its pods."""
    return [
        f"link add to-{node.name} type veth peer name {layout.MANAGEMENT_INTERFACE} netns {node.namespace}",
        f"link set to-{node.name} master {layout.MANAGEMENT_BRIDGE} up",
        f"route add {node.pod_cidr} via {node.management_address}",
    ]


def node_commands(node: ClusterNode) -> list[str]:
    """Lines for `ip -batch` in the node's namespace, once its cable is there."""
    interface = layout.MANAGEMENT_INTERFACE
    lines = [
        "link set lo up",
        f"addr add {node.management_address}/{layout.MANAGEMENT.prefixlen} dev {interface}",
        f"link set {interface} up",
        # Processes of the host need a route to a service address before its translation: routing comes first.
        f"route add {layout.SERVICES} via {layout.CONTROL_PLANE_ADDRESS} dev {interface}",
    ]
    lines += [f"route add {other.pod_cidr} via {other.management_address}" for other in NODES if other is not node]
    if node.is_transfer_node:
        for link in DATA_LINKS:
            lines += _data_interface(node, link)
        via = DATA_LINKS[-1]
        others = [other for other in TRANSFER_NODES if other is not node]
        lines += [f"route add {other.bridged_pods} via {other.data_address(via).ip} dev {via.interface}" for other in others]
    return lines


def _data_interface(node: ClusterNode, link: DataLink) -> list[str]:
    name = link.interface
    return [
        # Persistent, so that the address exists before the emulator attaches and outlasts its restart.
        f"tuntap add dev {name} mode {'tap' if link.ethernet else 'tun'}",
        f"link set {name} mtu {layout.DATA_MTU}",
        f"addr add {node.data_address(link)} dev {name}",
        f"link set {name} up",
    ]


def set_carrier(node: ClusterNode, link: DataLink, *, up: bool) -> None:
    """Plug a data interface's cable in or pull it; the emulator must be attached."""
    shell.run(["ip", "-n", node.namespace, "link", "set", "dev", link.interface, "carrier", "on" if up else "off"])


def existing() -> list[str]:
    """The namespaces of the cluster that exist now: exactly its own names, never others that begin alike."""
    return [layout.namespace(box) for box in layout.BOXES if (NAMESPACES / layout.namespace(box)).exists()]


def create(record: Path) -> None:
    """Make all namespaces; `record` remembers what of /run/netns was not there before."""
    if not record.exists():
        record.write_text(json.dumps({"folder": not NAMESPACES.exists()}))
    for box in layout.BOXES:
        shell.run(["ip", "netns", "add", layout.namespace(box)])
    tuned = {node.name for node in layout.TRANSFER_NODES}
    for box in layout.BOXES:
        tuning = {**FORWARDING, **(TRANSFER_TUNING if box in tuned else {})}
        shell.run(inside(box, ["sysctl", "-qw", *(f"{name}={value}" for name, value in tuning.items())]))
    _batch(layout.CONTROL_PLANE, control_plane_commands())
    for node in NODES:
        _batch(layout.CONTROL_PLANE, attachment_commands(node)[:2])
        _batch(node.name, node_commands(node))
    _batch(layout.CONTROL_PLANE, [attachment_commands(node)[2] for node in NODES])
    for node in NODES:
        # Pods of one node that talk through a service must pass the translation rules although they share a bridge.
        # Kernels without bridge filtering have no such setting.
        shell.succeeds(inside(node.name, ["sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1"]))


def remove(record: Path) -> list[str]:
    """Remove the cluster's namespaces and return their names; also /run/netns if this cluster brought it and nobody else uses it."""
    removed = existing()
    for name in removed:
        path = NAMESPACES / name
        # A killed `ip netns add` leaves a plain file, which `ip netns del` refuses.
        if not shell.succeeds(["ip", "netns", "del", name]):
            path.unlink(missing_ok=True)
    brought = record.exists() and json.loads(record.read_text() or "{}").get("folder")
    if brought and NAMESPACES.is_dir() and not any(NAMESPACES.iterdir()):
        shell.succeeds(["umount", NAMESPACES])
        with suppress(OSError):
            NAMESPACES.rmdir()
    record.unlink(missing_ok=True)
    return removed


def inside(box: str, command: Sequence[str | Path]) -> list[str]:
    """The command line that runs a command in a box's network only.

    Not `ip netns exec`: that mounts /sys anew and hides the control groups.
    """
    return ["nsenter", f"--net={NAMESPACES / layout.namespace(box)}", "--", *(str(word) for word in command)]


def _batch(box: str, lines: list[str]) -> None:
    shell.run(["ip", "-n", layout.namespace(box), "-batch", "-"], stdin="\n".join(lines) + "\n")
