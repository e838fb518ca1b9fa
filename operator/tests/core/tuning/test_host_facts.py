"""What is known of a node's paths and peers."""

from __future__ import annotations

from typing import Any

import pytest
from tuning_builders import NOW, a_network_path, a_node

from fairlead.core.tuning.facts import FarEnd, MeasuredPath, NodesAndPaths, cpu_list, cpus_of

G = 10**9
DATA0 = {"name": "data0", "rate": "100G", "mtu": 9000}


def _paths(path: Any, own: dict[str, Any] | None = None, other: dict[str, Any] | None = None) -> tuple[MeasuredPath, ...]:
    a, b = a_node("dtn-a", own or DATA0), a_node("dtn-b", other or {**DATA0, "rate": "40G"})
    return NodesAndPaths([a, b], [path], NOW).facts_of(a).paths


def test_a_path_carries_what_the_slower_end_does() -> None:
    (path,) = _paths(a_network_path())
    assert path == MeasuredPath("a-b", "data0", FarEnd("dtn-b", "data0", 40 * G, 9000), sends=True, rtt_seconds=0.1, rate_bps=40 * G)


def test_a_declared_capacity_counts_where_it_is_less() -> None:
    (path,) = _paths(a_network_path(spec={"capacity": "10G"}))
    assert (path.rate_bps, path.is_declared) == (10 * G, True)
    (path,) = _paths(a_network_path(spec={"capacity": "400G"}))
    assert path.rate_bps == 40 * G


def test_where_nothing_declares_or_knows_a_rate_the_measured_one_counts() -> None:
    (path,) = _paths(a_network_path(capacity="187M"), {"name": "data0"}, {"name": "data0"})
    assert path.rate_bps == 187 * 10**6
    (path,) = _paths(a_network_path(), {"name": "data0"}, {"name": "data0"})
    assert path.rate_bps is None


def test_a_path_without_interfaces_is_as_fast_as_the_nodes_fastest() -> None:
    ends = {"source": {"node": "dtn-a"}, "destination": {"node": "dtn-b"}}
    (path,) = _paths(a_network_path(spec=ends))
    assert (path.interface, path.far, path.rate_bps) == (None, None, 40 * G)


@pytest.mark.parametrize("rtt", [None, "0ms", "1001ms", "3600000ms", "soon"])
def test_an_rtt_that_is_unknown_or_absurd_is_not_used(rtt: str | None) -> None:
    assert _paths(a_network_path(rtt=rtt)) == ()


def test_a_path_within_a_node_is_none() -> None:
    ends = {"source": {"node": "dtn-a"}, "destination": {"node": "dtn-a"}}
    assert _paths(a_network_path(spec=ends)) == ()


def test_at_its_receiving_end_a_path_begins_elsewhere() -> None:
    a, b = a_node("dtn-a", DATA0), a_node("dtn-b", DATA0)
    (path,) = NodesAndPaths([a, b], [a_network_path()], NOW).facts_of(b).paths
    assert (path.sends, path.far) == (False, FarEnd("dtn-a", "data0", 100 * G, 9000))


def test_the_mtu_is_what_was_found_beside_what_is_declared() -> None:
    node = a_node("dtn-a", {**DATA0, "mtu": 1500}, declared=[{"name": "data0", "mtu": 9000, "network": "wan"}])
    (interface,) = NodesAndPaths([node], [], NOW).facts_of(node).interfaces
    assert (interface.mtu, interface.declared_mtu, interface.network) == (1500, 9000, "wan")


def test_interfaces_that_carry_no_data_or_were_not_found_are_left_out() -> None:
    declared = [{"name": "data0"}, {"name": "backup0", "data": False}, {"name": "data7"}]
    node = a_node("dtn-a", DATA0, {"name": "backup0"}, {"name": "eth0"}, declared=declared)
    assert [each.name for each in NodesAndPaths([node], [], NOW).facts_of(node).interfaces] == ["data0"]


def test_of_a_network_the_largest_mtu_is_known() -> None:
    nodes = [a_node(f"dtn-{mtu}", {**DATA0, "mtu": mtu}, declared=[{"name": "data0", "network": "wan"}]) for mtu in (1500, 9000, 8900)]
    largest = NodesAndPaths(nodes, [], NOW).facts_of(nodes[0]).largest_mtu
    assert largest == {"wan": FarEnd("dtn-9000", "data0", 100 * G, 9000)}


def test_numa_nodes_and_interrupts_are_sets_of_cpus() -> None:
    node = a_node("dtn-a", {**DATA0, "interruptCpus": "0,8-9"}, numaNodes=[{"number": 1, "cpus": "8-11"}, {"number": 2, "cpus": ""}])
    facts = NodesAndPaths([node], [], NOW).facts_of(node)
    assert facts.numa_cpus == {1: frozenset({8, 9, 10, 11})}
    assert facts.interfaces[0].interrupt_cpus == frozenset({0, 8, 9})


@pytest.mark.parametrize(("cpus", "text"), [((0, 1, 2, 8), "0-2,8"), ((), ""), ((5,), "5"), ((3, 1), "1,3")])
def test_cpus_are_written_as_the_kernel_does(cpus: tuple[int, ...], text: str) -> None:
    assert cpu_list(cpus) == text


def test_a_list_of_more_cpus_than_any_node_has_is_not_used() -> None:
    """A list of the longest text that a status holds would name twelve million, for each of 128 fields."""
    assert cpus_of("0-3,8") == frozenset({0, 1, 2, 3, 8})
    assert cpus_of(",".join(["0-65535"] * 128)) is None
    assert cpus_of("0-99999") is None
