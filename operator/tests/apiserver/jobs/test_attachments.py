"""Jobs with attachments whose definitions the operator reads, on a real API server with their kind, as where Multus is installed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lab import Lab, eventually

from fairlead.kube.client import ATTACHMENTS, KubeObject
from fairlead_dev.cluster.kubernetes.multus import objects

BANDWIDTH = {"type": "bandwidth", "capabilities": {"bandwidth": True}}
LIMITED: dict[str, Any] = {"network": "Attachment", "bandwidth": {"limit": "1G"}}


@pytest.fixture
def defined(lab: Lab) -> Lab:
    """The kind of definitions, with `on-macvlan` and `on-a-bridge` in the lab's namespace."""
    (kind,) = (each for each in objects() if each["kind"] == "CustomResourceDefinition")
    lab.kubectl.apply(kind)
    lab.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{kind['metadata']['name']}")
    for name, plugin in (("on-macvlan", "macvlan"), ("on-a-bridge", "bridge")):
        lab.kubectl.apply(definition(lab, name, {"type": plugin}, BANDWIDTH))
    return lab


def definition(lab: Lab, name: str, *plugins: KubeObject) -> KubeObject:
    config = json.dumps({"cniVersion": "1.0.0", "name": name, "plugins": plugins})
    return {
        "apiVersion": ATTACHMENTS.group_version,
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name, "namespace": lab.namespace},
        "spec": {"config": config},
    }


def ends(source: str, destination: str) -> KubeObject:
    named = {"source": ("dtn-a", "raw", source), "destination": ("dtn-b", "scratch", destination)}
    return {
        end: {"node": node, "volume": {"persistentVolumeClaim": {"claimName": claim}}, "attachment": attachment}
        for end, (node, claim, attachment) in named.items()
    }


async def refusal(lab: Lab, name: str = "job") -> KubeObject:
    async def look() -> KubeObject | None:
        conditions = ((await lab.job(name)).get("status") or {}).get("conditions") or []
        return next((c for c in conditions if c["type"] == "Accepted" and c["status"] == "False"), None)

    return await eventually(look, "Accepted=False", lambda: lab.job(name))


async def test_a_job_whose_attachment_refuses_its_rate_gets_no_pod_until_the_definition_is_mended(defined: Lab) -> None:
    lab = defined
    async with lab.operator():
        await lab.create_job(**LIMITED, **ends("on-macvlan", "on-a-bridge"))
        refused = await refusal(lab)
        assert refused["reason"] == "AttachmentRefusesRate"
        assert refused["message"].startswith("source.attachment on-macvlan: ")
        assert (await lab.condition("Stalled"))["reason"] == "AttachmentRefusesRate"
        await lab.create_job("checked", preflightOnly=True, **LIMITED, **ends("on-macvlan", "on-a-bridge"))
        assert (await lab.condition("Failed", name="checked"))["reason"] == "AttachmentRefusesRate"
        assert await lab.pods() == []
        lab.kubectl.apply(definition(lab, "on-macvlan", {"type": "macvlan"}))
        await lab.appears("receiver")
        assert (await lab.condition("Accepted"))["reason"] == "Valid"


async def test_a_receiver_that_asks_for_no_rate_may_be_attached_by_what_refuses_one_and_unknown_definitions_are_left_to_multus(
    defined: Lab,
) -> None:
    lab = defined
    async with lab.operator():
        await lab.create_job(**LIMITED, **ends("on-a-bridge", "on-macvlan"))
        await lab.appears("receiver")
        await lab.create_job("without-a-rate", network="Attachment", **ends("on-macvlan", "on-macvlan"))
        await lab.condition("Accepted", name="without-a-rate")
        await lab.create_job("not-defined", **LIMITED, **ends("no-such-definition", "on-a-bridge"))
        await lab.condition("Accepted", name="not-defined")
