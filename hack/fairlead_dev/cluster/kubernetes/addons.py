"""What every cluster has besides nodes: name service and storage class."""

from __future__ import annotations

from typing import Any

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.artifacts.images import COREDNS_IMAGE

STORAGE_CLASS = "fairlead-local"
DNS_DEPLOYMENT = "coredns"

_NAMESPACE = "kube-system"
_COREFILE = f""".:53 {{
  errors
  health :8080
  ready :8181
  kubernetes {layout.CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
    ttl 10
  }}
  prometheus :9153
  cache 10
  loadbalance
}}
"""


def objects() -> list[dict[str, Any]]:
    """All objects to apply."""
    return [_storage_class(), *_name_service_rights(), _name_service_configuration(), _name_service_deployment(), _name_service()]


def _storage_class() -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        # A claim is bound only when its pod is placed, so that the pod's node decides and not chance.
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _name_service_rights() -> list[dict[str, Any]]:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "fairlead:coredns"}
    resources = ["endpoints", "services", "pods", "namespaces", "endpointslices"]
    rule = {"apiGroups": ["", "discovery.k8s.io"], "resources": resources, "verbs": ["list", "watch"]}
    subject = {"kind": "ServiceAccount", "name": DNS_DEPLOYMENT, "namespace": _NAMESPACE}
    rbac = "rbac.authorization.k8s.io/v1"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata()},
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": role["name"]}, "rules": [rule]},
        {"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": role["name"]}, "roleRef": role, "subjects": [subject]},
    ]


def _name_service_configuration() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(), "data": {"Corefile": _COREFILE}}


def _name_service_deployment() -> dict[str, Any]:
    container = {
        "name": "coredns",
        "image": COREDNS_IMAGE,
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9153, "protocol": "TCP"},
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "volumeMounts": [{"name": "configuration", "mountPath": "/etc/coredns"}],
        "resources": {"requests": {"cpu": "10m", "memory": "30Mi"}},
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _labels()},
    }
    pod = {
        "serviceAccountName": DNS_DEPLOYMENT,
        "dnsPolicy": "Default",
        "priorityClassName": "system-cluster-critical",
        "tolerations": [{"operator": "Exists"}],
        "topologySpreadConstraints": [spread],
        "volumes": [{"name": "configuration", "configMap": {"name": DNS_DEPLOYMENT}}],
        "containers": [container],
    }
    template = {"metadata": {"labels": _labels()}, "spec": pod}
    spec = {"replicas": 2, "selector": {"matchLabels": _labels()}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata(), "spec": spec}


def _name_service() -> dict[str, Any]:
    ports = [{"name": name, "port": 53, "protocol": protocol} for name, protocol in (("dns", "UDP"), ("dns-tcp", "TCP"))]
    spec = {"clusterIP": str(layout.DNS_SERVICE_ADDRESS), "selector": _labels(), "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata("kube-dns"), "spec": spec}


def _labels() -> dict[str, str]:
    return {"k8s-app": "kube-dns"}


def _metadata(name: str = DNS_DEPLOYMENT) -> dict[str, Any]:
    return {"name": name, "namespace": _NAMESPACE}
