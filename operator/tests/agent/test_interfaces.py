"""What interfaces are, from recorded trees: what a virtual one lacks is unknown, and junk is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from host_trees import BOND, MELLANOX, VIRTUAL, tree

from fairlead.agent.files import HostFiles
from fairlead.agent.interfaces import counters_of, interface_of, interfaces_of, listed_names
from fairlead.agent.links import Function, Link
from fairlead.api.datatransfernode.status import MOST_ADDRESSES, MOST_FUNCTIONS

UP = {"is_up": True, "has_carrier": True, "mtu": 9000}


def shown(files: HostFiles, name: str, management: tuple[str, ...] = (), **link: Any) -> dict[str, Any]:
    return interface_of(files, Link(name, **{**UP, **link}), management).to_object()


def test_a_device_with_virtual_functions(tmp_path: Path) -> None:
    files = tree(tmp_path, MELLANOX)
    functions = (Function(1, 0), Function(0, 25000))
    assert shown(files, "ens1f0np0", qdisc="mq", addresses=("198.18.0.1/24", "2001:db8::1/64"), functions=functions) == {
        "name": "ens1f0np0",
        "driver": "mlx5_core",
        "rate": "100G",
        "mtu": 9000,
        "addresses": ["198.18.0.1/24", "2001:db8::1/64"],
        "numaNode": 1,
        "pciAddress": "0000:3b:00.0",
        "carrier": True,
        "management": False,
        "qdisc": "mq",
        "virtualFunctions": [{"index": 0, "maximumRate": "25G"}, {"index": 1}],
    }


def test_a_device_without_a_link_has_no_speed(tmp_path: Path) -> None:
    found = shown(tree(tmp_path, MELLANOX), "ens1f1np1", has_carrier=False)
    assert (found.get("rate"), found["carrier"], found["numaNode"]) == (None, False, 1)


def test_a_virtual_function_is_a_device_of_its_own(tmp_path: Path) -> None:
    found = shown(tree(tmp_path, MELLANOX), "ens1f0v0")
    assert (found["rate"], found["pciAddress"], found["driver"]) == ("25G", "0000:3b:00.2", "mlx5_core")


@pytest.mark.parametrize(("name", "kind"), [("bond0", "bond"), ("bond0.100", "vlan")])
def test_a_bond_and_a_vlan_are_on_the_numa_node_of_what_is_below(tmp_path: Path, name: str, kind: str) -> None:
    found = shown(tree(tmp_path, BOND), name, kind=kind)
    assert (found["kind"], found["rate"], found["numaNode"], found.get("pciAddress"), found.get("driver")) == (kind, "200G", 1, None, None)


def test_a_bond_over_two_numa_nodes_is_on_none(tmp_path: Path) -> None:
    files = tree(tmp_path, {**BOND, "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/numa_node": "0\n"})
    assert "numaNode" not in shown(files, "bond0", kind="bond")


@pytest.mark.parametrize("name", ["bond0", "bond0.100"])
@pytest.mark.parametrize(
    ("mode", "policy", "members", "expected"),
    [
        ("802.3ad 4", "layer3+4 1", "ens1f0np0 ens1f1np1", {"members": 2, "hashPolicy": "layer3+4"}),
        ("balance-xor 2", "layer2 0", "ens1f0np0 ens1f1np1", {"members": 2, "hashPolicy": "layer2"}),
        ("balance-rr 0", "layer2 0", "ens1f0np0 ens1f1np1", {"members": 2}),
        ("active-backup 1", "layer2 0", "ens1f0np0 ens1f1np1", {"members": 1}),
        ("802.3ad 4", "", "ens1f0np0", {"members": 1}),
        ("802.3ad 4", "layer2 0", "", None),
        ("802.3ad 4", "layer2 0", "x " * 65, None),
        ("", "layer2 0", "ens1f0np0", None),
    ],
)
def test_a_bond_tells_over_how_many_members_it_spreads_what_it_sends(
    tmp_path: Path, name: str, mode: str, policy: str, members: str, expected: dict[str, Any] | None
) -> None:
    folder = "sys/devices/virtual/net/bond0/bonding"
    bond = {f"{folder}/mode": mode, f"{folder}/xmit_hash_policy": policy, f"{folder}/slaves": members}
    found = shown(tree(tmp_path, BOND, bond), name).get("bond")
    assert found == (None if expected is None else {"name": "bond0", **expected})


def test_an_interface_over_several_others_is_no_bond(tmp_path: Path) -> None:
    files = tree(tmp_path, BOND)
    assert "bond" not in shown(files, "bond0")
    assert "bond" not in shown(files, "ens1f0np0")


def test_interfaces_that_lie_in_a_circle_are_no_trap(tmp_path: Path) -> None:
    files = tree(tmp_path, BOND, {"sys/devices/virtual/net/bond0/lower_bond0.100": "-> sys/devices/virtual/net/bond0.100"})
    assert shown(files, "bond0")["name"] == "bond0"


def test_what_a_virtual_machine_does_not_know_is_absent(tmp_path: Path) -> None:
    found = shown(tree(tmp_path, VIRTUAL), "eth0", management=("192.0.2.1",), addresses=("192.0.2.1/24",))
    assert found == {
        "name": "eth0",
        "driver": "virtio_net",
        "mtu": 9000,
        "addresses": ["192.0.2.1/24"],
        "pciAddress": "0000:00:05.0",
        "carrier": True,
        "management": True,
        "virtualFunctions": [],
    }


@pytest.mark.parametrize(("name", "kind"), [("data0", "tun"), ("data0", None), ("veth12ab", "veth"), ("cni0", "bridge")])
def test_a_speed_that_its_driver_invents_is_unknown(tmp_path: Path, name: str, kind: str | None) -> None:
    assert "rate" not in shown(tree(tmp_path, VIRTUAL), name, kind=kind)


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ({"is_up": False, "has_carrier": True}, False),
        ({"is_up": True, "has_carrier": None}, None),
        ({"is_up": True, "has_carrier": False}, False),
    ],
)
def test_an_interface_that_is_down_has_no_carrier(tmp_path: Path, link: dict[str, Any], expected: bool | None) -> None:
    assert shown(tree(tmp_path, MELLANOX), "ens1f0np0", **link).get("carrier") is expected


@pytest.mark.parametrize("content", ["", "fast", "-1", "0", "99999999999", "\x00", "1e5", "½", "9" * 5000])
def test_a_speed_that_cannot_be_is_unknown(tmp_path: Path, content: str) -> None:
    files = tree(tmp_path, {"sys/class/net/odd0/speed": content})
    assert "rate" not in shown(files, "odd0")


@pytest.mark.parametrize("content", ["-1", "4096", "one", ""])
def test_a_numa_node_that_cannot_be_is_unknown(tmp_path: Path, content: str) -> None:
    files = tree(tmp_path, MELLANOX, {"sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/numa_node": content})
    assert "numaNode" not in shown(files, "ens1f0np0")


def test_an_interface_without_any_file_is_described_by_its_link_alone(tmp_path: Path) -> None:
    assert shown(HostFiles(tmp_path), "gone0") == {
        **{"name": "gone0", "mtu": 9000, "addresses": [], "carrier": True, "management": False},
        "virtualFunctions": [],
    }


def test_junk_of_a_link_is_left_out(tmp_path: Path) -> None:
    addresses = ("not an address", *(f"198.18.0.{number}/24" for number in range(40)))
    functions = tuple(Function(number, -5) for number in range(2000))
    found = shown(HostFiles(tmp_path), "odd0", kind="\x1b[2J", qdisc="q" * 99, mtu=10**9, addresses=addresses, functions=functions)
    assert "kind" not in found and "qdisc" not in found and "mtu" not in found
    assert len(found["addresses"]) == MOST_ADDRESSES
    assert found["virtualFunctions"] == [{"index": number} for number in range(MOST_FUNCTIONS)]


def test_loopback_the_ends_of_pods_and_files_are_not_looked_at(tmp_path: Path) -> None:
    files = tree(tmp_path, VIRTUAL, BOND, {"sys/class/net/odd name/mtu": "1500"})
    assert listed_names(files) == ["bond0", "bond0.100", "data0", "ens1f0np0", "ens1f0v0", "ens1f1np1", "eth0"]
    assert listed_names(HostFiles(tmp_path / "nowhere")) == []


def test_of_too_many_interfaces_those_with_addresses_are_kept(tmp_path: Path) -> None:
    links = [*(Link(f"a{number:03}", **UP) for number in range(100)), Link("z0", **UP, addresses=("198.18.0.1/24",))]
    names = [each.name for each in interfaces_of(HostFiles(tmp_path), links, ())]
    assert len(names) == 64
    assert names[-1] == "z0" and names[0] == "a000"


def test_counters_are_those_of_this_moment(tmp_path: Path) -> None:
    files = tree(tmp_path, MELLANOX)
    assert counters_of(files, "ens1f0np0") == {"transmit_bytes": 1234567890123, "receive_bytes": 987}
    (tmp_path / "sys/class/net/ens1f0np0/statistics/rx_bytes").write_text("988\n")
    assert counters_of(files, "ens1f0np0") == {"transmit_bytes": 1234567890123, "receive_bytes": 988}
    assert counters_of(files, "gone0") is None


def _interrupts(*affinities: str | None) -> dict[str, str]:
    device = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0"
    numbers = range(120, 120 + len(affinities))
    lists = {f"proc/irq/{number}/effective_affinity_list": text for number, text in zip(numbers, affinities, strict=True) if text}
    return {**{f"{device}/msi_irqs/{number}": "msix\n" for number in numbers}, **lists}


@pytest.mark.parametrize(
    ("affinities", "cpus"),
    [(("0\n", "17\n", "1-2\n"), "0-2,17"), ((), None), (("0\n", None), None), (("0\n", "all\n"), None)],
)
def test_the_interrupts_of_all_queues_count_together(tmp_path: Path, affinities: tuple[str | None, ...], cpus: str | None) -> None:
    files = tree(tmp_path, {**MELLANOX, **_interrupts(*affinities)})
    assert shown(files, "ens1f0np0").get("interruptCpus") == cpus


def test_where_a_kernel_does_not_tell_the_effective_cpu_the_wanted_ones_count(tmp_path: Path) -> None:
    trees = {path.replace("effective_affinity_list", "smp_affinity_list"): text for path, text in _interrupts("4-7\n").items()}
    assert shown(tree(tmp_path, {**MELLANOX, **trees}), "ens1f0np0")["interruptCpus"] == "4-7"
