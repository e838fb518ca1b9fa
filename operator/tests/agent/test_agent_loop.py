"""The agent's loop: one write for what changed, a sign of life every five minutes, and patience when it is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from fairlead.agent.loop import ALIVE_SECONDS, LOOK_SECONDS, Agent
from fairlead.api.datatransfernode.status import InterfaceStatus, NodeReport
from fairlead.kube.client import KubeObject, ResourceKind
from fairlead.kube.errors import AlreadyExistsError, ForbiddenError, NotFoundError, UnavailableError

pytestmark = pytest.mark.asyncio

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeServer:
    def __init__(self) -> None:
        self.exists = False
        self.requests: list[str] = []
        self.statuses: list[KubeObject] = []
        self.failures: list[Exception] = []

    async def create(self, resource: ResourceKind, namespace: str | None, body: KubeObject) -> KubeObject:
        self.requests.append(f"create {body['metadata']['name']}")
        assert body["spec"] == {}
        if self.exists:
            raise AlreadyExistsError("exists", status=409)
        self.exists = True
        return body

    async def merge_patch(
        self, resource: ResourceKind, namespace: str | None, name: str, body: KubeObject, *, subresource: str | None = None
    ) -> KubeObject:
        self.requests.append(f"patch {name}/{subresource}")
        if self.failures:
            raise self.failures.pop(0)
        if not self.exists:
            raise NotFoundError(name, status=404)
        self.statuses.append(body["status"])
        return body


class Bench:
    def __init__(self, chance: float = 0.5) -> None:
        self.server = FakeServer()
        self.seconds = 1000.0
        self.found: NodeReport | Exception = NodeReport(load="Idle")
        self.agent = Agent(
            node="dtn-a",
            look=self._look,
            client=self.server,
            now=lambda: START + timedelta(seconds=self.seconds),
            monotonic=lambda: self.seconds,
            chance=lambda: chance,
        )

    async def _look(self) -> NodeReport:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    async def run(self, seconds: float) -> int:
        """Lets the agent run for so long; returns how many reports the server took."""
        before = len(self.server.statuses)
        end = self.seconds + seconds
        while self.seconds < end:
            await self.agent.step()
            self.seconds += LOOK_SECONDS
        return len(self.server.statuses) - before


async def test_the_first_report_makes_the_object_and_is_all_that_an_agent_asks_at_first() -> None:
    bench = Bench()
    assert not bench.agent.has_reported
    assert await bench.run(60) == 1
    assert bench.server.requests == ["patch dtn-a/status", "create dtn-a", "patch dtn-a/status"]
    assert bench.agent.has_reported


async def test_one_that_exists_is_not_made() -> None:
    bench = Bench()
    bench.server.exists = True
    assert await bench.run(60) == 1
    assert bench.server.requests == ["patch dtn-a/status"]


async def test_without_news_there_are_twelve_reports_an_hour() -> None:
    bench = Bench(chance=0.0)
    await bench.run(60)
    assert await bench.run(3600) == 12
    times = [datetime.fromisoformat(status["lastReportTime"]) for status in bench.server.statuses[1:]]
    assert {(later - earlier).total_seconds() for earlier, later in pairwise(times)} == {300.0}


async def test_agents_spread_their_reports() -> None:
    bench = Bench(chance=1.0)
    await bench.run(60)
    assert await bench.run(3600) == 13


async def test_a_lost_carrier_is_written_at_the_next_look() -> None:
    bench = Bench()
    await bench.run(60)
    bench.found = NodeReport(interfaces=(InterfaceStatus(name="data0", carrier=False),))
    assert await bench.run(LOOK_SECONDS) == 1
    assert bench.server.statuses[-1]["interfaces"][0]["carrier"] is False


async def test_a_link_that_comes_and_goes_all_the_time_is_written_every_ten_seconds_at_most() -> None:
    bench = Bench()
    await bench.run(60)
    taken = 0
    for position in range(60):
        bench.found = NodeReport(interfaces=(InterfaceStatus(name="data0", carrier=position % 2 == 0),))
        taken += await bench.run(LOOK_SECONDS)
    assert taken <= 30


@pytest.mark.parametrize("failure", [UnavailableError("gone"), ForbiddenError("no", status=403)])
async def test_a_refused_report_is_tried_again_later_and_later(failure: Exception) -> None:
    bench = Bench()
    bench.server.exists = True
    bench.server.failures = [failure] * 100
    await bench.run(3600)
    assert 30 <= bench.agent.failed_writes <= 70
    bench.server.failures = []
    assert await bench.run(120) == 1


async def test_an_object_that_is_deleted_comes_back_with_the_next_report() -> None:
    bench = Bench()
    await bench.run(60)
    bench.server.exists = False
    assert await bench.run(300) == 1
    assert bench.server.exists


async def test_an_agent_that_cannot_look_is_not_alive_for_long() -> None:
    bench = Bench()
    await bench.run(60)
    bench.found = OSError("no netlink")
    await bench.run(ALIVE_SECONDS - 2 * LOOK_SECONDS)
    assert bench.agent.is_alive
    await bench.run(3 * LOOK_SECONDS)
    assert not bench.agent.is_alive
    bench.found = NodeReport()
    await bench.run(LOOK_SECONDS)
    assert bench.agent.is_alive
