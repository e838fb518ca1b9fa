"""The Prometheus operator and one Prometheus, which takes up the monitors and rules of all namespaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from fairlead_dev.clients.release import OPERATOR_NODE
from fairlead_dev.cluster import layout
from fairlead_dev.cluster.artifacts.images import MONITORING_IMAGES
from fairlead_dev.cluster.kubernetes.modules import module_folder

NAMESPACE: Final = "monitoring"
SERVICE: Final = "prometheus"
PORT: Final = 9090
NODE: Final = OPERATOR_NODE
"""Both run here: the transfer nodes are for transfers."""
EVALUATION_INTERVAL: Final = "5s"

GROUP: Final = "monitoring.coreos.com"
KINDS: Final = tuple(
    f"{plural}.{GROUP}"
    for plural in (
        "alertmanagerconfigs",
        "alertmanagers",
        "podmonitors",
        "probes",
        "prometheusagents",
        "prometheuses",
        "prometheusrules",
        "scrapeconfigs",
        "servicemonitors",
        "thanosrulers",
    )
)
_OPERATOR: Final = "prometheus-operator"
_MODULE: Final = "github.com/prometheus-operator/prometheus-operator"
_RBAC: Final = "rbac.authorization.k8s.io/v1"
_USER: Final = 65534


def operator_files() -> list[Path]:
    """The definitions of the operator's ten kinds, and its ClusterRole, in its Go module; fetched where the module cache lacks it."""
    examples = module_folder(_MODULE, "monitoring") / "example"
    return [examples / "prometheus-operator-crd", examples / "rbac" / "prometheus-operator" / "prometheus-operator-cluster-role.yaml"]


def objects() -> list[dict[str, Any]]:
    """All objects to apply after the operator's own files."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        *_account(_OPERATOR),
        _operator_deployment(),
        _discovery_role(),
        *_account(SERVICE),
        _service(),
        _prometheus(),
    ]


def cluster_objects() -> list[str]:
    """What deletion of the namespace leaves, as kubectl names it."""
    return [f"{kind}/{name}" for kind in ("clusterrole", "clusterrolebinding") for name in (_OPERATOR, SERVICE)]


def _account(name: str) -> list[dict[str, Any]]:
    """A ServiceAccount with the rights of the ClusterRole of its name."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}},
        {"apiVersion": _RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name}, "roleRef": role, "subjects": [subject]},
    ]


def _discovery_role() -> dict[str, Any]:
    rules = [
        {"apiGroups": [""], "resources": ["pods", "services", "endpoints"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]},
    ]
    return {"apiVersion": _RBAC, "kind": "ClusterRole", "metadata": {"name": SERVICE}, "rules": rules}


def _operator_deployment() -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": _OPERATOR}
    container = {
        "name": _OPERATOR,
        "image": MONITORING_IMAGES[_OPERATOR],
        "imagePullPolicy": "Never",
        "args": [
            f"--prometheus-config-reloader={MONITORING_IMAGES['prometheus-config-reloader']}",
            # The node's resources are the transfers'.
            "--config-reloader-cpu-request=0",
            "--config-reloader-cpu-limit=0",
            "--config-reloader-memory-request=0",
            "--config-reloader-memory-limit=0",
            "--localhost=127.0.0.1",
        ],
        "ports": [{"name": "http", "containerPort": 8080}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True},
        "resources": {"requests": {"cpu": "10m", "memory": "50Mi"}},
    }
    pod = {
        "serviceAccountName": _OPERATOR,
        "nodeSelector": {"kubernetes.io/hostname": NODE},
        "securityContext": {"runAsNonRoot": True, "runAsUser": _USER},
        "containers": [container],
    }
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": _OPERATOR, "namespace": NAMESPACE}, "spec": spec}


def _service() -> dict[str, Any]:
    ports = [{"name": "web", "port": PORT, "targetPort": "web"}]
    spec = {"selector": {"operator.prometheus.io/name": SERVICE}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": NAMESPACE}, "spec": spec}


def _prometheus() -> dict[str, Any]:
    everywhere: dict[str, Any] = {}
    for what in ("podMonitor", "serviceMonitor", "rule"):
        everywhere |= {f"{what}Selector": {}, f"{what}NamespaceSelector": {}}
    # An image has one program, at a path that is not the one the operator expects.
    reloader = {"command": ["/program"]}
    spec = {
        **everywhere,
        # Module v0.312.0 is release 3.12.0.
        "version": _release(layout.PROMETHEUS_VERSION),
        "image": MONITORING_IMAGES["prometheus"],
        "imagePullPolicy": "Never",
        "replicas": 1,
        "serviceAccountName": SERVICE,
        "nodeSelector": {"kubernetes.io/hostname": NODE},
        "securityContext": {"runAsNonRoot": True, "runAsUser": _USER, "fsGroup": _USER},
        "evaluationInterval": EVALUATION_INTERVAL,
        "resources": {"requests": {"cpu": "50m", "memory": "100Mi"}},
        "containers": [{"name": "config-reloader", **reloader}],
        "initContainers": [{"name": "init-config-reloader", **reloader}],
    }
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Prometheus",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": spec,
    }


def _release(module_version: str) -> str:
    """The release that a version of Prometheus' Go module is: its second number is the release's first and, in two digits, second."""
    _, number, patch = module_version.removeprefix("v").split(".")
    return f"v{number[:-2]}.{int(number[-2:])}.{patch}"
