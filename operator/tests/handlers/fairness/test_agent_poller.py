"""Which agents are asked, how often, and what their counters become."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from fairlead.handlers.fairness import agents
from fairlead.handlers.fairness.agents import LIST_AGAIN_SECONDS, LIST_SECONDS, AgentPoller
from fairlead.kube.client import KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import ForbiddenError
from fairlead.kube.observe.agents import AgentPlace
from fairlead.kube.observe.fetch import FetchError
from fairlead.kube.observe.turns import PollTurns

pytestmark = pytest.mark.asyncio

PLACE = AgentPlace("agents", "node-agent", 9811)
M = 1_000_000
OUT = "dtn-a", "data0", "Transmit"


def _pod(node: str, uid: str | None = None, address: str | None = None, *, ready: bool = True) -> KubeObject:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "node-agent", "uid": "1", "controller": True}
    return {
        "metadata": {"name": f"agent-{uid or node}", "namespace": "agents", "uid": uid or f"uid-{node}", "ownerReferences": [owner]},
        "spec": {"serviceAccountName": "node-agent", "hostNetwork": True, "nodeName": node},
        "status": {
            "phase": "Running",
            "hostIP": address or f"address of {node}",
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


class Bench:
    """Agents of nodes whose interfaces carry so much, behind an API server and a network."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pods = [_pod("dtn-a"), _pod("dtn-b")]
        self.lists: list[tuple[str | None, str | None]] = []
        self.asked: list[tuple[str, int, str]] = []
        self.failures: list[str] = []
        self.refusal: Exception | None = None
        self.clock_ahead = 0.0
        self.slow_seconds = 0.0
        self.rate_bps = 80 * M
        self.says: dict[str, Any] = {}
        self.poller = AgentPoller(
            cast(KubeClient, self),
            PLACE,
            3.0,
            turns=PollTurns(lambda: self.now),
            wall=lambda: self.now,
            on_failure=self.failures.append,
            ask=self.ask,
        )

    async def list_pages(self, resource: ResourceKind, namespace: str, *, field_selector: str) -> AsyncIterator[list[KubeObject]]:
        assert resource.plural == "pods"
        self.lists.append((namespace, field_selector))
        if self.refusal is not None:
            raise self.refusal
        yield self.pods

    async def ask(self, host: str, port: int, path: str, *, timeout_seconds: float, most_bytes: int) -> bytes | None:
        self.asked.append((host, port, path))
        answer = self.says.get(host, self.page(host))
        if isinstance(answer, Exception):
            raise answer
        return cast("bytes | None", answer)

    def page(self, host: str, **changes: Any) -> bytes:
        pod = next(each for each in self.pods if each["status"]["hostIP"] == host)
        monotonic = self.now - 400.0 + self.clock_ahead - self.slow_seconds
        count = int(self.rate_bps / 8 * (self.now - self.slow_seconds - 900.0))
        page = {
            "version": 1,
            "node": pod["spec"]["nodeName"],
            "agent": {"instance": pod["metadata"]["uid"]},
            "counters": {"data0": {"transmit_bytes": count, "receive_bytes": 0}},
            "read_at": {"monotonic_seconds": monotonic},
        }
        return json.dumps({**page, **changes}).encode()

    async def polls(self, number: int, every: float = 3.0) -> None:
        for _ in range(number):
            self.now += every
            await self.poller.poll()

    def rate(self) -> float | None:
        meter = self.poller.meters(self.now).get(OUT)
        return None if meter is None else meter.rate_bps(4.0)


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_only_wanted_nodes_are_asked_at_their_own_address(bench: Bench) -> None:
    bench.poller.want(frozenset({"dtn-a", "dtn-z"}))
    await bench.polls(3)
    assert set(bench.asked) == {("address of dtn-a", 9811, "/v1/node")}
    assert bench.lists[0] == ("agents", "spec.serviceAccountName=node-agent")
    assert bench.rate() == pytest.approx(80 * M)


async def test_a_node_that_is_no_longer_wanted_is_forgotten(bench: Bench) -> None:
    bench.poller.want(frozenset({"dtn-a"}))
    await bench.polls(3)
    bench.poller.want(frozenset({"dtn-b"}))
    assert bench.rate() is None


async def test_the_agents_clock_tells_when_it_read(bench: Bench) -> None:
    bench.poller.want(frozenset({"dtn-a"}))
    await bench.polls(3)
    bench.slow_seconds = 1.5
    await bench.polls(1)
    assert bench.rate() == pytest.approx(80 * M)


async def test_a_clock_that_was_set_counts_anew(bench: Bench) -> None:
    bench.poller.want(frozenset({"dtn-a"}))
    await bench.polls(3)
    bench.clock_ahead = -300.0
    await bench.polls(4)
    assert bench.rate() == pytest.approx(80 * M)


async def test_what_an_agent_said_long_ago_counts_no_more(bench: Bench) -> None:
    bench.poller.want(frozenset({"dtn-a"}))
    await bench.polls(3)
    bench.says["address of dtn-a"] = FetchError("no answer")
    bench.now += 21.0
    await bench.poller.poll()
    assert dict(bench.poller.meters(bench.now)) == {}


async def test_a_silent_agent_rests_and_the_others_are_asked(bench: Bench) -> None:
    bench.poller.want(frozenset({"dtn-a", "dtn-b"}))
    bench.says["address of dtn-b"] = FetchError("no answer")
    await bench.polls(20)
    hosts = [host for host, _, _ in bench.asked]
    assert hosts.count("address of dtn-a") == 20
    assert hosts.count("address of dtn-b") < 8
    assert set(bench.failures) == {"/v1/node"}


@pytest.mark.parametrize("changes", [{"node": "dtn-b"}, {"agent": {"instance": "stranger"}}, {"counters": {"data0": {}}}])
async def test_what_cannot_be_the_agents_answer_counts_for_nothing(bench: Bench, changes: dict[str, Any]) -> None:
    bench.poller.want(frozenset({"dtn-a"}))
    for _ in range(10):
        bench.says["address of dtn-a"] = bench.page("address of dtn-a", **changes)
        await bench.polls(1)
    assert bench.failures
    assert dict(bench.poller.meters(bench.now)) == {}


async def test_an_agent_that_was_replaced_is_found_and_its_counters_go_on(bench: Bench) -> None:
    bench.poller.want(frozenset({"dtn-a"}))
    await bench.polls(4)
    bench.pods[0] = _pod("dtn-a", "newer")
    bench.clock_ahead = 50.0
    await bench.polls(4)
    assert bench.rate() == pytest.approx(80 * M)
    assert len(bench.lists) == 2


async def test_while_an_agent_is_replaced_the_one_that_is_ready_is_asked(bench: Bench) -> None:
    bench.pods = [_pod("dtn-a", "old", "old address"), _pod("dtn-a", "new", "new address", ready=False)]
    bench.poller.want(frozenset({"dtn-a"}))
    await bench.polls(1)
    bench.pods = [_pod("dtn-a", "old", "old address", ready=False), _pod("dtn-a", "new", "new address")]
    bench.now += LIST_SECONDS
    await bench.poller.poll()
    assert [host for host, _, _ in bench.asked] == ["old address", "new address"]


async def test_pods_are_listed_seldom_while_their_agents_answer(bench: Bench) -> None:
    bench.poller.want(frozenset({"dtn-a", "dtn-b"}))
    await bench.polls(int(LIST_SECONDS / 3.0))
    assert len(bench.lists) == 1
    await bench.polls(2)
    assert len(bench.lists) == 2


async def test_without_the_right_to_list_pods_nobody_is_asked_and_it_is_tried_again(bench: Bench) -> None:
    bench.poller.want(frozenset({"dtn-a"}))
    bench.refusal = ForbiddenError("no right", status=403)
    await bench.polls(3)
    assert bench.asked == []
    bench.refusal = None
    bench.now += LIST_SECONDS
    await bench.poller.poll()
    assert bench.asked != []


async def test_many_nodes_are_asked_less_often(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    class StopError(Exception):
        pass

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise StopError

    poller = AgentPoller(cast(KubeClient, bench), PLACE, 3.0, turns=PollTurns(lambda: 0.0), wall=lambda: 0.0, ask=bench.ask, sleep=sleep)
    poller.want(frozenset({"dtn-a"}))
    monkeypatch.setattr(agents, "MOST_POLLS_A_SECOND", 0.1)
    with pytest.raises(StopError):
        await poller._run()
    assert slept == [10.0, 10.0]
    assert LIST_AGAIN_SECONDS < LIST_SECONDS


async def test_interfaces_that_an_agent_names_no_more_are_forgotten(bench: Bench) -> None:
    """One that names others every time would fill the operator's memory."""
    bench.poller.want(frozenset({"dtn-a"}))
    for number in range(30):
        bench.says["address of dtn-a"] = bench.page(
            "address of dtn-a",
            counters={f"eth{number}": {"transmit_bytes": 1, "receive_bytes": 1}},
            read_at={"monotonic_seconds": bench.now + 3.0},
        )
        await bench.polls(1)
    kept = {name for known in bench.poller._nodes.values() for _, name, _ in known.meters}
    assert "eth29" in kept
    assert len(kept) <= 8
