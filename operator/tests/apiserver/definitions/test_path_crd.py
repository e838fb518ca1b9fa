"""What the API server makes of NetworkPaths by the CustomResourceDefinition alone."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from control_plane import CHECKOUT
from lab import Lab, network_path

from fairlead.kube.client import PATHS, KubeObject
from fairlead.kube.errors import InvalidError

CAPACITY = "capacity must lie between 64k and 10T: it is in decimal bits per second"
ONE_NODE = "source and destination are on the same node: a path leads to another one; change the node of one of them"
SHARES = "otherTraffic is none of its values: set Spare, Compete, or a number of shares from 1 to 32"
FIXED_SOURCE = "source cannot change once the path exists: create a new NetworkPath instead"
FIXED_DESTINATION = "destination cannot change once the path exists: create a new NetworkPath instead"

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a capacity of zero": ({"capacity": "0"}, CAPACITY),
    "a capacity beyond reason": ({"capacity": "11T"}, CAPACITY),
    "both ends on one node": ({"destination": {"node": "dtn-a", "interface": "data1"}}, ONE_NODE),
}

REFUSED |= {f"other traffic of {value!r}": ({"otherTraffic": value}, SHARES) for value in (0, 33, -1, "4", "Share")}

REFUSED_BY_SCHEMA: dict[str, tuple[dict[str, Any], str]] = {
    "no node": ({"source": {"interface": "data0"}}, "spec.source.node"),
    "half a share": ({"otherTraffic": 0.5}, "spec.otherTraffic"),
    "a capacity that is no rate": ({"capacity": "fast"}, "spec.capacity"),
    "an interface that is none": ({"source": {"node": "dtn-a", "interface": "a/b"}}, "spec.source.interface"),
}

CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "another source": ({"source": {"node": "dtn-c"}}, FIXED_SOURCE),
    "another interface": ({"source": {"interface": "data1"}}, FIXED_SOURCE),
    "another destination": ({"destination": {"node": "dtn-c"}}, FIXED_DESTINATION),
}

ACCEPTED: dict[str, dict[str, Any]] = {
    "nodes alone": {},
    "interfaces": {"source": {"node": "dtn-a", "interface": "data0"}, "destination": {"node": "dtn-b", "interface": "data0"}},
    "a capacity": {"capacity": "10G"},
    **{f"other traffic of {value!r}": {"otherTraffic": value} for value in ("Spare", "Compete", 1, 32)},
}


async def _create(lab: Lab, spec: dict[str, Any]) -> KubeObject:
    return await lab.client.create(PATHS, None, network_path(**spec))


@pytest.mark.parametrize("case", REFUSED | REFUSED_BY_SCHEMA)
async def test_refuses_what_cannot_work_and_says_why(lab: Lab, case: str) -> None:
    spec, message = (REFUSED | REFUSED_BY_SCHEMA)[case]
    with pytest.raises(InvalidError) as refusal:
        await _create(lab, spec)
    assert message in str(refusal.value)


@pytest.mark.parametrize("case", CHANGES)
async def test_a_path_stays_the_one_it_is(lab: Lab, case: str) -> None:
    await _create(lab, {})
    spec, message = CHANGES[case]
    with pytest.raises(InvalidError) as refusal:
        await lab.client.merge_patch(PATHS, None, "a-b", {"spec": spec})
    assert message in str(refusal.value)


@pytest.mark.parametrize("case", ACCEPTED)
async def test_accepts(lab: Lab, case: str) -> None:
    await _create(lab, ACCEPTED[case])
    await lab.client.merge_patch(PATHS, None, "a-b", {"spec": {"capacity": "1G"}})


def test_every_rule_of_the_definition_has_a_refused_case() -> None:
    definition = yaml.safe_load((CHECKOUT / "crds" / "fairlead.io_networkpaths.yaml").read_text())
    rules = {rule["message"] for rule in _rules(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])}
    assert rules == {message for _, message in (REFUSED | CHANGES).values()}


def _rules(schema: Any) -> list[dict[str, str]]:
    if isinstance(schema, dict):
        own = schema.get("x-kubernetes-validations", [])
        return [*own, *(rule for key, part in schema.items() if key != "x-kubernetes-validations" for rule in _rules(part))]
    return [rule for part in schema for rule in _rules(part)] if isinstance(schema, list) else []


async def test_prints_the_columns_people_look_for(lab: Lab) -> None:
    await _create(lab, {})
    moment = "2026-01-01T00:00:00Z"
    background = {"class": "B1-C0", "probability": "0.9", "anyBBR": "0.9", "confidence": "0.9", "abstained": False, "model": "m"}
    status = {
        "rtt": "60.200ms",
        "capacity": "187M",
        "lastMeasuredTime": moment,
        "background": {**background, "measuredTime": moment, "probabilities": {"B1-C0": "0.9"}},
    }
    stored = await lab.client.merge_patch(PATHS, None, "a-b", {"status": status}, subresource="status")
    assert stored["status"] == status
    header, row = lab.kubectl("get", "np").stdout.splitlines()
    assert header.split() == ["NAME", "FROM", "TO", "RTT", "BACKGROUND", "CAPACITY", "MEASURED", "AGE"]
    assert row.split()[:6] == ["a-b", "dtn-a", "dtn-b", "60.200ms", "B1-C0", "187M"]
