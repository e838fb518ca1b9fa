"""What an interface is, from its link and from sysfs (Documentation/ABI/testing/sysfs-class-net of the Linux kernel)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from fairlead.agent.files import HostFiles, matching
from fairlead.agent.links import Function, Link
from fairlead.api.datatransfernode.spec import LARGEST_MTU, MOST_INTERFACES, MOST_NUMA_NODES
from fairlead.api.datatransfernode.status import (
    MOST_ADDRESSES,
    MOST_FUNCTIONS,
    MOST_MEMBERS,
    AddressText,
    BondStatus,
    CpuList,
    InterfaceStatus,
    VirtualFunction,
    Word,
)
from fairlead.api.shared.fields import InterfaceName
from fairlead.api.shared.quantity import format_rate
from fairlead.core.tuning.facts import cpu_list, cpus_of

NETWORK_FOLDER: Final = "sys/class/net"
POD_NETWORK: Final = ("veth", "cni", "cali", "flannel", "lxc", "cilium", "docker", "kube")
"""How the interfaces of pod networks are called; the mover leaves the same ones out."""

_INVENTED_SPEED: Final = frozenset(
    {"tun", "tap", "veth", "bridge", "dummy", "ifb", "vxlan", "geneve", "wireguard", "gre", "gretap", "ipip", "sit", "nlmon", "netkit"}
)
"""Kinds whose driver names a speed that has nothing to do with what they carry."""
_PCI_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_MBPS: Final = 1_000_000
_FASTEST_MBPS: Final = 10_000_000
_SPREADING: Final = frozenset({"balance-rr", "balance-xor", "802.3ad", "balance-tlb", "balance-alb"})
"""Modes of bonds whose members all send (Documentation/networking/bonding.rst of the Linux kernel)."""
_HASHING: Final = frozenset({"balance-xor", "802.3ad"})
"""Those that choose a packet's member by their hash policy."""
_DEEPEST: Final = 4
"""A VLAN over a bond over a device is three deep."""


def listed_names(files: HostFiles) -> list[str]:
    """The interfaces worth a look: no loopback, no end of a pod, and no name that a field cannot hold."""
    found = (name for name in files.names(NETWORK_FOLDER) if name != "lo" and not name.startswith(POD_NETWORK))
    return [name for name in found if matching(InterfaceName, name) and files.is_folder(f"{NETWORK_FOLDER}/{name}")]


def interfaces_of(files: HostFiles, links: Iterable[Link], management: Collection[str]) -> tuple[InterfaceStatus, ...]:
    """The interfaces by name. Of more than a status holds, those with addresses are kept. `management` are the kubelet's addresses."""
    found = [interface_of(files, link, management) for link in links if matching(InterfaceName, link.name)]
    kept = sorted(found, key=lambda each: (not each.addresses, each.name))[:MOST_INTERFACES]
    return tuple(sorted(kept, key=lambda each: each.name))


def interface_of(files: HostFiles, link: Link, management: Collection[str]) -> InterfaceStatus:
    """One interface; what cannot be read, or cannot be true, is absent."""
    device = _device(files, link.name)
    pci = _pci_folder(device)
    addresses = tuple(address for address in link.addresses if matching(AddressText, address))
    return InterfaceStatus(
        name=link.name,
        kind=matching(Word, link.kind),
        driver=matching(Word, _driver(files, link.name)),
        rate=_rate(files, link),
        mtu=link.mtu if link.mtu is not None and 0 < link.mtu <= LARGEST_MTU else None,
        addresses=addresses[:MOST_ADDRESSES],
        numa_node=_numa_node(files, link.name),
        pci_address=None if pci is None else pci.name,
        carrier=link.has_carrier if link.is_up else False,
        management=any(address.partition("/")[0] in management for address in addresses),
        bond=_bond(files, link.name),
        qdisc=matching(Word, link.qdisc),
        interrupt_cpus=matching(CpuList, _interrupt_cpus(files, link.name)),
        virtual_functions=_functions(link.functions),
    )


def counters_of(files: HostFiles, name: str) -> dict[str, int] | None:
    """Bytes that the interface has sent and received since it exists; None where it is gone."""
    sent, received = (files.number(f"{NETWORK_FOLDER}/{name}/statistics/{way}_bytes") for way in ("tx", "rx"))
    return None if sent is None or received is None else {"transmit_bytes": sent, "receive_bytes": received}


def _device(files: HostFiles, name: str) -> Path | None:
    return files.target(f"{NETWORK_FOLDER}/{name}/device")


def _pci_folder(device: Path | None) -> Path | None:
    """The nearest PCI device: that of a virtio or a scalable function is above its own."""
    for folder in () if device is None else (device, *device.parents):
        if _PCI_ADDRESS.fullmatch(folder.name):
            return folder
    return None


def _driver(files: HostFiles, name: str) -> str | None:
    driver = files.target(f"{NETWORK_FOLDER}/{name}/device/driver")
    return None if driver is None else driver.name


def _rate(files: HostFiles, link: Link) -> str | None:
    if link.kind in _INVENTED_SPEED or files.text(f"{NETWORK_FOLDER}/{link.name}/tun_flags") is not None:
        return None
    mbps = files.number(f"{NETWORK_FOLDER}/{link.name}/speed")
    # A driver that does not know says -1, some of them as an unsigned number.
    return format_rate(mbps * _MBPS) if mbps is not None and 0 < mbps <= _FASTEST_MBPS else None


def _numa_node(files: HostFiles, name: str, depth: int = 0) -> int | None:
    """Of the device; of a bond or VLAN that of all the interfaces below, if they agree."""
    folder = f"{NETWORK_FOLDER}/{name}"
    own = files.number(f"{folder}/device/numa_node")
    if own is None:
        pci = _pci_folder(_device(files, name))
        own = files.number(str(pci / "numa_node")) if pci is not None else None
    if own is not None:
        return own if 0 <= own < MOST_NUMA_NODES else None
    nodes = {_numa_node(files, lower, depth + 1) for lower in _below(files, name)} if depth < _DEEPEST else set()
    return nodes.pop() if len(nodes) == 1 else None


def _below(files: HostFiles, name: str) -> list[str]:
    """The interfaces that it is made of."""
    return [entry.removeprefix("lower_") for entry in files.names(f"{NETWORK_FOLDER}/{name}") if entry.startswith("lower_")]


def _bond(files: HostFiles, name: str, depth: int = 0) -> BondStatus | None:
    """The bond that it is, or that lies below it alone."""
    folder = f"{NETWORK_FOLDER}/{name}/bonding"
    mode = next(iter(files.words(f"{folder}/mode")), None)
    if mode is None:
        below = _below(files, name)
        return _bond(files, below[0], depth + 1) if len(below) == 1 and depth < _DEEPEST else None
    members = len(files.words(f"{folder}/slaves")) if mode in _SPREADING else 1
    if not 1 <= members <= MOST_MEMBERS or matching(InterfaceName, name) is None:
        return None
    policy = next(iter(files.words(f"{folder}/xmit_hash_policy")), None) if mode in _HASHING else None
    return BondStatus(name=name, members=members, hash_policy=matching(Word, policy))


def _interrupt_cpus(files: HostFiles, name: str) -> str | None:
    """The CPUs that the device's interrupts go to, all queues together; None where it has none, or one cannot be read."""
    numbers = files.names(f"{NETWORK_FOLDER}/{name}/device/msi_irqs")
    lists = [
        files.text(f"proc/irq/{number}/effective_affinity_list") or files.text(f"proc/irq/{number}/smp_affinity_list") for number in numbers
    ]
    cpus: set[int] = set()
    for text in lists:
        found = cpus_of(text)
        if found is None:
            return None
        cpus |= found
    return cpu_list(cpus) or None


def _functions(functions: Iterable[Function]) -> tuple[VirtualFunction, ...]:
    by_index = {each.index: each for each in functions if 0 <= each.index < MOST_FUNCTIONS}
    return tuple(VirtualFunction(index=index, maximum_rate=_limit(by_index[index].maximum_mbps)) for index in sorted(by_index))


def _limit(mbps: int | None) -> str | None:
    return format_rate(mbps * _MBPS) if mbps is not None and 0 < mbps <= _FASTEST_MBPS else None
