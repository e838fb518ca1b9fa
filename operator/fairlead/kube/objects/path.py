"""What is known of a path, as the flags of the sender's advisor, and the object that keeps it (docs/contracts.md, "Advisor")."""

from __future__ import annotations

import json
from typing import Any

from fairlead.api import names
from fairlead.api.networkpath import NetworkPathSpec
from fairlead.api.shared.quantity import format_rate
from fairlead.core.paths.model import KnownBackground, KnownPath, PathEnds
from fairlead.kube.client import KubeObject

_VERSION = 1


def path_options(path: KnownPath, *, probe: bool) -> list[str]:
    """Flags of the advisor: what to start from, and without a probe of its own what to take for its result."""
    options: list[str] = []
    if path.capacity_bps is not None:
        options.append(f"--path-capacity={format_rate(round(path.capacity_bps))}")
    if path.stream_coefficient is not None:
        options.append(f"--stream-coefficient={path.stream_coefficient:.6g}")
    if path.competes:
        options.append("--others-weight=0")
    elif path.shares != 1:
        options.append(f"--shares={path.shares}")
    if not probe:
        background = None if path.background is None else _background(path.background)
        known = {"version": _VERSION, "rtt_minimum_seconds": path.rtt_minimum_seconds, "background": background}
        known |= {"beside_own": True} if path.beside_own else {}
        # The kubelet expands `$(NAME)` in arguments; a doubled dollar survives it.
        options.append(f"--known-path={json.dumps(known, separators=(',', ':'))}".replace("$", "$$"))
    return options


def path_annotation(*, probe: bool) -> dict[str, str]:
    """The mark of a sender that does not probe, by which a restarted operator sees that it holds no lease."""
    return {} if probe else {names.ANNOTATION_PATH: names.PATH_KNOWN}


def network_path(ends: PathEnds, spec: NetworkPathSpec) -> KubeObject:
    """The object for a path of which both interfaces are known."""
    interfaces = ends.source_interface or "", ends.destination_interface or ""
    name = names.path_name(ends.source_node, interfaces[0], ends.destination_node, interfaces[1])
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.PATH_KIND,
        "metadata": {"name": name, "labels": {names.LABEL_NAME: names.NAME, names.LABEL_MANAGED_BY: names.MANAGER}},
        "spec": spec.to_object(),
    }


def _background(background: KnownBackground) -> dict[str, Any]:
    return {
        "probabilities": dict(background.probabilities),
        "any_bbr": background.any_bbr,
        "confidence": background.confidence,
        "abstained": background.abstained,
        "model": background.model,
        "measured_at": background.measured_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
