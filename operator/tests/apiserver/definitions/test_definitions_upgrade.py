"""Objects that were stored under earlier definitions are read, reconciled and edited under those that replace them."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from control_plane import CHECKOUT
from kubelet import FakeNodes
from lab import Kubectl, Lab, describe, eventually, fairness_policy, network_path

from fairlead.kube.client import DTNS, JOBS, PATHS, POLICIES, KubeObject, ResourceKind

EARLIER = {
    "the chart before this one": CHECKOUT / "hack" / "tests" / "chart" / "data" / "fairlead-0.1.0.tgz",
    "the first with all four kinds": Path(__file__).parent / "data" / "fairlead-0.1.0-first-nodes.tgz",
}
LINK = {"name": "out", "interfaces": [{"node": "dtn-a", "name": "data0", "direction": "Transmit"}], "capacity": "100M"}
ENDED = {
    "phase": "Succeeded",
    "attempts": 1,
    "failures": 0,
    "startTime": "2026-01-01T00:00:00Z",
    "completionTime": "2026-01-01T00:01:00Z",
    "observedGeneration": 1,
    "progress": {"bytesTotal": 10, "bytesTransferred": 10, "filesTotal": 1, "filesTransferred": 1, "percent": 100},
    "bandwidth": {"measured": "79M"},
    "conditions": [
        {
            "type": "Succeeded",
            "status": "True",
            "reason": "Verified",
            "message": "10 bytes in 1 files are at the destination and verified",
            "lastTransitionTime": "2026-01-01T00:01:00Z",
            "observedGeneration": 1,
        }
    ],
}


def _definitions(archive: Path) -> list[KubeObject]:
    with tarfile.open(archive) as package:
        files = (package.extractfile(member) for member in package.getmembers() if "/files/crds/" in member.name)
        return [yaml.safe_load(file.read()) for file in files if file is not None]


def _put(kubectl: Kubectl, definition: KubeObject) -> None:
    """Replaces what a definition says, newer or older, and nothing else of the object."""
    change = [{"op": "replace", "path": "/spec/versions", "value": definition["spec"]["versions"]}]
    kubectl("patch", "crd", definition["metadata"]["name"], "--type=json", "-p", json.dumps(change))


@pytest.fixture(params=EARLIER)
def earlier(request: pytest.FixtureRequest, lab: Lab) -> Iterator[str]:
    """The earlier definitions are in force; those under test are put back whatever the test did."""
    definitions = _definitions(EARLIER[request.param])
    current = [json.loads(lab.kubectl("get", "crd", each["metadata"]["name"], "-o", "json").stdout) for each in definitions]
    try:
        for each in definitions:
            _put(lab.kubectl, each)
        yield request.param
    finally:
        for each in current:
            _put(lab.kubectl, each)
        lab.kubectl("delete", "fairnesspolicy", "site", "--ignore-not-found")


async def _in_force(lab: Lab, *, current: bool) -> None:
    """Waits until the API server answers by the definitions: those before had the column REASON for wide tables alone."""

    async def look() -> bool:
        return ("REASON" in lab.kubectl("-n", lab.namespace, "get", "transferjobs").stdout) is current

    await eventually(look, "the definitions to be in force")


async def _stored(lab: Lab) -> dict[tuple[ResourceKind, str | None, str], KubeObject]:
    """Objects of all kinds, with what the API server shows of each."""
    await lab.create_job("finished", bandwidth={"limit": "80M"})
    await lab.client.merge_patch(JOBS, lab.namespace, "finished", {"status": ENDED}, subresource="status")
    await lab.create_job("runs")
    await lab.client.create(POLICIES, None, fairness_policy(links=[LINK]))
    await lab.client.create(PATHS, None, network_path(capacity="2G"))
    await describe(lab, "dtn-a", slots=4, site="geneva")
    await describe(lab, "dtn-b", slots=4)
    keys = [
        *((JOBS, lab.namespace, name) for name in ("waits", "finished", "runs")),
        *((POLICIES, None, "site"), (PATHS, None, "a-b"), (DTNS, None, "dtn-a"), (DTNS, None, "dtn-b")),
    ]
    return {key: await lab.client.get(*key) for key in keys}


def _contains(now: Any, before: Any) -> bool:
    """Whether all of an object is there still; new fields may have come by their defaults."""
    if isinstance(before, dict):
        return isinstance(now, dict) and all(name in now and _contains(now[name], each) for name, each in before.items())
    if isinstance(before, list):
        return isinstance(now, list) and len(now) == len(before) and all(map(_contains, now, before))
    return bool(now == before)


@pytest.mark.long
async def test_what_was_stored_is_read_reconciled_and_edited_after_the_upgrade(lab: Lab, earlier: str) -> None:
    await lab.create_job("waits", suspend=True)
    await _in_force(lab, current=False)
    stored = await _stored(lab)

    # As docs/how-to/upgrade.md has it.
    crds = str(CHECKOUT / "crds")
    lab.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=upgrade", "-f", crds)
    await _in_force(lab, current=True)
    for key, before in stored.items():
        now = await lab.client.get(*key)
        assert _contains(now["spec"], before["spec"]) and _contains(now.get("status", {}), before.get("status", {})), key

    edits: dict[tuple[ResourceKind, str | None, str], KubeObject] = {
        (JOBS, lab.namespace, "finished"): {"priority": 7},
        (JOBS, lab.namespace, "runs"): {"bandwidth": {"limit": "60M"}},
        (POLICIES, None, "site"): {"links": [LINK | {"capacity": "200M"}]},
        (PATHS, None, "a-b"): {"capacity": "3G", "otherTraffic": "Compete"},
        (DTNS, None, "dtn-a"): {"slots": 2},
        (DTNS, None, "dtn-b"): {"site": "chicago"},
    }
    for (kind, namespace, name), spec in edits.items():
        assert _contains((await lab.client.merge_patch(kind, namespace, name, {"spec": spec}))["spec"], spec), name

    async with lab.operator(), FakeNodes(lab.client, lab.namespace).running() as nodes:
        receiver = await lab.appears("receiver")
        await nodes.start(receiver)
        await nodes.start(await lab.appears("sender"))
        await lab.condition("MoversReady", name="runs")

        async def followed() -> bool:
            site, dtn = await lab.client.get(POLICIES, None, "site"), await lab.client.get(DTNS, None, "dtn-a")
            links = site.get("status", {}).get("links") or [{}]
            counted = dtn.get("status", {}).get("jobs") == 1
            return counted and site["status"].get("observedGeneration") == site["metadata"]["generation"] and links[0].get("jobs") == 1

        await eventually(followed, "policy and node to count the job", lambda: lab.client.get(POLICIES, None, "site"))
        await nodes.finish(receiver)
        await lab.condition("Succeeded", name="runs")
        await lab.client.merge_patch(JOBS, lab.namespace, "waits", {"spec": {"suspend": False}})
        await lab.condition("Suspended", "False", name="waits")
    finished = (await lab.job("finished"))["status"]
    assert _contains(finished, stored[JOBS, lab.namespace, "finished"]["status"] | {"observedGeneration": finished["observedGeneration"]})
