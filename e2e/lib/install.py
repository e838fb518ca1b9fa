"""Installs the chart as a user would, with the images under test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from e2e.lib.tutorial import COMMANDS, PAGE, steps
from e2e.lib.waiting import PATIENCE_S
from fairlead_dev.clients.nodes import LocalCluster
from fairlead_dev.clients.release import OPERATOR_NODE, PARTS, RELEASE, RELEASE_NAMESPACE

HELM_TIMEOUT = f"{PATIENCE_S:g}s"


def chart_values(namespaces: Iterable[str], run_id: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """Values for the local cluster: its images, the operator's node, who may use the host network, and `more` top-level ones."""
    return {
        "images": {part: {"repository": f"localhost/fairlead-{part}", "tag": "dev"} for part in PARTS},
        "hostNetwork": {"namespaces": sorted(namespaces)},
        "nodeSelector": {"kubernetes.io/hostname": OPERATOR_NODE},
        # The images' tag never changes here, so only a new annotation makes Kubernetes start the image under test.
        "podAnnotations": {"fairlead.io/test-run": run_id},
        **more,
    }


def install_as_in_the_tutorial(cluster: LocalCluster) -> None:
    """Runs the tutorial's `helm install`, where no release is there already."""
    helm = str(cluster.checkout / "build" / "bin" / "helm")
    if cluster.inside(helm, "list", "--all", "--short", "--namespace", RELEASE_NAMESPACE, "--filter", f"^{RELEASE}$").strip():
        return
    command = steps(PAGE.read_text(), COMMANDS)[0].command
    cluster.inside("bash", "-c", f"cd {cluster.checkout} && {command}")


def install(cluster: LocalCluster, namespaces: Iterable[str], run_id: str, folder: Path, more: Mapping[str, Any]) -> None:
    """`helm upgrade --install` and wait until the operator is ready. `folder` keeps the values file."""
    folder.mkdir(parents=True, exist_ok=True)
    values = folder / "values.json"
    values.write_text(json.dumps(chart_values(namespaces, run_id, more), indent=2))
    helm = str(cluster.checkout / "build" / "bin" / "helm")
    chart = str(cluster.checkout / "charts" / "fairlead")
    where = ("--namespace", RELEASE_NAMESPACE, "--create-namespace")
    cluster.inside(helm, "upgrade", "--install", RELEASE, chart, *where, "--wait", "--timeout", HELM_TIMEOUT, "-f", str(values))
