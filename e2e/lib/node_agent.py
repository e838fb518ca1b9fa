"""The node agent, turned on for a test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from e2e.lib import history
from e2e.lib.install import HELM_TIMEOUT
from e2e.lib.waiting import wait_until
from fairlead_dev.clients.kubectl import Kubectl
from fairlead_dev.clients.release import RELEASE, RELEASE_NAMESPACE
from fairlead_dev.cluster.client import LocalCluster

DAEMON_SET = f"{RELEASE}-node-agent"
NAMESPACE = f"{RELEASE_NAMESPACE}-guard"
PORT = 9811
STORAGE_PATH = "/srv"
"""A folder that every node has, so that the agent tells how much space is free there."""


@contextmanager
def on_transfer_nodes(cluster: LocalCluster, kubectl: Kubectl) -> Iterator[None]:
    """The chart with the agent until the block is left; it runs on the nodes that are labelled as data transfer nodes."""
    try:
        _upgrade(cluster, enabled=True)
        wait_until(lambda: _runs(kubectl), "the agent on every data transfer node")
        yield
    finally:
        _upgrade(cluster, enabled=False)
        kubectl.delete("datatransfernode", [dtn["metadata"]["name"] for dtn in kubectl.list("datatransfernode")])


def reports(kubectl: Kubectl, node: str) -> dict[str, Any] | None:
    """The DataTransferNode of a node whose agent reports; None until it does."""
    dtn = kubectl.get("datatransfernode", node)
    ready = None if dtn is None else history.condition(dtn, "Ready")
    return dtn if ready is not None and (ready["status"], ready["reason"]) == ("True", "AgentReports") else None


def described(cluster: LocalCluster, kubectl: Kubectl, node: str) -> dict[str, Any]:
    """What the agent of a node serves, as somebody on the node asks for it."""
    found = kubectl.get("node", node)
    assert found is not None
    (address,) = (each["address"] for each in found["status"]["addresses"] if each["type"] == "InternalIP")
    body: dict[str, Any] = json.loads(cluster.on(node, "curl", "-sf", f"http://{address}:{PORT}/v1/node"))
    return body


def _upgrade(cluster: LocalCluster, *, enabled: bool) -> None:
    helm, chart = cluster.checkout / "build" / "bin" / "helm", cluster.checkout / "charts" / "fairlead"
    values = ("--set", f"nodeAgent.enabled={str(enabled).lower()}", "--set", f"nodeAgent.storagePaths={{{STORAGE_PATH}}}")
    where = ("--namespace", RELEASE_NAMESPACE, "--reuse-values", "--cleanup-on-fail", "--wait", "--timeout", HELM_TIMEOUT)
    cluster.inside(str(helm), "upgrade", RELEASE, str(chart), *where, *values)


def _runs(kubectl: Kubectl) -> bool:
    found = kubectl.get("daemonset", DAEMON_SET, namespace=NAMESPACE)
    if found is None:
        return False
    status = found.get("status", {})
    wanted, ready = int(status.get("desiredNumberScheduled", 0)), int(status.get("numberReady", 0))
    return 0 < wanted == ready
