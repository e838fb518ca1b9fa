"""The running local cluster as the demo, benches and tests use it, as far as it can be known without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.clients.kubectl import CommandError
from fairlead_dev.clients.volumes import Disk
from fairlead_dev.cluster.client import LocalCluster, bytes_carried, network_namespace
from fairlead_dev.trees.plan import plain_tree

STATS = {
    "a": {"namespace": "/run/netns/fairlead-dtn-a", "device": "data0"},
    "b": {"namespace": "/run/netns/fairlead-dtn-b", "device": "data0"},
    "ab": {"bytes_out": 700},
    "ba": {"bytes_out": 30},
}


@pytest.mark.parametrize(("source", "destination", "expected"), [("dtn-a", "dtn-b", 700), ("dtn-b", "dtn-a", 30)])
def test_each_directions_bytes_are_its_own(source: str, destination: str, expected: int) -> None:
    assert bytes_carried(STATS, source, destination) == expected


def test_a_link_between_other_nodes_is_an_error() -> None:
    with pytest.raises(KeyError, match="mgmt"):
        bytes_carried(STATS, "dtn-a", "mgmt")


def test_a_nodes_network_namespace_is_that_of_its_end_of_the_link() -> None:
    assert network_namespace(STATS, "dtn-b") == "/run/netns/fairlead-dtn-b"
    with pytest.raises(KeyError, match="mgmt"):
        network_namespace(STATS, "mgmt")


@pytest.fixture
def absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalCluster:
    """A cluster that was never started."""
    monkeypatch.setenv("FAIRLEAD_STATE", str(tmp_path))
    return LocalCluster(CHECKOUT)


@pytest.mark.parametrize(
    "use",
    [
        lambda cluster: cluster.on("dtn-a", "true"),
        lambda cluster: cluster.on("cp", "true"),
        lambda cluster: cluster.inside("true"),
        lambda cluster: cluster.disk("dtn-a", "scratch"),
        lambda cluster: cluster.remove_disk("dtn-a", "scratch"),
        lambda cluster: cluster.write_tree(Disk("dtn-a", "scratch", "/scratch"), "run42", plain_tree(1, 1)),
        lambda cluster: cluster.wan_stats(),
        lambda cluster: cluster.link_changed("data0", delay="200ms").__enter__(),
        lambda cluster: cluster.daemon_killed("dtn-a", "kubelet").__enter__(),
        lambda cluster: cluster.daemon_frozen("cp", "etcd").__enter__(),
        lambda cluster: cluster.power_cut("dtn-a").__enter__(),
        lambda cluster: cluster.disk_slowed(Disk("dtn-a", "scratch", "/scratch"), 1000).__enter__(),
        lambda cluster: cluster.network_namespace("dtn-a"),
    ],
    ids=[
        *("on", "on the control plane", "inside", "disk", "remove_disk", "write_tree", "wan_stats"),
        *("link_changed", "daemon_killed", "daemon_frozen", "power_cut", "disk_slowed", "network_namespace"),
    ],
)
def test_without_a_cluster_the_error_has_the_remedy(absent: LocalCluster, use: Callable[[LocalCluster], object]) -> None:
    with pytest.raises(CommandError, match=r"start (it|the cluster) with `hack/cluster/cluster up`"):
        use(absent)


def test_a_node_that_is_none_is_an_error_with_the_names(absent: LocalCluster) -> None:
    with pytest.raises(CommandError, match="dtn-a"):
        absent.on("dtn-z", "true")
