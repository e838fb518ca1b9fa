"""Caps beside Cilium's bandwidth manager, which the operator finds by the ConfigMap that the chart's Role lets it read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kubelet import DATA_ADDRESSES, FakeNodes, wanted_node
from lab import Lab, eventually

from fairlead.api import names
from fairlead.kube.client import JOBS, KubeObject

CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "cilium-config", "namespace": "kube-system"},
    "data": {"enable-bandwidth-manager": "true", "enable-bbr": "false"},
}


@pytest.fixture
def beside_cilium(lab: Lab) -> Iterator[Lab]:
    lab.kubectl.apply(CONFIG)
    lab.options["cilium-bandwidth-manager"] = "auto"
    yield lab
    lab.kubectl("-n", "kube-system", "delete", "configmap", "cilium-config")


async def test_a_job_on_the_pod_network_is_held_by_its_annotation_and_one_on_the_nodes_is_told_that_it_is_not(beside_cilium: Lab) -> None:
    lab = beside_cilium
    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        await lab.create_job("pods", network="Pod", bandwidth={"limit": "100M"})
        for role in ("receiver", "sender"):
            pod = await eventually(lambda role=role: _mover(lab, "pods", role), f"the {role}", lambda: lab.job("pods"))
            await nodes.start(pod, address=DATA_ADDRESSES[wanted_node(pod)])
        await _held(lab, "pods", "100M")
        await lab.client.merge_patch(JOBS, lab.namespace, "pods", {"spec": {"bandwidth": {"limit": "50M"}}})
        await _held(lab, "pods", "50M")

        await lab.create_job("nodes", bandwidth={"limit": "100M"})
        for role in ("receiver", "sender"):
            await nodes.start(await eventually(lambda role=role: _mover(lab, "nodes", role), f"the {role}", lambda: lab.job("nodes")))

        async def told() -> bool:
            status = (await lab.job("nodes")).get("status") or {}
            cap = next((each for each in status.get("conditions") or [] if each["type"] == "CapEnforced"), None)
            return (
                cap is not None and "skips pods on the nodes' network" in cap["message"] and status["bandwidth"]["enforcedBy"] == "Pacing"
            )

        await eventually(told, "the message that Cilium skips the job", lambda: lab.job("nodes"))


def test_the_operator_may_read_that_config_map_and_no_other(lab: Lab) -> None:
    account = "--as=system:serviceaccount:fairlead-system:fairlead"

    def may(verb: str, name: str, namespace: str = "kube-system") -> bool:
        return lab.kubectl("auth", "can-i", verb, f"configmaps/{name}", "-n", namespace, account, check=False).returncode == 0

    assert may("get", "cilium-config")
    assert not any((may("list", ""), may("watch", "cilium-config"), may("update", "cilium-config"), may("get", "coredns")))
    assert not may("get", "cilium-config", lab.namespace)


async def _held(lab: Lab, job: str, cap: str) -> None:
    """Waits until both the sender's annotation and the status have the cap, held by the annotation."""

    async def look() -> bool:
        sender = await _mover(lab, job, "sender")
        assert sender is not None
        status = ((await lab.job(job)).get("status") or {}).get("bandwidth") or {}
        annotated = sender["metadata"]["annotations"].get(names.ANNOTATION_EGRESS_BANDWIDTH)
        return (annotated, status.get("allocated"), status.get("enforcedBy")) == (cap, cap, "Annotation")

    await eventually(look, f"the cap {cap} to be held", lambda: lab.job(job))


async def _mover(lab: Lab, job: str, role: str) -> KubeObject | None:
    for pod in await lab.pods():
        metadata = pod["metadata"]
        if metadata["annotations"].get(names.ANNOTATION_JOB) == job and metadata["labels"].get(names.LABEL_ROLE) == role:
            return pod
    return None
