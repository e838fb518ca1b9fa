"""The operator's Helm release: the command lines that install the chart with the images of a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

RELEASE = "fairlead"
RELEASE_NAMESPACE = "fairlead-system"
DEMO_NAMESPACE = "demo"
"""The namespace that may use the host network unless an installation sets another."""
PARTS = ("operator", "mover", "advisor")
OPERATOR_NODE = "mgmt"
"""The local cluster's node for the operator."""


SCRAPE_INTERVAL = "5s"
"""Of the local cluster's Prometheus: transfers there last a minute."""


def monitored_values(monitored: bool) -> dict[str, dict[str, Any]]:
    """Values that switch the chart's monitors, rules and boards on or off."""
    monitor = {"enabled": monitored, "interval": SCRAPE_INTERVAL}
    return {
        "podMonitor": monitor,
        "serviceMonitor": monitor,
        "prometheusRule": {"enabled": monitored},
        "dashboards": {"enabled": monitored},
    }


def monitored_arguments(monitored: bool) -> list[str]:
    """The same as options of helm."""
    fields = [(f"{name}.{key}", value) for name, each in monitored_values(monitored).items() for key, value in each.items()]
    return [word for name, value in fields for word in ("--set", f"{name}={str(value).lower()}")]


def helm_arguments(checkout: Path, repository_prefix: str, tag: str, *more: str) -> tuple[str, ...]:
    """`helm upgrade --install` as a user would type it, with images `<prefix>fairlead-<part>:<tag>`."""
    chart = str(checkout / "charts" / "fairlead")
    return (
        *("upgrade", "--install", RELEASE, chart),
        *("--namespace", RELEASE_NAMESPACE, "--create-namespace", "--wait", "--timeout", "180s"),
        *_images(repository_prefix, tag),
        *("--set", f"hostNetwork.namespaces={{{DEMO_NAMESPACE}}}"),
        *more,
    )


def reused_release_arguments(checkout: Path, repository_prefix: str, tag: str) -> tuple[str, ...]:
    """`helm upgrade` of the release that is there, to the chart and images of a checkout, with the values that its owner set."""
    chart = str(checkout / "charts" / "fairlead")
    # --reuse-values alone would lack the defaults of values that the release's own chart did not have.
    kept = ("--namespace", RELEASE_NAMESPACE, "--reset-then-reuse-values", "--wait", "--timeout", "180s")
    return ("upgrade", RELEASE, chart, *kept, *_images(repository_prefix, tag))


def local_helm_arguments(checkout: Path, stamp: str) -> tuple[str, ...]:
    """The same for the local cluster. Its images always have one tag: only a new `stamp` makes Kubernetes start those of this checkout."""
    on_node = ("--set-string", f"nodeSelector.kubernetes\\.io/hostname={OPERATOR_NODE}")
    return helm_arguments(checkout, "localhost/", "dev", *on_node, "--set-string", f"podAnnotations.fairlead\\.io/demo={stamp}")


def _images(repository_prefix: str, tag: str) -> list[str]:
    values = [value for part in PARTS for value in (f"{part}.repository={repository_prefix}fairlead-{part}", f"{part}.tag={tag}")]
    return [word for value in values for word in ("--set-string", f"images.{value}")]
