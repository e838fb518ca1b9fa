"""What is read of nodes."""

from __future__ import annotations

from typing import Any, cast

import pytest
from kube_objects import job

from fairlead.api import names
from fairlead.core.observed import NodeFacts
from fairlead.kube.client import KubeClient
from fairlead.kube.errors import NotFoundError
from fairlead.kube.observe.facts import FactReader

pytestmark = pytest.mark.asyncio


class OneNode:
    """Answers with this node, and knows no claims."""

    def __init__(self, node: dict[str, Any]) -> None:
        self.node = node

    async def get(self, kind: Any, namespace: str | None, name: str) -> dict[str, Any]:
        if namespace is not None:
            raise NotFoundError("no claims here")
        return self.node


async def _read(annotations: dict[str, str], **status: Any) -> NodeFacts:
    node = {"metadata": {"name": "dtn-a", "annotations": annotations}, "status": status}
    facts = await FactReader(cast(KubeClient, OneNode(node)), lambda: 0.0).read(job(), (), 0.0)
    return facts.nodes["dtn-a"]


async def test_a_nodes_addresses_are_those_of_its_status_without_its_names() -> None:
    addresses = [{"type": "InternalIP", "address": "198.18.0.1"}, {"type": "Hostname", "address": "dtn-a"}]
    assert (await _read({}, addresses=addresses)).addresses == {"198.18.0.1"}


@pytest.mark.parametrize(
    ("text", "networks"),
    [
        (None, None),
        ("", []),
        ("198.19.0.1", ["198.19.0.1/32"]),
        (" 198.19.0.1, 2001:db8::/64 ", ["198.19.0.1/32", "2001:db8::/64"]),
        ("198.19.0.1/24", ["198.19.0.0/24"]),
        ("data0, 198.19.0.1", ["198.19.0.1/32"]),
    ],
)
async def test_an_administrator_lists_the_addresses_of_its_data_interfaces(text: str | None, networks: list[str] | None) -> None:
    found = (await _read({} if text is None else {names.ANNOTATION_DATA_ADDRESSES: text})).data_networks
    assert (None if found is None else [str(network) for network in found]) == networks
