"""The chart grants exactly the rights that the operator uses over the life of a few jobs."""

from __future__ import annotations

from typing import Any

import yaml
from control_plane import ControlPlane
from kubelet import FakeNodes
from lab import Lab, eventually, fairness_policy

from fairlead.api import names
from fairlead.kube.client import JOBS, PODS, POLICIES, KubeObject

Right = tuple[str, str, str]

LINK = {"name": "out", "interfaces": [{"node": "dtn-a", "name": "data0", "direction": "Transmit"}], "capacity": "10G"}


async def test_every_granted_right_is_used_and_none_is_missing(lab: Lab, control_plane: ControlPlane) -> None:
    before = len(control_plane.audit())
    policy = await lab.client.create(POLICIES, None, fairness_policy(links=[LINK]))
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await _succeed_with_a_cap_that_changes_and_expire(lab, nodes)
        await _meet_a_stranger_and_delete_while_running(lab, nodes)
    await lab.client.delete(POLICIES, None, "site", uid=policy["metadata"]["uid"])
    requests = control_plane.audit()[before:]
    refused = [request for request in requests if request["responseStatus"].get("code") == 403]
    assert refused == []
    used = {_right(request) for request in requests if "objectRef" in request}
    assert used == _granted(lab)


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


def _granted(lab: Lab) -> set[Right]:
    role = yaml.safe_load(lab.kubectl("get", "clusterrole", "fairlead", "-o", "yaml").stdout)
    return {
        (verb, group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
