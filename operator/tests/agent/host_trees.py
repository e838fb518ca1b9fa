"""Trees of sysfs and procfs as they were recorded on hosts, cut down to what is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fairlead.agent.files import HostFiles

_PCI = "sys/devices/pci0000:3a/0000:3a:00.0"

MELLANOX: Mapping[str, str] = {
    # ConnectX-6 with two virtual functions, one of which is an interface of the host; the second port has no link.
    f"{_PCI}/0000:3b:00.0/numa_node": "1\n",
    f"{_PCI}/0000:3b:00.0/driver": "-> sys/bus/pci/drivers/mlx5_core",
    f"{_PCI}/0000:3b:00.0/net/ens1f0np0/device": f"-> {_PCI}/0000:3b:00.0",
    f"{_PCI}/0000:3b:00.0/net/ens1f0np0/speed": "100000\n",
    f"{_PCI}/0000:3b:00.0/net/ens1f0np0/statistics/tx_bytes": "1234567890123\n",
    f"{_PCI}/0000:3b:00.0/net/ens1f0np0/statistics/rx_bytes": "987\n",
    f"{_PCI}/0000:3b:00.1/numa_node": "1\n",
    f"{_PCI}/0000:3b:00.1/driver": "-> sys/bus/pci/drivers/mlx5_core",
    f"{_PCI}/0000:3b:00.1/net/ens1f1np1/device": f"-> {_PCI}/0000:3b:00.1",
    f"{_PCI}/0000:3b:00.1/net/ens1f1np1/speed": "-1\n",
    f"{_PCI}/0000:3b:00.2/numa_node": "1\n",
    f"{_PCI}/0000:3b:00.2/driver": "-> sys/bus/pci/drivers/mlx5_core",
    f"{_PCI}/0000:3b:00.2/net/ens1f0v0/device": f"-> {_PCI}/0000:3b:00.2",
    f"{_PCI}/0000:3b:00.2/net/ens1f0v0/speed": "25000\n",
    "sys/bus/pci/drivers/mlx5_core/module": "",
    "sys/class/net/ens1f0np0": f"-> {_PCI}/0000:3b:00.0/net/ens1f0np0",
    "sys/class/net/ens1f1np1": f"-> {_PCI}/0000:3b:00.1/net/ens1f1np1",
    "sys/class/net/ens1f0v0": f"-> {_PCI}/0000:3b:00.2/net/ens1f0v0",
}

BOND: Mapping[str, str] = {
    # A VLAN over a bond of two ports on one NUMA node.
    **MELLANOX,
    "sys/devices/virtual/net/bond0/speed": "200000\n",
    "sys/devices/virtual/net/bond0/lower_ens1f0np0": f"-> {_PCI}/0000:3b:00.0/net/ens1f0np0",
    "sys/devices/virtual/net/bond0/lower_ens1f1np1": f"-> {_PCI}/0000:3b:00.1/net/ens1f1np1",
    "sys/devices/virtual/net/bond0.100/speed": "200000\n",
    "sys/devices/virtual/net/bond0.100/lower_bond0": "-> sys/devices/virtual/net/bond0",
    "sys/class/net/bond0": "-> sys/devices/virtual/net/bond0",
    "sys/class/net/bond0.100": "-> sys/devices/virtual/net/bond0.100",
    "sys/class/net/bonding_masters": "bond0\n",
}

VIRTUAL: Mapping[str, str] = {
    # A virtual machine with a virtio NIC, a TUN device, and the ends of pods.
    "sys/devices/pci0000:00/0000:00:05.0/numa_node": "-1\n",
    "sys/devices/pci0000:00/0000:00:05.0/virtio2/driver": "-> sys/bus/virtio/drivers/virtio_net",
    "sys/devices/pci0000:00/0000:00:05.0/virtio2/net/eth0/device": "-> sys/devices/pci0000:00/0000:00:05.0/virtio2",
    "sys/devices/pci0000:00/0000:00:05.0/virtio2/net/eth0/speed": "4294967295\n",
    "sys/bus/virtio/drivers/virtio_net/module": "",
    "sys/devices/virtual/net/data0/speed": "10\n",
    "sys/devices/virtual/net/data0/tun_flags": "0x1001\n",
    "sys/devices/virtual/net/data0/statistics/tx_bytes": "7\n",
    "sys/devices/virtual/net/data0/statistics/rx_bytes": "8\n",
    "sys/devices/virtual/net/lo/speed": "",
    "sys/devices/virtual/net/veth12ab/speed": "10000\n",
    "sys/devices/virtual/net/cni0/speed": "10000\n",
    "sys/class/net/eth0": "-> sys/devices/pci0000:00/0000:00:05.0/virtio2/net/eth0",
    "sys/class/net/data0": "-> sys/devices/virtual/net/data0",
    "sys/class/net/lo": "-> sys/devices/virtual/net/lo",
    "sys/class/net/veth12ab": "-> sys/devices/virtual/net/veth12ab",
    "sys/class/net/cni0": "-> sys/devices/virtual/net/cni0",
}

TWO_SOCKETS: Mapping[str, str] = {
    "proc/sys/kernel/osrelease": "6.12.0-101.el10.x86_64\n",
    "proc/sys/net/ipv4/tcp_available_congestion_control": "reno cubic bbr htcp\n",
    "proc/sys/net/ipv4/tcp_allowed_congestion_control": "reno cubic\n",
    "proc/sys/net/core/rmem_max": "2147483647\n",
    "proc/sys/net/core/wmem_max": "2147483647\n",
    "proc/sys/net/ipv4/tcp_rmem": "4096\t87380\t1073741824\n",
    "proc/sys/net/ipv4/tcp_wmem": "4096\t65536\t1073741824\n",
    "proc/sys/net/core/default_qdisc": "fq\n",
    "proc/loadavg": "3.21 8.00 12.40 5/1234 99999\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/cpu/online": "0-31\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpufreq/policy1/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpufreq/boost": "1\n",
    "sys/devices/system/node/node0/cpulist": "0-7,16-23\n",
    "sys/devices/system/node/node1/cpulist": "8-15,24-31\n",
    "sys/devices/system/node/online": "0-1\n",
}


def tree(root: Path, *trees: Mapping[str, str]) -> HostFiles:
    """Makes the trees below `root`. A text that begins with `-> ` is a link to that path of the tree."""
    for path, text in (entry for each in trees for entry in each.items()):
        place = root / path
        if text.startswith("-> "):
            _link(place, root / text.removeprefix("-> "))
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
    return HostFiles(root)


def _link(place: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)
