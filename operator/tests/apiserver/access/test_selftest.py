"""`fairlead selftest` as `helm test` runs it: with the rights of its own account, against the whole operator."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from control_plane import CHECKOUT, ControlPlane, find_programs
from kubelet import FakeNodes
from lab import REQUEST_SECONDS, Lab, data_transfer_node, eventually, read_documents

from fairlead.commands.selftest import command, objects
from fairlead.commands.selftest.objects import SelftestEnd, SelftestPlan
from fairlead.commands.selftest.run import SelftestError, selftest
from fairlead.kube.client import CLAIMS, JOBS, PODS, KubeClient, KubeObject, load_configuration

ACCOUNT = "system:serviceaccount:fairlead-system:fairlead-test"


def _plan(lab: Lab) -> SelftestPlan:
    return SelftestPlan(
        token="abc",
        namespace=lab.namespace,
        source=SelftestEnd("dtn-a", "raw"),
        destination=SelftestEnd("dtn-b", "scratch"),
        network="Host",
        storage_class="",
        image="fairlead-operator:test",
        pull_policy="IfNotPresent",
        pull_secrets=(),
        user=65532,
        group=65532,
        tolerations=(),
        bytes_total=1000,
        timeout_seconds=300,
    )


def _rights(namespace: str) -> list[KubeObject]:
    helm, chart = str(find_programs()["helm"]), str(CHECKOUT / "charts" / "fairlead")
    command = [helm, "template", "fairlead", chart, "--namespace", "fairlead-system", "--kube-version", "1.34.0"]
    values = ["--set", f"test.namespace={namespace}", "--show-only", "templates/test.yaml"]
    rendered = subprocess.run([*command, *values], check=True, capture_output=True, text=True).stdout
    return [each for each in read_documents(rendered) if each["kind"] != "Pod"]


@pytest.fixture
async def account(lab: Lab, control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    """The account of the chart's test, with the rights that the chart gives it."""
    lab.kubectl.apply({"apiVersion": "v1", "kind": "List", "items": _rights(lab.namespace)})
    client = KubeClient(await load_configuration(control_plane.kubeconfig(ACCOUNT)), timeout_seconds=REQUEST_SECONDS)

    async def may_create() -> bool:
        question = ("auth", "can-i", "create", "transferjobs.fairlead.io", "-n", lab.namespace, f"--as={ACCOUNT}")
        return lab.kubectl(*question, check=False).returncode == 0

    await eventually(may_create, "the rights of the test's account")
    yield client
    await client.close()


async def _end(lab: Lab, name: str, phase: str, message: str = "") -> None:
    """What a kubelet says when a pod of the test has ended."""

    async def look() -> KubeObject | None:
        return next((pod for pod in await lab.pods() if pod["metadata"]["name"] == name), None)

    await eventually(look, f"pod {name}", lab.pods)
    state = {"terminated": {"exitCode": int(phase == "Failed"), "message": message}}
    container = {"name": "file", "image": "x", "imageID": "", "restartCount": 0, "ready": False, "state": state}
    await lab.client.merge_patch(
        PODS, lab.namespace, name, {"status": {"phase": phase, "containerStatuses": [container]}}, subresource="status"
    )


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs `work` while the block runs, and waits for its end."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work)
        yield


async def _nothing_is_left(lab: Lab) -> None:
    async def look() -> bool:
        own = "app.kubernetes.io/component=selftest"
        return not [
            body
            for kind in (JOBS, PODS, CLAIMS)
            async for page in lab.client.list_pages(kind, lab.namespace, label_selector=own)
            for body in page
            if not body["metadata"].get("deletionTimestamp")
        ]

    await eventually(look, "everything of the test to be removed")


def test_a_node_is_chosen_only_if_its_agent_reports() -> None:
    def node(name: str, ready: str) -> KubeObject:
        condition = {"type": "Ready", "status": ready, "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        metadata = {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        return data_transfer_node(name) | {"metadata": metadata, "status": {"conditions": [condition]}}

    assert objects.choose_nodes([node("c", "True"), node("a", "False"), node("b", "True")]) == ("b", "c")
    assert objects.choose_nodes([node("c", "True"), node("a", "Unknown")]) is None


def test_the_message_without_nodes_names_the_values_that_help(
    lab: Lab, account: KubeClient, control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--namespace", lab.namespace, "--network=Host", "--image=x", "--kubeconfig", str(control_plane.kubeconfig(ACCOUNT)))
    assert command.main(["run", *where]) == 1
    assert "set the chart's test.source.node and test.destination.node" in capsys.readouterr().err


async def test_a_file_that_cannot_be_written_is_told_with_the_pods_last_words(lab: Lab, account: KubeClient) -> None:
    plan = replace(_plan(lab), destination=SelftestEnd("dtn-b", ""))

    async def end_pods() -> None:
        await _end(lab, "selftest-abc-write", "Failed", "no space left")
        await _end(lab, "selftest-abc-remove-source", "Succeeded")

    async with _beside(end_pods()):
        with pytest.raises(SelftestError, match="selftest-abc-write is Failed: no space left"):
            await selftest(account, plan, print)
    await _nothing_is_left(lab)


async def test_a_file_is_moved_compared_and_removed(lab: Lab, account: KubeClient) -> None:
    told: list[str] = []
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:

        async def end_pods() -> None:
            await _end(lab, "selftest-abc-write", "Succeeded")
            receiver = await lab.appears("receiver")
            await nodes.start(receiver)
            sender = await lab.appears("sender")
            await nodes.start(sender)
            await lab.condition("MoversReady", name="selftest-abc")
            await nodes.finish(sender)
            await nodes.finish(receiver)
            await _end(lab, "selftest-abc-compare", "Succeeded")
            for end in ("source", "destination"):
                await _end(lab, f"selftest-abc-remove-{end}", "Succeeded")

        async with _beside(end_pods()):
            await selftest(account, _plan(lab), told.append)
    assert told[-1] == "the file on dtn-b is the one that was written on dtn-a"
    await _nothing_is_left(lab)
