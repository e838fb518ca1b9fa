"""What is known of a data transfer node: declarations over findings, and nothing of an agent that is not believed."""

from __future__ import annotations

from datetime import datetime, timedelta
from ipaddress import ip_interface
from typing import Any

import pytest
from dtn_builders import DATA0, DATA1, ETH0, NOW, a_dtn

from fairlead.api.datatransfernode import DataTransferNode
from fairlead.api.reasons import DtnReason
from fairlead.core.dtn import MOST_AHEAD, SILENT_AFTER, NodeInterface, NodeState, NodeStorage, TransferNode, doubt_of, transfer_node_of

SILENT = {"type": "Ready", "status": "Unknown", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def carriers(node: DataTransferNode) -> list[str]:
    return [interface.name for interface in transfer_node_of(node, NOW).data_interfaces]


def test_an_interface_is_what_the_agent_found() -> None:
    node = transfer_node_of(a_dtn(DATA0, ETH0), NOW)
    assert node.interface("data0") == NodeInterface(
        "data0", 100 * 10**9, 9000, 1, (ip_interface("198.18.0.1/24"),), carrier=True, may_carry_data=True
    )
    assert node.interface("eth0") == NodeInterface(
        "eth0", 10**9, 1500, None, (ip_interface("192.0.2.1/24"),), carrier=True, is_management=True
    )
    assert node.interface("data9") is None


def test_what_is_declared_comes_before_what_was_found() -> None:
    declared = {"name": "data0", "rate": "40G", "mtu": 1500, "numaNode": 0, "network": "wan"}
    node = transfer_node_of(a_dtn(DATA0, spec={"interfaces": [declared]}), NOW)
    assert node.interfaces == (
        NodeInterface("data0", 40 * 10**9, 1500, 0, (ip_interface("198.18.0.1/24"),), carrier=True, network="wan", may_carry_data=True),
    )


def test_what_is_neither_declared_nor_found_is_unknown() -> None:
    node = transfer_node_of(a_dtn(DATA1, spec={"interfaces": [{"name": "data1"}, {"name": "data7"}]}), NOW)
    assert [(each.rate_bps, each.numa_node, each.carrier) for each in node.interfaces] == [(None, None, True), (None, None, None)]


@pytest.mark.parametrize(
    ("found", "declared", "expected"),
    [
        pytest.param([DATA1, DATA0, ETH0], [], ["data0", "data1"], id="all but the management interface"),
        pytest.param([ETH0], [], ["eth0"], id="the management interface for want of others"),
        pytest.param([{**DATA0, "carrier": False}, ETH0], [], ["eth0"], id="none without a carrier"),
        pytest.param([{**DATA0, "carrier": None}], [], ["data0"], id="one whose carrier is unknown"),
        pytest.param([{**DATA0, "kind": "bridge"}, DATA1], [], ["data1"], id="no bridge"),
        pytest.param([{**DATA0, "addresses": ["fe80::1/64", "169.254.1.1/16"]}, DATA1], [], ["data1"], id="none for its link alone"),
        pytest.param([{**DATA0, "addresses": []}, DATA1], [], ["data1"], id="none without an address"),
        pytest.param([DATA0, DATA1], [{"name": "data1"}], ["data1"], id="those that are listed alone"),
        pytest.param([DATA0, DATA1], [{"name": "data0", "data": False}], [], id="a list of none"),
        pytest.param([DATA0, ETH0], [{"name": "eth0"}], ["eth0"], id="the management interface where it is listed"),
        pytest.param([{**DATA0, "kind": "bridge"}], [{"name": "data0"}], ["data0"], id="a bridge where it is listed"),
    ],
)
def test_which_interfaces_may_carry_data(found: list[dict[str, Any]], declared: list[dict[str, Any]], expected: list[str]) -> None:
    assert carriers(a_dtn(*found, spec={"interfaces": declared})) == expected


def test_facts_of_the_node_itself() -> None:
    node = a_dtn(
        DATA0,
        spec={"site": "geneva", "slots": 3},
        kernel={"congestionControls": ["reno", "bbr", "cubic"], "allowedCongestionControls": ["reno", "bbr"]},
        storage=[{"path": "/data", "totalBytes": 100, "freeBytes": 40}],
        cpus=64,
    )
    known = transfer_node_of(node, NOW)
    assert (known.name, known.site, known.slots, known.ready, known.cpus) == ("dtn-a", "geneva", 3, True, 64)
    assert known.congestion_controls == ("reno", "bbr")
    assert known.storage == (NodeStorage("/data", 100, 40),)


@pytest.mark.parametrize(
    ("reported", "conditions", "expected"),
    [
        (NOW, [], None),
        (NOW - SILENT_AFTER, [], None),
        (NOW + MOST_AHEAD, [], None),
        (None, [], DtnReason.NEVER_REPORTED),
        (NOW - SILENT_AFTER - timedelta(seconds=1), [], DtnReason.AGENT_SILENT),
        (NOW + MOST_AHEAD + timedelta(seconds=1), [], DtnReason.CLOCK_AHEAD),
        (NOW, [{**SILENT, "reason": "SeveralAgents"}], DtnReason.SEVERAL_AGENTS),
        (NOW, [{**SILENT, "reason": "AgentSilent"}], None),
    ],
)
def test_when_a_report_is_not_used(reported: datetime | None, conditions: list[dict[str, Any]], expected: DtnReason | None) -> None:
    assert doubt_of(a_dtn(reported=reported, conditions=conditions), NOW) == expected


def test_of_a_node_whose_agent_is_silent_only_what_is_declared_is_known() -> None:
    spec = {"site": "geneva", "interfaces": [{"name": "data0", "rate": "40G"}]}
    found = {"kernel": {"allowedCongestionControls": ["bbr"]}, "storage": [{"path": "/data", "totalBytes": 9, "freeBytes": 4}], "cpus": 4}
    node = a_dtn(DATA0, DATA1, spec=spec, reported=NOW - 2 * SILENT_AFTER, **found)
    assert transfer_node_of(node, NOW) == TransferNode(
        "dtn-a", "geneva", {"own": "yes"}, interfaces=(NodeInterface("data0", 40 * 10**9, may_carry_data=True),)
    )


@pytest.mark.parametrize(
    ("kubernetes_node", "ready"),
    [
        (None, True),
        (NodeState(ready=True), True),
        (NodeState(ready=False), False),
        (NodeState(ready=True, schedulable=False), False),
    ],
)
def test_a_node_that_takes_no_pods_is_not_ready(kubernetes_node: NodeState | None, ready: bool) -> None:
    assert transfer_node_of(a_dtn(), NOW, kubernetes_node).ready is ready


def test_labels_are_those_of_the_kubernetes_node_where_they_are_known() -> None:
    assert transfer_node_of(a_dtn(), NOW).labels == {"own": "yes"}
    assert transfer_node_of(a_dtn(), NOW, NodeState(ready=True, labels={"site": "a"})).labels == {"site": "a"}


def test_a_rate_of_zero_is_unknown() -> None:
    assert transfer_node_of(a_dtn({**DATA0, "rate": "0"}), NOW).interfaces[0].rate_bps is None


def test_addresses_that_are_none_are_left_out() -> None:
    node = transfer_node_of(a_dtn({**DATA0, "addresses": ["999.1.1.1/24", "198.18.0.1/24"]}), NOW)
    assert node.interfaces[0].addresses == (ip_interface("198.18.0.1/24"),)
