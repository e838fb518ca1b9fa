"""The chart grants exactly the rights that are used: by the operator over the life of a few jobs, by people with kubectl."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from control_plane import ControlPlane
from kubelet import FakeNodes
from lab import PATIENCE_SECONDS, Kubectl, Lab, data_transfer_node, eventually, fairness_policy, network_path

from fairlead.api import names
from fairlead.kube.client import DTNS, JOBS, PODS, POLICIES, KubeObject

Right = tuple[str, str, str]

OPERATOR = "system:serviceaccount:fairlead-system:fairlead"

LINK = {"name": "out", "interfaces": [{"node": "dtn-a", "name": "data0", "direction": "Transmit"}], "capacity": "10G"}


async def test_every_granted_right_is_used_and_none_is_missing(lab: Lab, control_plane: ControlPlane) -> None:
    before = len(control_plane.audit())
    # One of an earlier test's operator would not have to be made.
    lab.kubectl("-n", "fairlead-system", "delete", "lease", "fairlead", "--ignore-not-found")
    policy = await lab.client.create(POLICIES, None, fairness_policy(links=[LINK]))
    await lab.client.create(DTNS, None, data_transfer_node())
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await _succeed_with_a_cap_that_changes_and_expire(lab, nodes)
        await _meet_a_stranger_and_delete_while_running(lab, nodes)
        await _be_told_why_a_pod_is_not_attached(lab, nodes)
    await lab.client.delete(POLICIES, None, "site", uid=policy["metadata"]["uid"])
    requests = _requests_of(OPERATOR, control_plane, before)
    refused = [request for request in requests if request["responseStatus"].get("code") == 403]
    assert refused == []
    used = {_right(request) for request in requests if "objectRef" in request}
    assert used == _granted(lab, "fairlead") | _granted(lab, "fairlead-tenants") | _granted(lab, "fairlead", in_namespace="fairlead-system")


@pytest.fixture
def everything_to_see(lab: Lab) -> Iterator[None]:
    """An object of each of the chart's kinds."""
    for manifest in (lab.manifest(suspend=True), fairness_policy("seen", links=[LINK]), network_path("seen"), data_transfer_node("seen")):
        lab.kubectl.apply(manifest)
    yield
    lab.kubectl("delete", "fairnesspolicy", "seen")


async def test_every_right_to_look_is_used(lab: Lab, control_plane: ControlPlane, everything_to_see: None) -> None:
    with _person(lab, control_plane, "viewer", "fairlead-view") as (kubectl, before):
        for kind, name in (("transferjobs", "job"), ("fairnesspolicies", "seen"), ("networkpaths", "seen"), ("datatransfernodes", "seen")):
            kubectl("get", kind, name)
            kubectl("get", kind, name, "--subresource=status")
            kubectl("get", kind)
            _watch(kubectl, lab, kind)
        used = {_right(request) for request in _requests_of("viewer", control_plane, before) if "objectRef" in request}
    assert used == _granted(lab, "fairlead-view")


async def test_every_right_to_edit_is_used(lab: Lab, control_plane: ControlPlane) -> None:
    with _person(lab, control_plane, "editor", "fairlead-edit") as (kubectl, before):
        kubectl("create", "-f", "-", stdin=json.dumps(lab.manifest(suspend=True)))
        kubectl("get", "transferjobs")
        _watch(kubectl, lab, "transferjobs")
        shown = kubectl("get", "transferjob", "job", "-o", "json").stdout
        kubectl("replace", "-f", "-", stdin=shown)
        kubectl("patch", "transferjob", "job", "--type=merge", "-p", '{"spec": {"priority": 1}}')
        kubectl("delete", "transferjob", "job")
        kubectl("delete", "--raw", f"/apis/{names.API_VERSION}/namespaces/{lab.namespace}/{names.PLURAL}")
        used = {_right(request) for request in _requests_of("editor", control_plane, before) if "objectRef" in request}
    assert used == _granted(lab, "fairlead-edit")


def _watch(kubectl: Callable[..., Any], lab: Lab, kind: str) -> None:
    """Watches for a second, which the server ends: a limit of kubectl's own may be over before it has asked."""
    scope = f"namespaces/{lab.namespace}/" if kind == "transferjobs" else ""
    kubectl("get", "--raw", f"/apis/{names.API_VERSION}/{scope}{kind}?watch=true&timeoutSeconds=1")


@contextmanager
def _person(lab: Lab, control_plane: ControlPlane, user: str, role: str) -> Iterator[tuple[Callable[..., Any], int]]:
    """kubectl as somebody with one role in the whole cluster, and how many requests there were before."""
    own = Kubectl(lab.kubectl.program, control_plane.kubeconfig(user, ("audited",)))

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return own("-n", lab.namespace, *arguments, **options)

    lab.kubectl("create", "clusterrolebinding", user, f"--clusterrole={role}", f"--user={user}")
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while run("get", "transferjobs", check=False).returncode != 0:
            assert time.monotonic() < deadline, f"the rights of {role} did not come into force"
        yield run, len(control_plane.audit())
    finally:
        lab.kubectl("delete", "clusterrolebinding", user)


async def _succeed_with_a_cap_that_changes_and_expire(lab: Lab, nodes: FakeNodes) -> None:
    await lab.create_job(bandwidth={"limit": "1G"}, ttlSecondsAfterFinished=1)
    receiver, sender = await _start_both(lab, nodes)
    assert sender["metadata"]["annotations"][names.ANNOTATION_EGRESS_BANDWIDTH] == "1G"
    await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": {"bandwidth": {"limit": "500M"}}})

    async def capped() -> bool:
        pod = await lab.pod("sender")
        return pod is not None and pod["metadata"]["annotations"].get(names.ANNOTATION_EGRESS_BANDWIDTH) == "500M"

    await eventually(capped, "the new cap on the sender", lambda: lab.pod("sender"))
    await nodes.finish(sender)
    await nodes.finish(receiver)
    await lab.gone()
    # There is no garbage collector here.
    for pod in (receiver, sender):
        await nodes.remove(pod)


async def _meet_a_stranger_and_delete_while_running(lab: Lab, nodes: FakeNodes) -> None:
    job = await lab.create_job(suspend=True)
    stranger: KubeObject = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": names.child_name("job", job["metadata"]["uid"], "receiver", 1)},
        "spec": {"containers": [{"name": "x", "image": "x"}]},
    }
    stranger = await lab.client.create(PODS, lab.namespace, stranger)
    await lab.client.merge_patch(JOBS, lab.namespace, "job", {"spec": {"suspend": False}})
    receiver, _ = await _start_both(lab, nodes)
    assert receiver["metadata"]["name"] != stranger["metadata"]["name"]
    await nodes.remove(stranger)
    await lab.client.delete(JOBS, lab.namespace, "job", uid=job["metadata"]["uid"])
    cleaner = await lab.appears("cleaner")
    await nodes.start(cleaner, serve=False)
    await nodes.finish(cleaner, reason="Cleaned", attempt=0)
    await lab.gone()


async def _be_told_why_a_pod_is_not_attached(lab: Lab, nodes: FakeNodes) -> None:
    ends = {
        "source": {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "attachment": "lab"},
        "destination": {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "attachment": "lab"},
    }
    await lab.create_job(network="Attachment", **ends)
    await nodes.fail_network(await lab.appears("receiver"), "no address is left")

    async def told() -> bool:
        conditions = await lab.conditions()
        return any(c["reason"] == "AttachmentFailed" for c in conditions)

    await eventually(told, "why the receiver is not attached", lab.job)


async def _start_both(lab: Lab, nodes: FakeNodes) -> tuple[KubeObject, KubeObject]:
    receiver = await lab.appears("receiver")
    await nodes.start(receiver)
    sender = await lab.appears("sender")
    await nodes.start(sender)
    await lab.condition("MoversReady")
    return receiver, sender


def _right(request: dict[str, Any]) -> Right:
    target = request["objectRef"]
    resource = "/".join(part for part in (target["resource"], target.get("subresource")) if part)
    return request["verb"], target.get("apiGroup", ""), resource


def _requests_of(user: str, control_plane: ControlPlane, before: int) -> list[dict[str, Any]]:
    return [request for request in control_plane.audit()[before:] if request["user"]["username"] == user]


def _granted(lab: Lab, name: str, in_namespace: str | None = None) -> set[Right]:
    where = ("clusterrole",) if in_namespace is None else ("-n", in_namespace, "role")
    role = yaml.safe_load(lab.kubectl("get", *where, name, "-o", "yaml").stdout)
    return {
        (verb, group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
