"""Links from netlink's messages, as pyroute2 gives them, and from the kernel itself."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.agent.links import Function, Link, link_of, read_links


def message(flags: int = 0x11043, **attributes: Any) -> dict[str, Any]:
    return {"index": 7, "flags": flags, "attrs": [(f"IFLA_{name}", value) for name, value in attributes.items()]}


def address(text: str, prefix: int = 24, **more: str) -> dict[str, Any]:
    return {"prefixlen": prefix, "attrs": [("IFA_ADDRESS", text), *((f"IFA_{name}", value) for name, value in more.items())]}


def function(index: int, **attributes: Any) -> tuple[str, dict[str, Any]]:
    return ("IFLA_VF_INFO", {"attrs": [(f"IFLA_VF_{name}", {"vf": index, **value}) for name, value in attributes.items()]})


def test_a_device_as_the_kernel_describes_it() -> None:
    found = link_of(message(IFNAME="ens1f0np0", MTU=9000, QDISC="fq", CARRIER=1), [address("198.18.0.1"), address("2001:db8::1", 64)])
    assert found == Link("ens1f0np0", None, True, True, 9000, "fq", ("198.18.0.1/24", "2001:db8::1/64"))


def test_a_vlan_that_is_down() -> None:
    found = link_of(message(0x1002, IFNAME="bond0.100", CARRIER=0, LINKINFO={"attrs": [("IFLA_INFO_KIND", "vlan")]}), [])
    assert found == Link("bond0.100", "vlan", False, False)


def test_of_a_point_to_point_link_the_own_address_counts() -> None:
    assert link_of(message(IFNAME="data0"), [address("198.18.0.2", 32, LOCAL="198.18.0.1")]).addresses == ("198.18.0.1/32",)


@pytest.mark.parametrize(
    ("qdisc", "queues", "expected"),
    [("mq", ["fq", "fq"], "fq"), ("mq", ["fq", "fq_codel"], "mq"), ("mq", [], "mq"), ("fq", ["tbf"], "fq"), (None, [], None)],
)
def test_the_discipline_of_an_interface_with_several_queues_is_theirs(qdisc: str | None, queues: list[str], expected: str | None) -> None:
    attributes = {} if qdisc is None else {"QDISC": qdisc}
    assert link_of(message(IFNAME="e0", **attributes), [], queues).qdisc == expected


def test_virtual_functions_with_and_without_a_limit_and_of_an_old_kernel() -> None:
    listed = [
        function(0, MAC={"mac": "02:00:00:00:00:01"}, RATE={"min_tx_rate": 0, "max_tx_rate": 25000}, TX_RATE={"tx_rate": 25000}),
        function(1, RATE={"min_tx_rate": 0, "max_tx_rate": 0}),
        function(2, TX_RATE={"tx_rate": 1000}),
        function(3, MAC={"mac": "02:00:00:00:00:04"}),
        function(4, LINK_STATE={"link_state": 1}),
    ]
    found = link_of(message(IFNAME="e0", VFINFO_LIST={"attrs": listed}), []).functions
    assert found == (Function(0, 25000), Function(1, 0), Function(2, 1000), Function(3))


def test_the_loopback_of_this_machine_is_read_and_what_is_gone_is_left_out() -> None:
    (found,) = read_links(["lo", "not-there"])
    assert (found.name, found.is_up) == ("lo", True)
    assert "127.0.0.1/8" in found.addresses
