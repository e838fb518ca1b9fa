"""What the API server makes of DataTransferNodes by the CustomResourceDefinition alone."""

from __future__ import annotations

from typing import Any

import pytest
from lab import Lab, data_transfer_node

from fairlead.api.datatransfernode.status import MOST_BYTES
from fairlead.kube.client import DTNS
from fairlead.kube.errors import InvalidError

RATE = "rate must lie between 64k and 10T: it is in decimal bits per second"
DATA0 = {"name": "data0", "rate": "100G", "mtu": 9000, "numaNode": 0, "network": "wan", "data": True}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a rate of zero": ({"interfaces": [{"name": "data0", "rate": "0"}]}, RATE),
    "a rate beyond reason": ({"interfaces": [{"name": "data0", "rate": "11T"}]}, RATE),
    "a rate that is none": ({"interfaces": [{"name": "data0", "rate": "fast"}]}, "spec.interfaces[0].rate"),
    "an interface that is none": ({"interfaces": [{"name": "a/b"}]}, "spec.interfaces[0].name"),
    "an interface twice": ({"interfaces": [{"name": "data0"}, {"name": "data0"}]}, "Duplicate value"),
    "an MTU below IPv4's least": ({"interfaces": [{"name": "data0", "mtu": 67}]}, "spec.interfaces[0].mtu"),
    "less than no slots": ({"slots": -1}, "spec.slots"),
    "a site of two words": ({"site": "new york"}, "spec.site"),
    "a network that is no name": ({"interfaces": [{"name": "data0", "network": "WAN 1"}]}, "spec.interfaces[0].network"),
}

ABSURD: dict[str, tuple[dict[str, Any], str]] = {
    "an MTU": ({"interfaces": [{"name": "data0", "mtu": 10**6}]}, "status.interfaces[0].mtu"),
    "a negative size": ({"storage": [{"path": "/data", "totalBytes": -1, "freeBytes": 0}]}, "status.storage[0].totalBytes"),
    "no CPU": ({"cpus": 0}, "status.cpus"),
    "a NUMA node": ({"interfaces": [{"name": "data0", "numaNode": -1}]}, "status.interfaces[0].numaNode"),
    "a driver with an escape sequence": ({"interfaces": [{"name": "data0", "driver": "\x1b[2J"}]}, "status.interfaces[0].driver"),
    "an interface twice": ({"interfaces": [{"name": "data0"}, {"name": "data0"}]}, "Duplicate value"),
    "more interfaces than a host has": ({"interfaces": [{"name": f"e{number}"} for number in range(65)]}, "status.interfaces"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refuses_what_cannot_work_and_says_why(lab: Lab, case: str) -> None:
    spec, message = REFUSED[case]
    with pytest.raises(InvalidError) as refusal:
        await lab.client.create(DTNS, None, data_transfer_node(**spec))
    assert message in str(refusal.value)


@pytest.mark.parametrize("spec", [{}, {"site": "geneva", "slots": 0}, {"interfaces": [DATA0, {"name": "eth0", "data": False}]}])
async def test_accepts(lab: Lab, spec: dict[str, Any]) -> None:
    created = await lab.client.create(DTNS, None, data_transfer_node(**spec))
    assert created["spec"] == {"slots": 8, "interfaces": []} | spec | ({"interfaces": created["spec"]["interfaces"]})


@pytest.mark.parametrize("case", ABSURD)
async def test_refuses_reports_that_cannot_be_true(lab: Lab, case: str) -> None:
    await lab.client.create(DTNS, None, data_transfer_node())
    status, field = ABSURD[case]
    with pytest.raises(InvalidError) as refusal:
        await lab.client.merge_patch(DTNS, None, "dtn-a", {"status": status}, subresource="status")
    assert field in str(refusal.value)


async def test_tells_on_one_line_what_an_administrator_asks_first(lab: Lab) -> None:
    await lab.client.create(DTNS, None, data_transfer_node(site="geneva"))
    moment = "2026-01-01T00:00:00Z"
    true = {"status": "True", "reason": "AgentReports", "message": "", "lastTransitionTime": moment}
    status = {
        "summary": {"interfaces": "data0 100G, data1 100G", "jobs": "3/8", "free": "12T"},
        "conditions": [{"type": "Ready", **true}, {"type": "Tuned", **true, "status": "False"}],
        "load": "Idle",
        "cpus": 64,
        "kernel": {"release": "6.12.0"},
        "lastReportTime": moment,
    }
    stored = await lab.client.merge_patch(DTNS, None, "dtn-a", {"status": status}, subresource="status")
    assert stored["status"] == status
    header, row = lab.kubectl("get", "dtn").stdout.splitlines()
    assert header.split() == ["NAME", "SITE", "INTERFACES", "JOBS", "FREE", "TUNED", "READY", "AGE"]
    assert row.split()[:9] == ["dtn-a", "geneva", "data0", "100G,", "data1", "100G", "3/8", "12T", "False"]
    wide = lab.kubectl("get", "dtn", "-o", "wide").stdout.splitlines()[1].split()
    assert wide[-4:-1] == ["Idle", "64", "6.12.0"]


BYTES = ("sendBufferMaximumBytes", "receiveBufferMaximumBytes", "tcpSendBufferMaximumBytes", "tcpReceiveBufferMaximumBytes")


@pytest.mark.parametrize(("count", "is_taken"), [(0, True), (1, True), (MOST_BYTES, True), (MOST_BYTES + 1, False), (-1, False)])
async def test_counts_of_bytes_are_taken_up_to_the_bound_that_the_operator_has(lab: Lab, count: int, *, is_taken: bool) -> None:
    await lab.client.create(DTNS, None, data_transfer_node())
    storage = [{"path": "/data", "totalBytes": count, "freeBytes": count}]
    for status in ({"storage": storage}, *({"kernel": {field: count}} for field in BYTES)):
        patch = lab.client.merge_patch(DTNS, None, "dtn-a", {"status": status}, subresource="status")
        if is_taken:
            await patch
        else:
            with pytest.raises(InvalidError):
                await patch
