"""Multus on the transfer nodes: it gives pods that ask for it further interfaces beside that of the pod network."""

from __future__ import annotations

import json
from typing import Any

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.kubernetes.node_config import cni
from fairlead_dev.cluster.layout import ClusterNode, Layout

CONFIGURATION_FILE = "00-multus.conf"
"""Containerd takes the first file by name, so this one goes before the pod network's own."""

_GROUP = "k8s.cni.cncf.io"
_PLURAL = "network-attachment-definitions"


def configuration(node: ClusterNode, paths: Layout) -> str:
    """Multus in front of the pod network, which every pod gets as before."""
    config = {
        "cniVersion": "1.0.0",
        "name": "multus",
        "type": "multus",
        "kubeconfig": str(paths.kubeconfigs / "multus.conf"),
        "cniDir": "/var/lib/cni/multus",
        # Pods get definitions of their own namespace alone: otherwise any of them could join another tenant's network.
        "namespaceIsolation": True,
        "capabilities": {"portMappings": True, "bandwidth": True},
        "delegates": [json.loads(cni(node))],
    }
    return json.dumps(config, indent=1)


def objects() -> list[dict[str, Any]]:
    """The kind by which attachments are defined, and what Multus may do."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": layout.MULTUS_USER}
    rules = [
        {"apiGroups": [_GROUP], "resources": [_PLURAL], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "list", "watch", "update", "patch"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ]
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": layout.MULTUS_USER}
    rbac = "rbac.authorization.k8s.io/v1"
    return [
        _definition_kind(),
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": role["name"]}, "rules": rules},
        {"apiVersion": rbac, "kind": "ClusterRoleBinding", "metadata": {"name": role["name"]}, "roleRef": role, "subjects": [subject]},
    ]


def _definition_kind() -> dict[str, Any]:
    """The CustomResourceDefinition, as the multi-net-spec of the Network Plumbing Working Group has it."""
    names = {
        "plural": _PLURAL,
        "singular": "network-attachment-definition",
        "kind": "NetworkAttachmentDefinition",
        "shortNames": ["net-attach-def"],
    }
    spec = {"type": "object", "properties": {"config": {"type": "string"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{_PLURAL}.{_GROUP}"},
        "spec": {"group": _GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }
