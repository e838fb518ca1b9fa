"""What one pass gets to decide by: reports are taken as they are known, without endpoints that cannot be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from kube_objects import UID, attached_job, job, job_body, pod_body

from fairlead.api.transferjob import TransferJob
from fairlead.core.observed import MoverPod, NodeFacts, Role
from fairlead.core.reports import MoverEndpoint, MoverProgress, Reports
from fairlead.core.settings import OperatorSettings
from fairlead.kube.client import EVENTS, PODS, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import ForbiddenError, NotFoundError
from fairlead.kube.observe.facts import ClusterFacts, FactReader
from fairlead.kube.observe.gather import FRESH_SECONDS, SETTLED_SECONDS, Gatherer
from fairlead.kube.observe.pods import read_owned_pod

pytestmark = pytest.mark.asyncio


class FakeFacts:
    async def read(self, *_: Any) -> ClusterFacts:
        return ClusterFacts(nodes={"dtn-b": NodeFacts(exists=True, ready=True)}, claims={})


class FakeReports:
    def __init__(self) -> None:
        self.endpoint = MoverEndpoint("data0", "198.19.0.2", 24000)

    def latest(self, job: TransferJob, pods: Sequence[MoverPod]) -> Reports:
        return Reports(receiver_endpoint=self.endpoint)


def _pod(address: str, node: str) -> MoverPod:
    body = pod_body(status={"phase": "Running", "podIP": address})
    body["spec"] |= {"hostNetwork": True, "nodeName": node}
    owned = read_owned_pod(body)
    assert owned is not None
    return owned.pod


async def test_the_address_of_a_node_that_another_jobs_pod_showed_is_no_endpoint_of_this_one() -> None:
    reports = FakeReports()
    gatherer = Gatherer(cast(KubeClient, None), cast(FactReader, FakeFacts()), reports, OperatorSettings())
    own = _pod("198.18.0.2", "dtn-b")
    assert (await gatherer.observe(job(), [own])).reports.receiver_endpoint == reports.endpoint
    reports.endpoint = replace(reports.endpoint, address="198.18.0.7")
    assert (await gatherer.observe(job(), [own])).reports.receiver_endpoint is not None
    await gatherer.observe(job("another"), [_pod("198.18.0.7", "dtn-c")])
    observed = await gatherer.observe(job(), [own])
    assert observed.reports.receiver_endpoint is None
    (refusal,) = observed.reports.refusals
    assert "is an address of node dtn-c, and its pod is on node dtn-b" in refusal.message


class AgedFacts(FakeFacts):
    """Keeps how old facts may be."""

    def __init__(self) -> None:
        self.most_seconds: list[float] = []

    async def read(self, *asked: Any) -> ClusterFacts:
        self.most_seconds.append(asked[2])
        return await super().read(*asked)


class Told:
    def __init__(self, reports: Reports) -> None:
        self.reports = reports

    def latest(self, job: TransferJob, pods: Sequence[MoverPod]) -> Reports:
        return self.reports


async def test_the_nodes_of_movers_that_have_fallen_silent_are_looked_at_again() -> None:
    facts, told = AgedFacts(), Told(Reports(sender=MoverProgress("Transferring", 1000, 100, 0, 10, 1, 0, 100.0)))
    gatherer = Gatherer(cast(KubeClient, None), cast(FactReader, facts), told, OperatorSettings())
    receiver = _pod("198.18.0.2", "dtn-b")
    movers = [receiver, replace(receiver, uid="other", role=Role.SENDER)]
    await gatherer.observe(job(), movers)
    told.reports = Reports()
    await gatherer.observe(job(), movers)
    assert facts.most_seconds == [SETTLED_SECONDS, FRESH_SECONDS]


KUBELET = {"reportingComponent": "kubelet"}
FIRST = {**KUBELET, "message": "no definition", "lastTimestamp": "2026-01-01T00:00:01Z"}
LATEST = {**KUBELET, "message": "no address\nleft", "lastTimestamp": "2026-01-01T00:00:09Z"}
STRANGE = {"reportingComponent": "somebody", "message": "all is well", "lastTimestamp": "2026-01-01T00:00:10Z"}


class FakeEvents:
    """Events of pods as the API server lists them; None withholds the right to read them."""

    def __init__(self, events: list[KubeObject] | None) -> None:
        self.events = events
        self.asked: list[str | None] = []

    async def list_pages(
        self, resource: ResourceKind, namespace: str | None = None, *, field_selector: str | None = None
    ) -> AsyncIterator[list[KubeObject]]:
        assert (resource, namespace) == (EVENTS, "physics")
        self.asked.append(field_selector)
        if self.events is None:
            raise ForbiddenError("events is forbidden", status=403)
        yield self.events


def _starting(**status: object) -> MoverPod:
    body = pod_body(status={"phase": "Pending", **status})
    body["spec"] |= {"nodeName": "dtn-b"}
    owned = read_owned_pod(body)
    assert owned is not None
    return owned.pod


@pytest.mark.parametrize(
    ("events", "told"),
    [([FIRST, LATEST, STRANGE], "no address left"), ([STRANGE], ""), ([], ""), (None, "")],
    ids=["the kubelet's latest", "somebody else's", "none", "no right to read them"],
)
async def test_an_attached_pod_without_address_is_explained_by_the_kubelets_events(events: list[KubeObject] | None, told: str) -> None:
    client, pod = FakeEvents(events), _starting()
    gatherer = Gatherer(cast(KubeClient, client), cast(FactReader, FakeFacts()), FakeReports(), OperatorSettings())
    observed = await gatherer.observe(attached_job(), [pod])
    assert observed.network_failures == ({pod.uid: told} if told else {})
    assert client.asked == [f"involvedObject.uid={pod.uid},reason=FailedCreatePodSandBox"]


async def test_no_events_are_read_of_pods_that_have_an_address_or_no_attachment() -> None:
    client = FakeEvents([LATEST])
    gatherer = Gatherer(cast(KubeClient, client), cast(FactReader, FakeFacts()), FakeReports(), OperatorSettings())
    await gatherer.observe(attached_job(), [_starting(podIP="198.18.65.7")])
    await gatherer.observe(job(), [_starting()])
    assert client.asked == []


class FakePods:
    """Pods by name, as the API server has them."""

    def __init__(self, *pods: KubeObject) -> None:
        self.pods = {pod["metadata"]["name"]: pod for pod in pods}
        self.asked: list[str] = []

    async def get(self, resource: ResourceKind, namespace: str, name: str) -> KubeObject:
        assert (resource, namespace) == (PODS, "physics")
        self.asked.append(name)
        if name not in self.pods:
            raise NotFoundError(name)
        return self.pods[name]


async def test_a_recorded_pod_that_no_list_shows_is_read_by_its_name() -> None:
    stripped = pod_body(uid="receiver", labels={}, ownerReferences=[])
    another = {**pod_body("sender", uid="another"), "status": {"phase": "Running"}}
    records = [
        {"uid": uid, "name": name, "role": role, "attempt": 1}
        for uid, name, role in (
            ("receiver", stripped["metadata"]["name"], "receiver"),
            ("sender", another["metadata"]["name"], "sender"),
            ("gone", "run42-gone", "sender"),
            ("listed", "run42-listed", "cleaner"),
        )
    ]
    body = {**job_body(), "status": {"pods": [*records, "odd", {"uid": "odd"}]}}
    client = FakePods(stripped, another)
    gatherer = Gatherer(cast(KubeClient, client), cast(FactReader, FakeFacts()), FakeReports(), OperatorSettings())
    (found,) = await gatherer.read_unlisted_pods(body, {"listed"})
    assert (found.job_name, found.job_uid) == ("run42", UID)
    assert (found.pod.uid, found.pod.role, found.pod.attempt) == ("receiver", Role.RECEIVER, 1)
    assert client.asked == [stripped["metadata"]["name"], another["metadata"]["name"], "run42-gone"]
