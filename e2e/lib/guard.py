"""The node guard, turned on for a test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.lib.install import HELM_TIMEOUT
from e2e.lib.waiting import wait_until
from fairlead_dev.clients.kubectl import Kubectl
from fairlead_dev.clients.release import RELEASE_NAMESPACE
from fairlead_dev.cluster.client import LocalCluster

TABLE = "fairlead_guard"
DAEMON_SET = "fairlead-guard"
NAMESPACE = f"{RELEASE_NAMESPACE}-guard"
METRICS = "http://127.0.0.1:9810/metrics"


@contextmanager
def on_nodes(cluster: LocalCluster, kubectl: Kubectl) -> Iterator[None]:
    """The chart with the guard until the block is left; its pods run on every node."""
    try:
        _upgrade(cluster, enabled=True)
        wait_until(lambda: runs(kubectl), "the guard on every node")
        yield
    finally:
        _upgrade(cluster, enabled=False)


def packets_dropped(cluster: LocalCluster, node: str) -> int:
    """What was above the caps of the senders that run on a node now, by the guard's metrics."""
    text = cluster.on(node, "curl", "-sf", METRICS).decode()
    return sum(int(float(found)) for found in re.findall(r"^fairlead_guard_dropped_packets_total\{.*\} (\S+)$", text, re.MULTILINE))


def is_held_whatever_it_sends(cluster: LocalCluster, node: str) -> bool:
    """Whether the one sender on a node is held by its control group."""
    text = cluster.on(node, "curl", "-sf", METRICS).decode()
    return 'fairlead_guard_senders{by="ControlGroup"} 1.0' in text and "fairlead_guard_sender_loose{" not in text


def has_rules(cluster: LocalCluster, node: str) -> bool:
    """Whether the guard's table is on a node."""
    return TABLE in cluster.on(node, "nft", "list", "tables").decode()


def _upgrade(cluster: LocalCluster, *, enabled: bool) -> None:
    helm, chart = cluster.checkout / "build" / "bin" / "helm", cluster.checkout / "charts" / "fairlead"
    value = f"nodeGuard.enabled={str(enabled).lower()}"
    where = ("--namespace", RELEASE_NAMESPACE, "--reuse-values", "--cleanup-on-fail", "--wait", "--timeout", HELM_TIMEOUT)
    cluster.inside(str(helm), "upgrade", "fairlead", str(chart), *where, "--set", value)


def runs(kubectl: Kubectl) -> bool:
    found = kubectl.get("daemonset", DAEMON_SET, namespace=NAMESPACE)
    if found is None:
        return False
    status = found.get("status", {})
    wanted, ready = int(status.get("desiredNumberScheduled", 0)), int(status.get("numberReady", 0))
    return 0 < wanted == ready
