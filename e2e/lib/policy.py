"""A FairnessPolicy for the time of a test, and what the operator's metrics say of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from e2e.lib.manifests import SOURCE_NODE
from e2e.lib.waiting import wait_until
from fairlead_dev.clients.kubectl import Kubectl, Object
from fairlead_dev.clients.release import OPERATOR_NODE, RELEASE_NAMESPACE
from fairlead_dev.cluster.client import LocalCluster

NAME = "e2e"
LINK, SECOND_LINK = "dtn-a-out", "dtn-a-out-1"
METRICS_PORT = 9090
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def rate_bps(text: str) -> float:
    """A rate as the status writes it, like `20M`, in bits per second."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kMGT]?)", text)
    if found is None:
        raise ValueError(f"{text!r} is no rate")
    return float(found[1]) * _UNITS[found[2]]


def policy(capacity: str, weights: Mapping[str, int], second_capacity: str | None = None) -> Object:
    """A policy over what the source node sends by data0, and by data1 if that has a capacity; each namespace of `weights` is a tenant of
    its own name."""
    tenants = [
        {"name": namespace, "weight": weight, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
        for namespace, weight in weights.items()
    ]
    links = [_link(LINK, "data0", capacity)]
    if second_capacity is not None:
        links.append(_link(SECOND_LINK, "data1", second_capacity))
    return {
        "apiVersion": "fairlead.io/v1alpha1",
        "kind": "FairnessPolicy",
        "metadata": {"name": NAME},
        "spec": {"links": links, "tenants": tenants},
    }


def _link(name: str, interface: str, capacity: str) -> Object:
    sends = {"node": SOURCE_NODE, "name": interface, "direction": "Transmit"}
    return {"name": name, "interfaces": [sends], "capacity": capacity, "headroom": "0"}


@contextmanager
def in_force(kubectl: Kubectl, capacity: str, weights: Mapping[str, int], second_capacity: str | None = None) -> Iterator[None]:
    """The policy, accepted, until the block is left."""
    try:
        kubectl.apply(policy(capacity, weights, second_capacity))
        wait_until(lambda: _is_accepted(status(kubectl)), "the policy in force")
        yield
    finally:
        kubectl.delete("fairnesspolicy", [NAME])


def status(kubectl: Kubectl) -> Object:
    """The policy's status, empty before the first."""
    found = kubectl.get("fairnesspolicy", NAME)
    return {} if found is None else dict(found.get("status", {}))


def metrics(cluster: LocalCluster, kubectl: Kubectl) -> dict[str, float]:
    """The operator's metrics, by name with labels as they are printed."""
    lines = (line.rpartition(" ") for line in metrics_page(cluster, kubectl).splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def metrics_page(cluster: LocalCluster, kubectl: Kubectl) -> str:
    """The operator's metrics as it serves them."""
    pods = kubectl.list("pods", namespace=RELEASE_NAMESPACE, selector="app.kubernetes.io/component=operator")
    up = [pod for pod in pods if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")]
    address = up[0]["status"]["podIP"]
    script = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())"
    return cluster.on(OPERATOR_NODE, "python3", "-c", script, f"http://{address}:{METRICS_PORT}/metrics").decode()


def _is_accepted(policy_status: Object) -> bool:
    return any(condition["type"] == "Accepted" and condition["status"] == "True" for condition in policy_status.get("conditions", []))
