"""Installs the chart as a user would, with the images under test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from e2e.lib.tutorial import COMMANDS, PAGE, steps
from e2e.lib.waiting import PATIENCE_S
from fairlead_dev.clients.release import OPERATOR_NODE, PARTS, RELEASE, RELEASE_NAMESPACE
from fairlead_dev.cluster.client import LocalCluster

HELM_TIMEOUT = f"{PATIENCE_S:g}s"
TAG = "dev"
"""Of the images under test."""


def chart_values(namespaces: Iterable[str], run_id: str, more: Mapping[str, Any], tag: str = TAG) -> dict[str, Any]:
    """Values for the local cluster: its images, the operator's node, who may use the host network, and `more` top-level ones."""
    return {
        "images": {part: {"repository": f"localhost/fairlead-{part}", "tag": tag} for part in PARTS},
        "hostNetwork": {"namespaces": sorted(namespaces)},
        "nodeSelector": {"kubernetes.io/hostname": OPERATOR_NODE},
        # Ten tests at a time have more movers on a node of two processors than fit with the chart's own requests.
        "movers": {
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
            # Three times the chart's own, for a slow machine; less than PATIENCE_S, so that a mover that hangs is replaced in time.
            "startupTimeoutSeconds": 360,
        },
        # The images' tag never changes here, so only a new annotation makes Kubernetes start the image under test.
        "podAnnotations": {"fairlead.io/test-run": run_id},
        **more,
    }


def chart_of(cluster: LocalCluster) -> Path:
    """The chart under test."""
    return cluster.checkout / "charts" / "fairlead"


def helm(cluster: LocalCluster, *words: str, timeout_s: float = 600) -> str:
    """What helm prints of the release's namespace. Raises CommandError."""
    program = str(cluster.checkout / "build" / "bin" / "helm")
    return cluster.inside(program, *words, "--namespace", RELEASE_NAMESPACE, timeout_s=timeout_s).decode()


def is_installed(cluster: LocalCluster) -> bool:
    """Whether there is a release, whatever became of it."""
    return bool(helm(cluster, "list", "--all", "--short", "--filter", f"^{RELEASE}$").strip())


def install_as_in_the_tutorial(cluster: LocalCluster) -> None:
    """Runs the tutorial's `helm install`, where no release is there already."""
    if is_installed(cluster):
        return
    command = steps(PAGE.read_text(), COMMANDS)[0].command
    cluster.inside("bash", "-c", f"cd {cluster.checkout} && {command}")


def install(
    cluster: LocalCluster,
    namespaces: Iterable[str],
    run_id: str,
    folder: Path,
    more: Mapping[str, Any],
    chart: Path | None = None,
    tag: str = TAG,
) -> None:
    """`helm upgrade --install` and wait until the operator is ready; `chart` and `tag` name others. `folder` keeps the values."""
    folder.mkdir(parents=True, exist_ok=True)
    values = folder / "values.json"
    values.write_text(json.dumps(chart_values(namespaces, run_id, more, tag), indent=2))
    # What a failed upgrade has made would belong to no release, and stay.
    waiting = ("--cleanup-on-fail", "--wait", "--timeout", HELM_TIMEOUT)
    helm(cluster, "upgrade", "--install", RELEASE, str(chart or chart_of(cluster)), "--create-namespace", *waiting, "-f", str(values))


def uninstall(cluster: LocalCluster) -> None:
    """`helm uninstall`, where there is a release. Returns once all is gone that goes."""
    if is_installed(cluster):
        helm(cluster, "uninstall", RELEASE, "--wait", "--timeout", "10m", timeout_s=900)
