"""What is read of the volumes behind claims."""

from __future__ import annotations

from typing import Any, cast

import pytest
from kube_objects import job

from fairlead.core.observed import ClaimFacts
from fairlead.core.placement.model import LabelRule
from fairlead.kube.client import CLAIMS, NODES, KubeClient
from fairlead.kube.observe.facts import FactReader

pytestmark = pytest.mark.asyncio


class OneVolume:
    """Answers with a claim that is bound to this volume."""

    def __init__(self, volume: dict[str, Any]) -> None:
        self.volume = volume

    async def get(self, kind: Any, namespace: str | None, name: str) -> dict[str, Any]:
        if kind is CLAIMS:
            return {"status": {"phase": "Bound"}, "spec": {"volumeName": "volume"}}
        return {"metadata": {"name": name}} if kind is NODES else self.volume


async def _read(*terms: dict[str, Any], **annotations: str) -> ClaimFacts:
    volume: dict[str, Any] = {"metadata": {"annotations": {key.replace("_", "/"): value for key, value in annotations.items()}}, "spec": {}}
    if terms:
        volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": list(terms)}}
    facts = await FactReader(cast(KubeClient, OneVolume(volume)), lambda: 0.0).read(job(), (), 0.0)
    return next(iter(facts.claims.values()))


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


async def test_a_volume_of_one_node_is_confined_to_it() -> None:
    facts = await _read({"matchExpressions": [_expression("kubernetes.io/hostname", "In", "dtn-a")]})
    assert facts.node == "dtn-a"


async def test_a_volume_of_a_zone_keeps_the_zones_rules() -> None:
    fields = [_expression("metadata.name", "NotIn", "dtn-c")]
    facts = await _read({"matchExpressions": [_expression("zone", "In", "a", "b")]}, {"matchFields": fields})
    assert (facts.node, facts.affinity) == (
        None,
        ((LabelRule("zone", "In", ("a", "b")),), (LabelRule("metadata.name", "NotIn", ("dtn-c",)),)),
    )


async def test_a_volume_that_can_be_used_everywhere_has_no_rules() -> None:
    assert (await _read()).affinity is None


@pytest.mark.parametrize(("text", "expected"), [("1", 1), ("", None), ("-1", None), ("two", None)])
async def test_an_administrator_says_which_numa_node_a_disk_is_on(text: str, expected: int | None) -> None:
    assert (await _read(**{"fairlead.io_numa-node": text})).disk_numa_node == expected
