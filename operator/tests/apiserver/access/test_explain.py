"""`fairlead explain` as the program that a user runs, with the rights that an ordinary user has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from control_plane import ADDRESS, ControlPlane
from kubelet import FakeNodes
from lab import Lab, eventually, fairness_policy

from fairlead.kube.client import POLICIES

LINK = {"name": "out", "interfaces": [{"node": "dtn-a", "name": "data0", "direction": "Transmit"}], "capacity": "1G"}


def run(kubeconfig: Path | str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fairlead", "explain", *arguments]
    clean = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    variables = {**clean, "KUBECONFIG": str(kubeconfig), **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=400, check=False)


@pytest.fixture
def user(lab: Lab, control_plane: ControlPlane) -> Callable[..., Path]:
    """A kubeconfig of a user who may do this and nothing else: RESOURCES with get and list in the lab's namespace, KINDS everywhere."""

    def make(name: str, *resources: str, verbs: str = "get,list", everywhere: str = "") -> Path:
        own = f"{name}-{lab.namespace}"
        for resource in resources:
            role = f"{own}-{resource.partition('.')[0]}"
            lab.kubectl("-n", lab.namespace, "create", "role", role, f"--verb={verbs}", f"--resource={resource}")
            lab.kubectl("-n", lab.namespace, "create", "rolebinding", role, f"--role={role}", f"--user={own}")
        if everywhere:
            lab.kubectl("create", "clusterrole", own, "--verb=get,list", f"--resource={everywhere}")
            lab.kubectl("create", "clusterrolebinding", own, f"--clusterrole={own}", f"--user={own}")
        return control_plane.kubeconfig(own, ("audited",))

    return make


async def test_an_ordinary_user_is_told_everything_and_reads_nothing_else(
    lab: Lab, control_plane: ControlPlane, user: Callable[..., Path]
) -> None:
    kubeconfig = user("tenant", "transferjobs.fairlead.io", "events", everywhere="fairnesspolicies.fairlead.io,networkpaths.fairlead.io")
    policy = await lab.client.create(POLICIES, None, fairness_policy(links=[LINK]))
    await lab.create_job(bandwidth={"limit": "50M"})
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await nodes.start(await lab.appears("receiver"))
        await nodes.start(await lab.appears("sender"))
        await lab.condition("MoversReady")

        async def told() -> bool:
            return ("Normal", "MoversStarted") in await lab.events()

        await eventually(told, "the event MoversStarted", lab.events)
        before = len(control_plane.audit())
        text = run(kubeconfig, "job", "-n", lab.namespace)
        document = json.loads(run(kubeconfig, "tj/job", "--namespace", lab.namespace, "-o", "json").stdout)
        requests = control_plane.audit()[before:]
    await lab.client.delete(POLICIES, None, "site", uid=policy["metadata"]["uid"])

    assert (text.returncode, text.stderr) == (0, "")
    assert text.stdout.startswith(f"TransferJob {lab.namespace}/job: ")
    assert "MoversReady  True" in text.stdout
    assert "Not shown" not in text.stdout
    assert "the job's own limit" in text.stdout
    assert [each["type"] for each in document["conditions"]][:3] == ["Accepted", "Scheduled", "MoversReady"]
    assert (document["bandwidth"]["boundBy"], document["bandwidth"]["tenant"]["name"]) == ("JobLimit", "others")
    assert "MoversStarted" in {event["reason"] for event in document["events"]}
    own = [each for each in requests if each["user"]["username"].startswith("tenant-")]
    asked = {(each["verb"], each["objectRef"]["resource"]) for each in own}
    assert asked == {("get", "transferjobs"), ("list", "events"), ("list", "fairnesspolicies"), ("list", "networkpaths")}
    assert {each["responseStatus"]["code"] for each in own} == {200}


async def test_what_the_user_may_not_read_is_named_and_the_rest_is_told(lab: Lab, user: Callable[..., Path]) -> None:
    kubeconfig = user("narrow", "transferjobs.fairlead.io", verbs="get")
    await lab.create_job(suspend=True)
    printed = run(kubeconfig, "job", "-n", lab.namespace)
    assert printed.returncode == 0
    for resource, where in (
        ("events", f"in namespace {lab.namespace}"),
        ("fairnesspolicies.fairlead.io", "in the cluster"),
        ("networkpaths.fairlead.io", "in the cluster"),
    ):
        assert f"you may not list {resource} {where}: ask an administrator for the verb list on {resource} there" in printed.stdout


async def test_errors_are_one_sentence_with_the_remedy(lab: Lab, user: Callable[..., Path], tmp_path: Path) -> None:
    await lab.create_job("run42", suspend=True)
    allowed, stranger = user("reader", "transferjobs.fairlead.io"), user("stranger")
    unknown = run(allowed, "run24", "-n", lab.namespace)
    forbidden = run(stranger, "run42", "-n", lab.namespace)
    elsewhere = run(allowed, "run42", "-n", "fairlead-system")
    unreachable = tmp_path / "unreachable"
    unreachable.write_text(allowed.read_text().replace(f"{ADDRESS}:", f"{ADDRESS}:1"))
    silent = run(unreachable, "run42", "-n", lab.namespace)

    for result, words in (
        (unknown, f"there is no TransferJob run24 in namespace {lab.namespace} (did you mean run42?)"),
        (forbidden, f"you may not get transferjobs.fairlead.io in namespace {lab.namespace}: ask an administrator for the verb get"),
        (elsewhere, "you may not get transferjobs.fairlead.io in namespace fairlead-system"),
        (silent, "does not answer"),
    ):
        assert (result.returncode, result.stdout) == (1, "")
        assert words in result.stderr
        assert len(result.stderr.splitlines()) == 1


async def test_the_namespace_is_the_contexts_unless_one_is_given(lab: Lab, user: Callable[..., Path], tmp_path: Path) -> None:
    await lab.create_job(suspend=True)
    kubeconfig = user("context", "transferjobs.fairlead.io")
    named = tmp_path / "named"
    named.write_text(kubeconfig.read_text().replace("user: test}}]", f"user: test, namespace: {lab.namespace}}}}}]"))
    assert run(named, "job").returncode == 0
    assert "you may not get transferjobs.fairlead.io in namespace default" in run(kubeconfig, "job").stderr
    given = run("/nowhere", "job", "--kubeconfig", str(named), "--context", "test")
    assert given.returncode == 0
    assert run(named, "job", "--context", "absent").returncode == 2
