"""Kueue by its own chart, from its Go module, with the program that was built here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from fairlead_dev.clients.release import OPERATOR_NODE
from fairlead_dev.cluster import layout
from fairlead_dev.cluster.artifacts.images import KUEUE_IMAGES
from fairlead_dev.cluster.kubernetes.modules import module_folder

NAMESPACE: Final = "kueue-system"
DEPLOYMENT: Final = "kueue-controller-manager"
NODE: Final = OPERATOR_NODE
"""The transfer nodes are for transfers."""
OWN_KINDS: Final = ("workloads", "localqueues", "clusterqueues", "resourceflavors")
"""Whose objects Kueue itself must let go, in this order."""
FIRST_TO_GO: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "APIService")
"""Without Kueue these would keep the API server from answering."""
_GROUP: Final = "kueue.x-k8s.io"
_MODULE: Final = "sigs.k8s.io/kueue"
_USER: Final = 65532


def template_command(helm: Path) -> list[str | Path]:
    """The command that renders Kueue's chart with the values on standard input."""
    chart = module_folder(_MODULE, "kueue") / "charts" / "kueue"
    release = layout.KUBERNETES_VERSION.removeprefix("v")
    return [helm, "template", "kueue", chart, "--namespace", NAMESPACE, "--include-crds", "--kube-version", release, "--values", "-"]


def values() -> dict[str, Any]:
    """Kueue as its chart configures it, here."""
    repository, _, tag = KUEUE_IMAGES["kueue"].rpartition(":")
    return {
        "controllerManager": {
            "manager": {
                "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
                "podSecurityContext": {"runAsNonRoot": True, "runAsUser": _USER, "seccompProfile": {"type": "RuntimeDefault"}},
                # The node's resources are the transfers'.
                "resources": {"requests": {"cpu": "50m", "memory": "100Mi"}, "limits": {"memory": "512Mi"}},
            },
            "readinessProbe": {"initialDelaySeconds": 1},
            "nodeSelector": {"kubernetes.io/hostname": NODE},
        },
    }


def objects(rendered: str) -> list[dict[str, Any]]:
    """What the chart makes, its definitions first."""
    found = [each for each in yaml.safe_load_all(rendered) if each]
    for each in found:
        if each["kind"] == "Deployment":
            for container in each["spec"]["template"]["spec"]["containers"]:
                # An image has one program, at a path that is not the one the chart expects.
                container["command"] = ["/program"]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return [namespace, *sorted(found, key=lambda each: not is_definition(each))]


def is_definition(body: dict[str, Any]) -> bool:
    """Whether it is a CustomResourceDefinition."""
    return bool(body["kind"] == "CustomResourceDefinition")


def own_resources() -> list[str]:
    """The kinds of OWN_KINDS as kubectl names them."""
    return [f"{kind}.{_GROUP}" for kind in OWN_KINDS]


def in_order_of_removal(bodies: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What calls Kueue first."""
    return sorted(bodies, key=lambda each: each["kind"] not in FIRST_TO_GO)


def probe() -> dict[str, Any]:
    """An object that the API server takes only once Kueue's webhooks answer."""
    return {"apiVersion": f"{_GROUP}/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "probe"}}
