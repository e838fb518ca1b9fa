"""The node guard follows what a real API server shows of its node's senders and of the jobs that own them, with its own rights."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from control_plane import CHECKOUT, ControlPlane, find_programs
from kubelet import FakeNodes
from lab import PATIENCE_SECONDS, Kubectl, Lab, eventually, read_documents

from fairlead.api import names
from fairlead.guard.holds import Holds
from fairlead.guard.loop import Guard
from fairlead.guard.main import NodePods
from fairlead.kube.client import JOBS, PODS, KubeObject, load_configuration

USER = "system:serviceaccount:fairlead-system-guard:fairlead-guard"
ROLE_KINDS = ("Namespace", "ClusterRole", "ClusterRoleBinding", "ServiceAccount")


@pytest.fixture
def role(cluster: None, kubectl: Kubectl) -> dict[str, Any]:
    """What the chart gives the guard, installed; returns its role."""
    helm = (str(find_programs()["helm"]), "template", "fairlead", str(CHECKOUT / "charts" / "fairlead"))
    words = (
        *helm,
        "--namespace",
        "fairlead-system",
        "--kube-version",
        "1.34.0",
        "--set",
        "nodeGuard.enabled=true",
        "-s",
        "templates/node-guard.yaml",
    )
    rendered = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    documents = [document for document in read_documents(rendered) if document["kind"] in ROLE_KINDS]
    kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))
    role = next(document for document in documents if document["kind"] == "ClusterRole")
    rights = [
        (verb, ".".join(filter(None, (resource, rule["apiGroups"][0]))))
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(kubectl("auth", "can-i", *right, "-A", f"--as={USER}", check=False).returncode for right in rights):
        assert time.monotonic() < deadline, "the API server does not know of the guard's rights"
    return role


@contextlib.asynccontextmanager
async def guarding(kubeconfig: Path, installed: list[str]) -> AsyncIterator[Holds]:
    """A guard on dtn-a whose rules go into a list."""

    async def install(script: str) -> None:
        installed.append(script)

    holds = Holds(programs=None, classes=None, install=install, check=install)
    pods = NodePods(await load_configuration(kubeconfig), "dtn-a")
    guard = asyncio.create_task(Guard(pods=pods.now, changes=pods.changes, jobs=pods.job, holds=holds).run())
    try:
        yield holds
    finally:
        guard.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await guard
        await pods.close()


async def eventually_caps(holds: Holds, pod: KubeObject, cap_bps: int | None) -> None:
    """Waits until the guard holds a sender to a cap, or does not hold it."""
    uid = pod["metadata"]["uid"]

    async def found() -> bool:
        return (holds.now[uid].cap_bps if uid in holds.now else None) == cap_bps

    async def seen() -> list[str]:
        return [f"{hold.sender}: {hold.cap_bps} bit/s by {hold.by}" for hold in holds.now.values()]

    await eventually(found, f"a cap of {cap_bps} bit/s", seen)


async def test_caps_follow_the_senders_of_the_guards_own_node_and_the_status_of_their_jobs(
    lab: Lab, control_plane: ControlPlane, role: dict[str, Any]
) -> None:
    scripts: list[str] = []
    before = len(control_plane.audit())

    async with (
        guarding(control_plane.kubeconfig(USER, ("audited",)), scripts) as holds,
        lab.operator(),
        FakeNodes(lab.client, lab.namespace).running() as nodes,
    ):
        await lab.create_job(bandwidth={"limit": "80M"})
        await nodes.start(await lab.appears("receiver"))
        sender = await lab.appears("sender")
        await nodes.start(sender)
        await eventually_caps(holds, sender, 80_000_000)
        await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": {"bandwidth": {"limit": "160M"}}})
        await eventually_caps(holds, sender, 160_000_000)
        await nodes.finish(sender)
        await eventually_caps(holds, sender, None)
    assert any("rate over 10500000 bytes/second" in script for script in scripts)
    requests = [request for request in control_plane.audit()[before:] if request["user"]["username"] == USER]
    assert [request for request in requests if request["responseStatus"].get("code") == 403] == []
    used = {(request["verb"], request["objectRef"]["resource"]) for request in requests if "objectRef" in request}
    assert used == {(verb, resource) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}


async def test_who_rewrites_the_annotation_changes_no_cap(lab: Lab, control_plane: ControlPlane, role: dict[str, Any]) -> None:
    scripts: list[str] = []

    async with (
        guarding(control_plane.kubeconfig(USER, ("audited",)), scripts) as holds,
        lab.operator(),
        FakeNodes(lab.client, lab.namespace).running() as nodes,
    ):
        await lab.create_job(bandwidth={"limit": "72M"})
        await nodes.start(await lab.appears("receiver"))
        sender = await lab.appears("sender")
        await nodes.start(sender)
        await eventually_caps(holds, sender, 72_000_000)
        for cap in ("10G", None, "fast", "20G"):
            patch = {"metadata": {"annotations": {names.ANNOTATION_EGRESS_BANDWIDTH: cap}}}
            await lab.client.merge_patch(PODS, lab.namespace, sender["metadata"]["name"], patch)
        await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": {"bandwidth": {"limit": "76M"}}})
        await eventually_caps(holds, sender, 76_000_000)
    ours = [script for script in scripts if "rate over 9" in script]
    assert all("rate over 9450000 bytes" in script or "rate over 9975000 bytes" in script for script in ours)
    assert not any("rate over 1312500000 " in script or "rate over 2625000000 " in script for script in scripts)
