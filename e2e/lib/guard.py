"""The node guard, turned on for a test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.lib.install import HELM_TIMEOUT
from e2e.lib.waiting import wait_until
from fairlead_dev.clients.kubectl import Kubectl
from fairlead_dev.clients.nodes import LocalCluster
from fairlead_dev.clients.release import RELEASE_NAMESPACE

TABLE = "fairlead_guard"
DAEMON_SET = "fairlead-guard"


@contextmanager
def on_nodes(cluster: LocalCluster, kubectl: Kubectl) -> Iterator[None]:
    """The chart with the guard until the block is left; its pods run on every node."""
    try:
        _upgrade(cluster, enabled=True)
        wait_until(lambda: _runs(kubectl), "the guard on every node")
        yield
    finally:
        _upgrade(cluster, enabled=False)


def packets_dropped(cluster: LocalCluster, node: str) -> int:
    """What the guard's rules on a node have dropped, since they were written last."""
    text = cluster.on(node, "nft", "list", "table", "inet", TABLE).decode()
    return sum(int(found) for found in re.findall(r"counter packets (\d+)", text))


def has_rules(cluster: LocalCluster, node: str) -> bool:
    """Whether the guard's table is on a node."""
    return TABLE in cluster.on(node, "nft", "list", "tables").decode()


def _upgrade(cluster: LocalCluster, *, enabled: bool) -> None:
    helm, chart = cluster.checkout / "build" / "bin" / "helm", cluster.checkout / "charts" / "fairlead"
    value = f"nodeGuard.enabled={str(enabled).lower()}"
    where = ("--namespace", RELEASE_NAMESPACE, "--reuse-values", "--wait", "--timeout", HELM_TIMEOUT)
    cluster.inside(str(helm), "upgrade", "fairlead", str(chart), *where, "--set", value)


def _runs(kubectl: Kubectl) -> bool:
    found = kubectl.get("daemonset", DAEMON_SET, namespace=RELEASE_NAMESPACE)
    if found is None:
        return False
    status = found.get("status", {})
    wanted, ready = int(status.get("desiredNumberScheduled", 0)), int(status.get("numberReady", 0))
    return 0 < wanted == ready
