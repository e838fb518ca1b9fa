"""Jobs that share a link by a FairnessPolicy, over the whole operator and a real API server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from kubelet import FakeNodes
from lab import Lab, eventually, fairness_policy, network_path

from fairlead.api import names
from fairlead.kube.client import JOBS, PATHS, POLICIES, KubeObject
from fairlead.kube.errors import NotFoundError
from fairlead_dev.promtool import complaints

OUT = {"name": "out", "interfaces": [{"node": "dtn-a", "name": "data0", "direction": "Transmit"}], "capacity": "1G", "headroom": "0"}


@pytest.fixture
async def sharing(lab: Lab) -> AsyncIterator[Lab]:
    yield lab
    with contextlib.suppress(NotFoundError):
        await _delete(lab)


@asynccontextmanager
async def _busy_nodes(lab: Lab) -> AsyncIterator[FakeNodes]:
    """Nodes whose movers use all that they may, so that nobody is taken to be limited elsewhere."""
    async with FakeNodes(lab.client, lab.namespace).running() as nodes:
        nodes.speed_bytes_per_second = 1.25e9
        nodes.progress |= {"bytes_total": 10**15}
        yield nodes


async def _create(lab: Lab, **spec: Any) -> KubeObject:
    return await lab.client.create(POLICIES, None, fairness_policy(**{"links": [OUT], **spec}))


async def _delete(lab: Lab) -> None:
    policy = await lab.client.get(POLICIES, None, "site")
    await lab.client.delete(POLICIES, None, "site", uid=policy["metadata"]["uid"])


async def _mover(lab: Lab, job: str, role: str) -> KubeObject | None:
    for pod in await lab.pods():
        if pod["metadata"]["annotations"].get(names.ANNOTATION_JOB) == job and pod["metadata"]["labels"].get(names.LABEL_ROLE) == role:
            return pod
    return None


async def _start(lab: Lab, nodes: FakeNodes, job: str) -> KubeObject:
    """Both movers of the job; returns the sender as it was created."""
    receiver = await eventually(lambda: _mover(lab, job, "receiver"), f"the receiver of {job}", lambda: lab.job(job))
    await nodes.start(receiver)
    sender = await eventually(lambda: _mover(lab, job, "sender"), f"the sender of {job}", lambda: lab.job(job))
    await nodes.start(sender)
    return sender


async def _cap_becomes(lab: Lab, job: str, holds: Callable[[str | None], bool]) -> None:
    async def look() -> bool:
        pod = await _mover(lab, job, "sender")
        assert pod is not None
        cap = pod["metadata"]["annotations"].get(names.ANNOTATION_EGRESS_BANDWIDTH)
        status = ((await lab.job(job)).get("status") or {}).get("bandwidth") or {}
        return holds(cap) and status.get("allocated") == cap

    await eventually(look, f"the cap of {job}", lambda: _mover(lab, job, "sender"))


async def test_two_jobs_share_by_weight_and_a_change_of_weight_moves_both_caps(sharing: Lab) -> None:
    await _create(sharing)
    async with sharing.operator(), _busy_nodes(sharing) as nodes:
        await sharing.create_job("one")
        first = await _start(sharing, nodes, "one")
        assert first["metadata"]["annotations"][names.ANNOTATION_EGRESS_BANDWIDTH] == "1G"
        await sharing.create_job("three", bandwidth={"weight": 300})
        await _start(sharing, nodes, "three")
        await _cap_becomes(sharing, "one", lambda cap: cap == "250M")
        await _cap_becomes(sharing, "three", lambda cap: cap == "750M")
        await sharing.client.merge_patch(JOBS, sharing.namespace, "one", {"spec": {"bandwidth": {"weight": 300}}})
        await _cap_becomes(sharing, "one", lambda cap: cap == "500M")
        await _cap_becomes(sharing, "three", lambda cap: cap == "500M")
        assert ((await sharing.job("one"))["status"]["bandwidth"])["enforcedBy"] == "Pacing"
        await _delete(sharing)
        await _cap_becomes(sharing, "one", lambda cap: cap is None)
        await _cap_becomes(sharing, "three", lambda cap: cap is None)


async def test_each_path_of_a_job_shares_its_own_link_and_the_sender_has_a_cap_for_each(sharing: Lab) -> None:
    other = {**OUT, "name": "out1", "interfaces": [{"node": "dtn-a", "name": "data1", "direction": "Transmit"}], "capacity": "500M"}
    await _create(sharing, links=[OUT, other])

    def between(name: str, **interfaces: Any) -> dict[str, KubeObject]:
        """Both ends of a job that names these interfaces."""
        spec = sharing.manifest(name)["spec"]
        return {end: {**spec[end], **interfaces} for end in ("source", "destination")}

    async def caps_become(job: str, expected: tuple[str | None, str | None]) -> None:
        async def look() -> bool:
            pod = await _mover(sharing, job, "sender")
            assert pod is not None
            annotations = pod["metadata"]["annotations"]
            return (annotations.get(names.ANNOTATION_EGRESS_BANDWIDTH), annotations.get(names.ANNOTATION_PATH_BANDWIDTH)) == expected

        await eventually(look, f"the caps of {job}", lambda: _mover(sharing, job, "sender"))

    async with sharing.operator(), _busy_nodes(sharing) as nodes:
        await sharing.create_job("wide", **between("wide", interfaces=["data0", "data1"]))
        made = (await _start(sharing, nodes, "wide"))["metadata"]["annotations"]
        assert (made[names.ANNOTATION_EGRESS_BANDWIDTH], made[names.ANNOTATION_PATH_BANDWIDTH]) == ("1500M", "1G,500M")
        await sharing.create_job("narrow", **between("narrow", interface="data1"))
        await _start(sharing, nodes, "narrow")
        await caps_become("wide", ("1250M", "1G,250M"))
        await _cap_becomes(sharing, "narrow", lambda cap: cap == "250M")
        await _cap_becomes(sharing, "wide", lambda cap: cap == "1250M")
        await sharing.client.merge_patch(JOBS, sharing.namespace, "wide", {"spec": {"bandwidth": {"limit": "600M"}}})
        await caps_become("wide", ("600M", "350M,250M"))
        await _delete(sharing)
        await caps_become("wide", ("600M", None))


async def test_a_jobs_own_limit_leaves_the_rest_to_the_other(sharing: Lab) -> None:
    await _create(sharing)
    async with sharing.operator(), _busy_nodes(sharing) as nodes:
        await sharing.create_job("small", bandwidth={"limit": "100M"})
        await _start(sharing, nodes, "small")
        await sharing.create_job("large")
        await _start(sharing, nodes, "large")
        await _cap_becomes(sharing, "small", lambda cap: cap == "100M")
        await _cap_becomes(sharing, "large", lambda cap: cap == "900M")


async def test_a_job_whose_guarantee_has_no_room_waits_with_its_place_until_the_other_is_suspended(sharing: Lab) -> None:
    await _create(sharing)
    async with sharing.operator(), _busy_nodes(sharing) as nodes:
        await sharing.create_job("first", bandwidth={"guarantee": "700M"})
        await _start(sharing, nodes, "first")
        await sharing.create_job("second", bandwidth={"guarantee": "500M"})
        waiting = await sharing.condition("Scheduled", "False", name="second")
        assert waiting["reason"] == "WaitingForLink"
        assert "link out has promised 700M of 1G" in waiting["message"]
        assert "first in its queue" in waiting["message"]
        assert (await sharing.job("second"))["status"]["phase"] == "Pending"
        assert await _mover(sharing, "second", "receiver") is None
        await sharing.client.merge_patch(JOBS, sharing.namespace, "first", {"spec": {"suspend": True}})
        await _start(sharing, nodes, "second")
        await sharing.condition("MoversReady", name="second")


async def test_the_policy_says_what_its_links_and_tenants_have(sharing: Lab) -> None:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": sharing.namespace}}
    nobody = {"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}}
    tenants = [{"name": "lab", "namespaceSelector": selector}, {"name": "ghost", "namespaceSelector": nobody, "guarantee": "2G"}]
    await _create(sharing, tenants=tenants)
    async with sharing.operator(), _busy_nodes(sharing) as nodes:
        await sharing.create_job()
        await _start(sharing, nodes, "job")

        async def status() -> KubeObject | None:
            found: KubeObject = (await sharing.client.get(POLICIES, None, "site")).get("status") or {}
            return found if found.get("jobs") == 1 and found["links"][0]["allocated"] != "0" else None

        shown = await eventually(status, "figures", lambda: sharing.client.get(POLICIES, None, "site"))
    conditions = {condition["type"]: condition for condition in shown["conditions"]}
    assert {kind: (c["status"], c["reason"]) for kind, c in conditions.items()} == {
        "Accepted": ("True", "InForce"),
        "LinksResolved": ("True", "AllResolved"),
        "TenantsMatched": ("False", "SelectorMatchesNothing"),
        "GuaranteesMet": ("True", "GuaranteesFit"),
        "SharesExact": ("True", "Exact"),
    }
    assert "ghost" in conditions["TenantsMatched"]["message"]
    assert {tenant["name"]: tenant["jobs"] for tenant in shown["tenants"]} == {"lab": 1, "ghost": 0, "others": 0}
    assert shown["observedGeneration"] == 1


@pytest.mark.long
async def test_jobs_on_a_path_share_what_it_declares_and_a_path_that_is_not_there_is_named(sharing: Lab) -> None:
    path = await sharing.client.create(PATHS, None, network_path("a-b", capacity="400M"))
    try:
        await _create(sharing, links=[{"name": "wan", "networkPath": "a-b", "headroom": "0"}, {"name": "typo", "networkPath": "a-c"}])
        async with sharing.operator(), _busy_nodes(sharing) as nodes:
            for name in ("one", "two"):
                await sharing.create_job(name)
                await _start(sharing, nodes, name)
            for name in ("one", "two"):
                await _cap_becomes(sharing, name, lambda cap: cap == "200M")

            async def resolved() -> KubeObject | None:
                status = (await sharing.client.get(POLICIES, None, "site")).get("status") or {}
                shown = [link for link in status.get("links", []) if link["jobs"] == 2]
                return status if shown else None

            status = await eventually(resolved, "figures", lambda: sharing.client.get(POLICIES, None, "site"))
        (wan,) = status["links"]
        assert (wan["capacity"], wan["capacitySource"], "foreign" in wan) == ("400M", "NetworkPath", False)
        (unresolved,) = (each for each in status["conditions"] if each["type"] == "LinksResolved")
        assert (unresolved["status"], unresolved["reason"]) == ("False", "PathNotFound")
        assert "link typo: NetworkPath a-c does not exist" in unresolved["message"]
    finally:
        await sharing.client.delete(PATHS, None, "a-b", uid=path["metadata"]["uid"])


async def test_a_restarted_operator_leaves_running_caps_as_they_are(sharing: Lab) -> None:
    await _create(sharing)
    async with _busy_nodes(sharing) as nodes:
        async with sharing.operator():
            for name in ("one", "two"):
                await sharing.create_job(name)
                await _start(sharing, nodes, name)
            for name in ("one", "two"):
                await _cap_becomes(sharing, name, lambda cap: cap == "500M")
        before = {name: await _mover(sharing, name, "sender") for name in ("one", "two")}
        async with sharing.operator():

            async def first_round() -> str | None:
                async with aiohttp.ClientSession() as session, session.get("http://127.0.0.1:19090/metrics") as response:
                    text = await response.text()
                return text if 'fairlead_operator_link_jobs{link="out"} 2.0' in text else None

            page = await eventually(first_round, "a round of the new operator")
            after = {name: await _mover(sharing, name, "sender") for name in ("one", "two")}
    assert {name: pod and pod["metadata"]["annotations"] for name, pod in before.items()} == {
        name: pod and pod["metadata"]["annotations"] for name, pod in after.items()
    }
    assert complaints(page) == ""
