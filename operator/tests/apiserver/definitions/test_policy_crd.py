"""What the API server makes of FairnessPolicies by the CustomResourceDefinition alone."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml
from control_plane import CHECKOUT
from lab import Lab, fairness_policy

from fairlead.api.fairnesspolicy.spec import MOST_LINKS
from fairlead.kube.client import POLICIES, KubeObject
from fairlead.kube.errors import InvalidError, NotFoundError


def _link(name: str = "out", **fields: Any) -> dict[str, Any]:
    interface = {"node": "dtn-a", "name": "data0", "direction": "Transmit"}
    return {"name": name, "interfaces": [interface], "capacity": "10G", **fields}


def _path_link(name: str = "wan", **fields: Any) -> dict[str, Any]:
    return {"name": name, "networkPath": "a-b", **fields}


def _tenant(name: str = "astro", **fields: Any) -> dict[str, Any]:
    return {"name": name, "namespaceSelector": {"matchLabels": {"team": name}}, **fields}


CAPACITY = "capacity must lie between 1M and 10T: it is in decimal bits per second"
TOO_MUCH = "headroom and floor together exceed capacity: lower one of them"
ONE_THING = "a link is either interfaces or a networkPath: give exactly one of the two"
NO_CAPACITY = "capacity is missing: give it; only a link by networkPath may leave it to the path's spec.capacity"
NO_FLOOR = "floor must be above 0: jobs cannot run on nothing; give e.g. 1%"
WITHIN_LIMIT = "guarantee must not exceed limit: lower guarantee or raise limit"
LEAST_LIMIT = "limit must be at least 1M: it is in decimal bits per second; leave it out for no limit"
VALUES = "matchExpressions: In and NotIn need values, Exists and DoesNotExist must have none: correct values"

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a capacity of zero": ({"links": [_link(capacity="0")]}, CAPACITY),
    "a capacity beyond reason": ({"links": [_link(capacity="11T")]}, CAPACITY),
    "headroom and floor beyond the capacity": ({"links": [_link(headroom="95%")]}, TOO_MUCH),
    "a rate as headroom beyond the capacity": ({"links": [_link(headroom="9.5G")]}, TOO_MUCH),
    "no floor": ({"links": [_link(floor="0%")]}, NO_FLOOR),
    "no floor of a path's capacity": ({"links": [_path_link(floor="0")]}, NO_FLOOR),
    "a link that is nothing": ({"links": [{"name": "out", "capacity": "1G"}]}, ONE_THING),
    "a link that is both interfaces and a path": ({"links": [_link(networkPath="a-b")]}, ONE_THING),
    "interfaces without a capacity": ({"links": [{key: value for key, value in _link().items() if key != "capacity"}]}, NO_CAPACITY),
    "a tenant's guarantee above its limit": ({"tenants": [_tenant(guarantee="2G", limit="1G")]}, WITHIN_LIMIT),
    "others' guarantee above their limit": ({"others": {"guarantee": "2G", "limit": "1G"}}, WITHIN_LIMIT),
    "a limit of zero": ({"tenants": [_tenant(limit="0")]}, LEAST_LIMIT),
    "a tenant named others": (
        {"tenants": [_tenant("others")]},
        "name 'others' stands for namespaces that no tenant selects: use spec.others for their share",
    ),
    "an empty selector": (
        {"tenants": [_tenant(namespaceSelector={})]},
        "namespaceSelector is empty: give matchLabels or matchExpressions",
    ),
    "In without values": ({"tenants": [_tenant(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "In"}]})]}, VALUES),
    "Exists with values": (
        {"tenants": [_tenant(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]})]},
        VALUES,
    ),
}

REFUSED_BY_SCHEMA: dict[str, tuple[dict[str, Any], str]] = {
    "no links": ({"links": []}, "spec.links"),
    "a capacity that is no rate": ({"links": [_link(capacity="fast")]}, "spec.links[0].capacity"),
    "a capacity with a binary suffix": ({"links": [_link(capacity="10Gi")]}, "spec.links[0].capacity"),
    "headroom of everything": ({"links": [_link(headroom="100%")]}, "spec.links[0].headroom"),
    "a weight of zero": ({"tenants": [_tenant(weight=0)]}, "spec.tenants[0].weight"),
    "a direction there is not": ({"links": [_link(interfaces=[{"node": "a", "name": "b", "direction": "Up"}])]}, "direction"),
    "a path's name that is none": ({"links": [_path_link(networkPath="A_B")]}, "spec.links[0].networkPath"),
    "a link without interfaces": ({"links": [_link(interfaces=[])]}, "spec.links[0].interfaces"),
    "two links of one name": ({"links": [_link(), _link()]}, "spec.links[1]"),
    "a pattern that names no node": ({"interfaces": [{"nodes": ["dtn/*"], "names": ["data0"]}]}, "spec.interfaces[0].nodes[0]"),
    "a pattern that names no interface": ({"interfaces": [{"nodes": ["*"], "names": ["data 0"]}]}, "spec.interfaces[0].names[0]"),
    "interfaces without names": ({"interfaces": [{"nodes": ["*"], "names": []}]}, "spec.interfaces[0].names"),
    "two tenants of one name": ({"tenants": [_tenant(), _tenant()]}, "spec.tenants[1]"),
}

ACCEPTED: dict[str, dict[str, Any]] = {
    "the least there is": {},
    "rates instead of percentages": {"links": [_link(headroom="1G", floor="500M")]},
    "headroom and floor that make up the capacity": {"links": [_link(headroom="90%", floor="10%")]},
    "an uplink of several interfaces": {
        "links": [_link(interfaces=[{"node": f"dtn-{n}", "name": "data0", "direction": "Receive"} for n in "abc"])]
    },
    "a path with its own capacity, and one with the path's": {"links": [_path_link(), _path_link("uplink", capacity="1G")]},
    "an interface in two links": {"links": [_link(), _link("uplink")]},
    "data interfaces beside those of links": {"interfaces": [{"nodes": ["dtn-*", "gate-1"], "names": ["bond?", "ens1f0np0.*"]}]},
    "everything of a tenant": {"tenants": [_tenant(weight=7, guarantee="1G", limit="1G")], "others": {"weight": 1}},
    "requirements": {
        "tenants": [
            _tenant(
                namespaceSelector={
                    "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}, {"key": "c", "operator": "DoesNotExist"}]
                }
            )
        ]
    },
    "as many as there may be": {
        "links": [_link(f"link-{n}") for n in range(MOST_LINKS)],
        "tenants": [_tenant(f"tenant-{n}", guarantee="1G", limit="2G") for n in range(128)],
    },
}


@pytest.fixture
async def policies(lab: Lab) -> AsyncIterator[Lab]:
    yield lab
    with contextlib.suppress(NotFoundError):
        policy = await lab.client.get(POLICIES, None, "site")
        await lab.client.delete(POLICIES, None, "site", uid=policy["metadata"]["uid"])


async def _create(lab: Lab, spec: dict[str, Any]) -> KubeObject:
    return await lab.client.create(POLICIES, None, fairness_policy(**{"links": [_link()], **spec}))


@pytest.mark.parametrize("case", REFUSED | REFUSED_BY_SCHEMA)
async def test_refuses_what_cannot_work_and_says_why(policies: Lab, case: str) -> None:
    spec, message = (REFUSED | REFUSED_BY_SCHEMA)[case]
    with pytest.raises(InvalidError) as refusal:
        await _create(policies, spec)
    assert message in str(refusal.value)


@pytest.mark.parametrize("case", ACCEPTED)
async def test_accepts(policies: Lab, case: str) -> None:
    await _create(policies, ACCEPTED[case])


def test_every_rule_of_the_definition_has_a_refused_case() -> None:
    definition = yaml.safe_load((CHECKOUT / "crds" / "fairlead.io_fairnesspolicies.yaml").read_text())
    rules = {rule["message"] for rule in _rules(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])}
    assert rules == {message for _, message in REFUSED.values()}


def _rules(schema: Any) -> list[dict[str, str]]:
    if isinstance(schema, dict):
        own = schema.get("x-kubernetes-validations", [])
        return [*own, *(rule for key, part in schema.items() if key != "x-kubernetes-validations" for rule in _rules(part))]
    return [rule for part in schema for rule in _rules(part)] if isinstance(schema, list) else []


async def test_fills_in_defaults(policies: Lab) -> None:
    spec = (await _create(policies, {"tenants": [_tenant()]}))["spec"]
    assert (spec["links"][0]["headroom"], spec["links"][0]["floor"]) == ("10%", "10%")
    assert (spec["tenants"][0]["weight"], spec["others"]) == (100, {"weight": 100})


async def test_prints_the_columns_people_look_for(policies: Lab) -> None:
    await _create(policies, {})
    moment = "2026-01-01T00:00:00Z"
    condition = {"status": "True", "reason": "InForce", "message": "x", "lastTransitionTime": moment}
    status = {
        "conditions": [{"type": "Accepted", **condition}, {"type": "GuaranteesMet", **condition}],
        "jobs": 3,
        "waiting": 1,
        "jainIndex": "0.998",
    }
    await policies.client.merge_patch(POLICIES, None, "site", {"status": status}, subresource="status")
    header, row = policies.kubectl("get", "fp").stdout.splitlines()
    assert header.split() == ["NAME", "ACCEPTED", "GUARANTEES", "JOBS", "WAITING", "JAIN", "AGE"]
    assert row.split()[:-1] == ["site", "True", "True", "3", "1", "0.998"]
