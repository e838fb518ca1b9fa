"""What one pass gets to decide by: reports are taken as they are known, without endpoints that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from kube_objects import job, pod_body

from fairlead.api.transferjob import TransferJob
from fairlead.core.observed import MoverPod, NodeFacts
from fairlead.core.reports import MoverEndpoint, Reports
from fairlead.core.settings import OperatorSettings
from fairlead.kube.client import KubeClient
from fairlead.kube.observe.facts import ClusterFacts, FactReader
from fairlead.kube.observe.gather import Gatherer
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
