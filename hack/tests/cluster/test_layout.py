from __future__ import annotations

from ipaddress import IPv4Network
from itertools import combinations
from pathlib import Path

import pytest

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.layout import NODES, Layout, WanSettings
from fairlead_dev.errors import CommandUsageError

BENCHMARKING = IPv4Network("198.18.0.0/15")
NETWORKS = (layout.MANAGEMENT, layout.PODS, layout.SERVICES, *(link.network for link in layout.DATA_LINKS), layout.BRIDGED_PODS)


def test_every_network_lies_in_the_benchmarking_range() -> None:
    for network in NETWORKS:
        assert network.subnet_of(BENCHMARKING)


def test_no_two_networks_overlap() -> None:
    for one, other in combinations(NETWORKS, 2):
        assert not one.overlaps(other)


def test_nodes_have_distinct_addresses_inside_their_networks() -> None:
    management = [node.management_address for node in NODES]
    assert len({*management, layout.CONTROL_PLANE_ADDRESS}) == len(NODES) + 1
    assert all(address in layout.MANAGEMENT for address in management)
    assert len({node.pod_cidr for node in NODES}) == len(NODES)
    assert all(node.pod_cidr.subnet_of(layout.PODS) for node in NODES)


def test_the_address_plan_is_the_documented_one() -> None:
    plan = {node.name: (str(node.management_address), str(node.pod_cidr)) for node in NODES}
    assert plan == {
        "mgmt": ("198.18.0.10", "198.18.64.0/24"),
        "dtn-a": ("198.18.0.11", "198.18.65.0/24"),
        "dtn-b": ("198.18.0.12", "198.18.66.0/24"),
    }
    data = {node.name: [str(node.data_address(link)) for link in layout.DATA_LINKS] for node in layout.TRANSFER_NODES}
    assert data == {"dtn-a": ["198.19.0.1/24", "198.19.1.1/24"], "dtn-b": ["198.19.0.2/24", "198.19.1.2/24"]}
    assert [str(node.bridged_pods) for node in layout.TRANSFER_NODES] == ["198.19.17.0/24", "198.19.18.0/24"]
    assert str(layout.DNS_SERVICE_ADDRESS) == "198.18.128.10"


def test_transfer_nodes_are_labelled_and_at_different_sites() -> None:
    assert [node.name for node in layout.TRANSFER_NODES] == ["dtn-a", "dtn-b"]
    assert all(node.labels["fairlead.io/dtn"] == "true" for node in layout.TRANSFER_NODES)
    assert len({node.labels["topology.kubernetes.io/zone"] for node in layout.TRANSFER_NODES}) == 2


def test_a_link_is_found_by_its_interface_or_number() -> None:
    assert [layout.link_named(name).interface for name in ("data0", "0", "data1", "1")] == ["data0", "data0", "data1", "data1"]
    with pytest.raises(CommandUsageError, match=r"--link.*'data9'.*data0, data1"):
        layout.link_named("data9")


def test_the_links_differ_in_rate_and_delay_and_the_second_carries_frames() -> None:
    first, second = layout.DATA_LINKS
    assert (first.defaults.rate, first.defaults.delay, first.ethernet) == ("200M", "30ms", False)
    assert (second.defaults.rate, second.defaults.delay, second.ethernet) == ("100M", "20ms", True)


def test_an_unknown_node_is_refused_with_the_names_of_those_that_exist() -> None:
    with pytest.raises(CommandUsageError, match=r"'dtn-c'.*mgmt, dtn-a, dtn-b"):
        layout.node_named("dtn-c")


@pytest.mark.parametrize(
    ("environment", "cache", "state"),
    [
        ({"HOME": "/home/u"}, "/home/u/.cache/fairlead", "/home/u/.cache/fairlead/cluster"),
        ({"HOME": "/home/u", "XDG_CACHE_HOME": "/var/c"}, "/var/c/fairlead", "/var/c/fairlead/cluster"),
        ({"HOME": "/home/u", "FAIRLEAD_STATE": "/srv/s"}, "/home/u/.cache/fairlead", "/srv/s"),
    ],
    ids=["home", "XDG cache", "own state"],
)
def test_paths_follow_the_environment(environment: dict[str, str], cache: str, state: str) -> None:
    paths = Layout.from_environment(environment)
    assert (paths.cache, paths.state) == (Path(cache), Path(state))


@pytest.mark.parametrize("state", ["relative/state", "/run/state"])
def test_a_state_folder_that_cannot_work_is_refused_by_name(state: str) -> None:
    with pytest.raises(CommandUsageError, match="FAIRLEAD_STATE"):
        Layout.from_environment({"HOME": "/root", "FAIRLEAD_STATE": state})


def test_the_repository_is_the_folder_with_the_dockerfile() -> None:
    assert (Layout.from_environment({"HOME": "/root"}).repository / "Dockerfile").is_file()


def test_wan_settings_become_the_emulators_options() -> None:
    settings = WanSettings(rate="100M", delay="5ms", buffer="64kB", loss="0.01", corrupt="0.001")
    asked = ["--rate", "100M", "--delay", "5ms", "--buffer", "64kB", "--loss", "0.01"]
    assert settings.arguments() == [*asked, "--reorder", "0", "--corrupt", "0.001"]
