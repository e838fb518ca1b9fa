"""What is read of nodes and of attachments."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from kube_objects import attached_job, job

from fairlead.api import names
from fairlead.core.observed import NodeFacts
from fairlead.kube.client import ATTACHMENTS, CLAIMS, KubeClient
from fairlead.kube.errors import ForbiddenError, KubeError, NotFoundError
from fairlead.kube.observe import facts as facts_module
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


class SlowNodes:
    """Answers for any node once it may, and knows no claims."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()

    async def get(self, kind: Any, namespace: str | None, name: str) -> dict[str, Any]:
        if namespace is not None:
            raise NotFoundError("no claims here")
        self.asked.append(name)
        await self.may_answer.wait()
        return {"metadata": {"name": name}, "status": {}}


async def test_passes_that_ask_at_one_time_share_an_answer_and_one_that_gives_up_leaves_it_to_the_others() -> None:
    nodes = SlowNodes()
    reader = FactReader(cast(KubeClient, nodes), lambda: 0.0)
    first, second = (asyncio.ensure_future(reader.read(job(), (), 2.0)) for _ in range(2))
    while not nodes.asked:  # noqa: ASYNC110
        await asyncio.sleep(0)
    first.cancel()
    nodes.may_answer.set()
    assert set((await second).nodes) == set(nodes.asked)
    assert len(nodes.asked) == len(set(nodes.asked))


async def test_an_answer_that_takes_longer_than_facts_may_be_old_is_not_waited_for_by_who_comes_then() -> None:
    nodes, now = SlowNodes(), [0.0]
    reader = FactReader(cast(KubeClient, nodes), lambda: now[0])
    early = asyncio.ensure_future(reader.read(job(), (), 2.0))
    while not nodes.asked:  # noqa: ASYNC110
        await asyncio.sleep(0)
    now[0] = 2.5
    late = asyncio.ensure_future(reader.read(job(), (), 2.0))
    while len(nodes.asked) == len(set(nodes.asked)):  # noqa: ASYNC110
        await asyncio.sleep(0)
    nodes.may_answer.set()
    await asyncio.gather(early, late)


async def test_a_full_memory_forgets_what_was_asked_for_longest_ago_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts_module, "MOST_REMEMBERED", 3)
    nodes = SlowNodes()
    nodes.may_answer.set()
    reader = FactReader(cast(KubeClient, nodes), lambda: 0.0)
    for pod_nodes, asked in ((("n1",), ["dtn-a", "dtn-b", "n1"]), (("n2",), ["n2"]), (("n1", "n2"), ["dtn-a"])):
        nodes.asked.clear()
        await reader.read(job(), pod_nodes, 60.0)
        assert nodes.asked == asked


class Site:
    """Answers with ready nodes and bound claims, or not, and counts who is asked for."""

    def __init__(self) -> None:
        self.is_well = True
        self.asked: Counter[str] = Counter()

    async def get(self, kind: Any, namespace: str | None, name: str) -> dict[str, Any]:
        self.asked[kind.plural] += 1
        if kind is CLAIMS:
            phase = "Bound" if self.is_well else "Pending"
            return {"metadata": {"name": name}, "spec": {"volumeName": f"of-{name}"}, "status": {"phase": phase}}
        ready = {"type": "Ready", "status": "True" if self.is_well else "False"}
        return {"metadata": {"name": name}, "spec": {}, "status": {"conditions": [ready]}}


@pytest.mark.parametrize(
    ("is_well", "seconds", "oldest_seconds", "asked"),
    [
        (True, 9.0, 2.0, {}),
        (True, 11.0, 2.0, {"nodes": 2}),
        (True, 61.0, 2.0, {"nodes": 2, "persistentvolumeclaims": 2, "persistentvolumes": 2}),
        (True, 590.0, 600.0, {}),
        (False, 1.0, 2.0, {}),
        (False, 3.0, 2.0, {"nodes": 2, "persistentvolumeclaims": 2}),
        (False, 9.0, 600.0, {}),
        (False, 11.0, 600.0, {"nodes": 2, "persistentvolumeclaims": 2}),
    ],
)
async def test_good_news_lasts_and_bad_news_is_read_again_soon(
    is_well: bool, seconds: float, oldest_seconds: float, asked: dict[str, int]
) -> None:
    site, now = Site(), [0.0]
    site.is_well = is_well
    reader = FactReader(cast(KubeClient, site), lambda: now[0])
    await reader.read(job(), (), 2.0)
    site.asked.clear()
    now[0] = seconds
    await reader.read(job(), (), oldest_seconds)
    assert site.asked == asked


class Definitions:
    """Answers with this definition, or with this error, and with claims that are not bound."""

    def __init__(self, answer: dict[str, Any] | KubeError) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def get(self, kind: Any, namespace: str | None, name: str) -> dict[str, Any]:
        if kind is not ATTACHMENTS:
            return {"metadata": {"name": name}, "status": {}}
        self.asked.append(f"{namespace}/{name}")
        if isinstance(self.answer, KubeError):
            raise self.answer
        return self.answer


CHAIN = '{"plugins": [{"type": "macvlan"}, {"type": "bandwidth", "capabilities": {"bandwidth": true}}]}'


@pytest.mark.parametrize(
    ("answer", "refusing"),
    [
        ({"spec": {"config": CHAIN}}, {"lab-a": "macvlan", "lab-b": "macvlan"}),
        ({"spec": {"config": "{"}}, {}),
        ({"spec": {"config": 7}}, {}),
        ({"spec": {}}, {}),
        ({}, {}),
        (NotFoundError("no such kind"), {}),
        (ForbiddenError("may not read them"), {}),
    ],
)
async def test_attachments_that_refuse_a_rate_are_known_by_their_definitions(
    answer: dict[str, Any] | KubeError, refusing: dict[str, str]
) -> None:
    definitions = Definitions(answer)
    facts = await FactReader(cast(KubeClient, definitions), lambda: 0.0).read(attached_job(), (), 0.0)
    assert facts.attachments == refusing
    assert definitions.asked == ["physics/lab-a", "physics/lab-b"]


async def test_definitions_are_read_before_an_attempt_alone_and_of_attached_jobs_alone() -> None:
    definitions = Definitions({"spec": {"config": CHAIN}})
    reader = FactReader(cast(KubeClient, definitions), lambda: 0.0)
    attached = attached_job()
    begun = attached.model_copy(update={"status": attached.status.model_copy(update={"attempt_start_time": datetime.now(UTC)})})
    for each in (begun, job()):
        assert (await reader.read(each, (), 0.0)).attachments == {}
    assert definitions.asked == []
