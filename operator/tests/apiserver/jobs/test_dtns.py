"""The operator's part of data transfer nodes, against a real API server."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from lab import Lab, data_transfer_node, eventually

from fairlead.kube.client import DTNS, NODES, KubeObject

DATA0 = {"name": "data0", "rate": "100G", "addresses": ["198.18.0.1/24"], "carrier": True}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _ready(lab: Lab, reason: str, name: str = "dtn-a") -> KubeObject:
    async def look() -> KubeObject | None:
        dtn = await lab.client.get(DTNS, None, name)
        conditions = (dtn.get("status") or {}).get("conditions") or []
        return dtn if any(each["type"] == "Ready" and each["reason"] == reason for each in conditions) else None

    return await eventually(look, f"Ready with reason {reason}", lambda: lab.client.get(DTNS, None, name))


async def test_what_an_agent_reports_is_summed_up_and_what_it_wrote_stays(lab: Lab) -> None:
    await lab.client.create(DTNS, None, data_transfer_node(site="geneva"))
    async with lab.operator():
        await _ready(lab, "NeverReported")
        report = {"interfaces": [DATA0], "lastReportTime": _now(), "cpus": 4}
        await lab.client.merge_patch(DTNS, None, "dtn-a", {"status": report}, subresource="status")
        dtn = await _ready(lab, "AgentReports")
        assert dtn["status"]["summary"]["interfaces"] == "data0 100G"
        assert (dtn["status"]["cpus"], dtn["status"]["interfaces"]) == (4, [DATA0])
        # One that is made while the operator runs, of a node that is not there.
        await lab.client.create(DTNS, None, data_transfer_node("elsewhere"))
        await _ready(lab, "NodeGone", "elsewhere")


async def test_what_should_be_set_on_the_host_is_written_by_the_operator_beside_the_agents_report(lab: Lab) -> None:
    await lab.client.create(DTNS, None, data_transfer_node(interfaces=[{"name": "data0", "mtu": 9000}]))
    report = {"interfaces": [{**DATA0, "mtu": 1500}], "lastReportTime": _now(), "kernel": {"clockSource": "hpet"}}
    await lab.client.merge_patch(DTNS, None, "dtn-a", {"status": report}, subresource="status")

    async def advised() -> KubeObject | None:
        dtn = await lab.client.get(DTNS, None, "dtn-a")
        return dtn if dtn.get("status", {}).get("advice") else None

    async with lab.operator():
        dtn = await eventually(advised, "status.advice", lambda: lab.client.get(DTNS, None, "dtn-a"))
    advice = [(each["rule"], each.get("interface"), each["recommended"], each["page"]) for each in dtn["status"]["advice"]]
    assert advice == [
        ("MTU", "data0", "9000", "docs/how-to/tune/mtu.md"),
        ("ClockSource", None, "tsc", "docs/how-to/tune/clock-source.md"),
    ]
    (tuned,) = [each for each in dtn["status"]["conditions"] if each["type"] == "Tuned"]
    assert (tuned["status"], tuned["reason"]) == ("False", "SettingsToChange")
    assert dtn["status"]["kernel"] == {"clockSource": "hpet"}


@pytest.mark.long
async def test_a_node_that_joins_the_cluster_is_seen(lab: Lab) -> None:
    await lab.client.create(DTNS, None, data_transfer_node("late"))
    async with lab.operator():
        await _ready(lab, "NodeGone", "late")
        node = await lab.client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "late"}})
        try:
            await _ready(lab, "NeverReported", "late")
        finally:
            await lab.client.delete(NODES, None, "late", uid=node["metadata"]["uid"])
        await _ready(lab, "NodeGone", "late")
