"""What is kept of a failed test: objects, events and logs, in one folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairlead_dev.clients.kubectl import CommandError, Kubectl
from fairlead_dev.clients.release import RELEASE_NAMESPACE
from fairlead_dev.clients.watch import WatchEvent

LOG_LINES = "--tail=2000"
RELEASED = ("-l", "app.kubernetes.io/name=fairlead", "--all-containers")
GUARD_NAMESPACE = f"{RELEASE_NAMESPACE}-guard"
"""Where guard and node agent are, if they are on."""
FAILED = pytest.StashKey[bool]()
"""Of a test that has failed, whose evidence is to be kept."""


def keep(folder: Path, kubectl: Kubectl, namespace: str, timelines: dict[str, Sequence[WatchEvent]]) -> None:
    """Writes everything a person needs to explain a failure into `folder`; what cannot be had is named in its place."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, arguments, where in (
        ("jobs.yaml", ("get", "transferjobs", "-o", "yaml"), namespace),
        ("pods.yaml", ("get", "pods", "-o", "yaml"), namespace),
        ("pods.txt", ("get", "pods", "-o", "wide"), namespace),
        ("claims.yaml", ("get", "persistentvolumeclaims", "-o", "yaml"), namespace),
        ("events.txt", ("get", "events", "--sort-by=.lastTimestamp"), namespace),
        ("nodes.txt", ("get", "nodes", "-o", "wide"), namespace),
        ("movers.log", ("logs", "-l", "app.kubernetes.io/component=mover", "--all-containers", "--prefix", LOG_LINES), namespace),
        ("operator.log", ("logs", *RELEASED, "--prefix", LOG_LINES), RELEASE_NAMESPACE),
        ("operator-before.log", ("logs", *RELEASED, "--prefix", LOG_LINES, "--previous"), RELEASE_NAMESPACE),
        ("operator.yaml", ("get", "pods,leases", "-o", "yaml"), RELEASE_NAMESPACE),
        ("release-events.txt", ("get", "events", "--sort-by=.lastTimestamp"), RELEASE_NAMESPACE),
        ("transfer-nodes.yaml", ("get", "datatransfernodes", "-o", "yaml"), namespace),
        ("node-programs.txt", ("get", "daemonsets,pods", "-o", "wide"), GUARD_NAMESPACE),
        ("node-programs.log", ("logs", *RELEASED, "--prefix", LOG_LINES), GUARD_NAMESPACE),
    ):
        (folder / name).write_text(_text(kubectl, arguments, where))
    for name, changes in timelines.items():
        lines = [json.dumps({"at_s": round(change.at_s, 3), "kind": change.kind, "object": change.object}) for change in changes]
        (folder / f"{name}.timeline.jsonl").write_text("\n".join(lines) + "\n")


def _text(kubectl: Kubectl, arguments: tuple[str, ...], namespace: str) -> str:
    try:
        return kubectl.run(*arguments, namespace=namespace)
    except CommandError as error:
        return f"{error}\n"
