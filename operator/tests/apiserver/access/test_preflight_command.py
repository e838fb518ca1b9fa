"""`fairlead preflight` as the program that a user runs, with the operator on a real API server; the test plays the movers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from control_plane import ControlPlane
from kubelet import FakeNodes
from lab import Lab, eventually, transfer_job

from fairlead.kube.client import JOBS, KubeObject

CHECKED = [{"check": "Interface", "result": "Passed", "reason": None, "message": "data0 is up"}]
SMALL = {"check": "PathMtu", "result": "Failed", "reason": "PathMtuTooSmall", "message": "more than 1400 bytes do not get through"}


@pytest.fixture
def user(lab: Lab, control_plane: ControlPlane) -> Path:
    """A kubeconfig of a user who may create, get and delete jobs in the lab's namespace, and nothing else."""
    own = f"checker-{lab.namespace}"
    lab.kubectl("-n", lab.namespace, "create", "role", own, "--verb=create,get,delete", "--resource=transferjobs.fairlead.io")
    lab.kubectl("-n", lab.namespace, "create", "rolebinding", own, f"--role={own}", f"--user={own}")
    return control_plane.kubeconfig(own)


async def start(lab: Lab, kubeconfig: Path, manifest: KubeObject, *arguments: str) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "fairlead", "preflight", "-", "--kubeconfig", str(kubeconfig), "-n", lab.namespace, *arguments]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(os.environ))
    assert process.stdin is not None
    process.stdin.write(json.dumps(manifest).encode())
    process.stdin.close()
    return process


async def ended(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    assert process.stdout is not None and process.stderr is not None
    output, errors = await asyncio.gather(process.stdout.read(), process.stderr.read())
    return await process.wait(), output.decode(), errors.decode()


def wanted(lab: Lab, **spec: Any) -> KubeObject:
    body = transfer_job(lab.namespace, "run42", **spec)
    del body["metadata"]["namespace"]
    return body


async def jobs(lab: Lab) -> list[KubeObject]:
    return [job async for page in lab.client.list_pages(JOBS, lab.namespace) for job in page]


async def test_a_job_is_checked_by_movers_and_nothing_is_left_of_it(lab: Lab, user: Path) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        process = await start(lab, user, wanted(lab), "-o", "json")
        receiver = await lab.appears("receiver")
        assert "--check" in receiver["spec"]["containers"][0]["args"]
        await nodes.start(receiver)
        sender = await lab.appears("sender")
        assert "initContainers" not in sender["spec"]
        await nodes.start(sender)
        (job,) = await jobs(lab)
        assert job["metadata"]["name"].startswith("run42-preflight-")
        assert "finalizers" not in job["metadata"]
        await nodes.finish(sender, reason="PreflightPassed", checks=CHECKED)
        await nodes.finish(receiver, reason="PreflightPassed", checks=CHECKED)
        code, output, errors = await ended(process)
        assert (code, errors) == (0, "")
        findings = json.loads(output)
        assert findings["passed"] is True
        assert [(each["end"], each["check"]) for each in findings["checks"]] == [
            ("job", "Manifest"),
            ("job", "Accepted"),
            ("source", "Interface"),
            ("destination", "Interface"),
        ]

        async def gone() -> bool:
            return not await jobs(lab)

        await eventually(gone, "no job is left")


async def test_a_failed_check_is_told_with_its_reason_and_exit_code(lab: Lab, user: Path) -> None:
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        process = await start(lab, user, wanted(lab))
        receiver = await lab.appears("receiver")
        await nodes.start(receiver)
        sender = await lab.appears("sender")
        await nodes.start(sender)
        await nodes.finish(sender, verdict="Failed", reason="PathMtuTooSmall", retry=False, checks=[*CHECKED, SMALL])
        await nodes.finish(receiver, verdict="Failed", reason="PeerFailed", retry=False)
        code, output, errors = await ended(process)
        assert (code, errors) == (1, "")
        assert "1 of 4 checks failed" in output
        assert "docs/how-to/preflight.md#pathmtutoosmall" in output
        assert await jobs(lab) == []


async def test_what_the_api_server_or_the_operator_refuses_is_told_without_any_pod(lab: Lab, user: Path) -> None:
    async with lab.operator():
        refused = await ended(await start(lab, user, wanted(lab, bandwidth={"limit": "1M", "guarantee": "2M"})))
        missing = {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "absent"}}}
        unclaimed = await ended(await start(lab, user, wanted(lab, source=missing)))
        assert await lab.pods() == []
        assert await jobs(lab) == []
    assert refused[0] == 1
    assert "bandwidth.guarantee must not exceed bandwidth.limit" in refused[1]
    assert unclaimed[0] == 1
    assert "ClaimNotFound" in unclaimed[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_check_leaves_nothing(lab: Lab, user: Path, number: signal.Signals) -> None:
    process = await start(lab, user, wanted(lab), "--timeout", "900")

    async def created() -> list[KubeObject]:
        return await jobs(lab)

    await eventually(created, "the job of the check")
    process.send_signal(number)
    code, output, errors = await ended(process)
    assert (code, output) == (130, "")
    assert "nothing is left behind" in errors
    assert await jobs(lab) == []


async def test_errors_are_one_sentence_with_the_remedy(lab: Lab, user: Path, control_plane: ControlPlane) -> None:
    stranger = control_plane.kubeconfig(f"stranger-{lab.namespace}")
    forbidden = await ended(await start(lab, stranger, wanted(lab)))
    assert forbidden[0] == 1
    assert "ask an administrator for the verbs create, get and delete" in forbidden[2]
    elsewhere = wanted(lab)
    elsewhere["metadata"]["namespace"] = "other"
    contradiction = await ended(await start(lab, user, elsewhere))
    assert contradiction[0] == 2
    assert "its namespace is other" in contradiction[2]
    for result in (forbidden, contradiction):
        assert len(result[2].splitlines()) == 1
