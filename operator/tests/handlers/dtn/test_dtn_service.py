"""How the operator follows data transfer nodes: what decisions see, and one write for what changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from fake_timers import FakeTimers

from fairlead.api.networkpath import NetworkPath
from fairlead.core.dtn import SILENT_AFTER
from fairlead.handlers.dtn.follow import Follower
from fairlead.handlers.dtn.service import DtnService
from fairlead.handlers.dtn.store import DtnStore
from fairlead.handlers.metrics import OperatorMetrics
from fairlead.kube.client import DTNS, Change, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import ConflictError, ForbiddenError, NotFoundError, UnavailableError

pytestmark = pytest.mark.asyncio

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
DATA0 = {"name": "data0", "rate": "100G", "addresses": ["198.18.0.1/24"], "carrier": True}


class FakeServer:
    """The API server's part: collections by kind, and statuses that are merged."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, KubeObject]] = {"datatransfernodes": {}, "nodes": {}}
        self.writes: list[str] = []
        self.failure: Exception | None = None
        self._version = 0

    def put(self, kind: str, name: str, **parts: Any) -> KubeObject:
        self._version += 1
        known = self.objects[kind].get(name, {})
        metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self._version), "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.objects[kind][name] = {"spec": {}, **known, **parts, "metadata": {**metadata, **parts.get("metadata", {})}}
        return self.objects[kind][name]

    async def list_pages(self, resource: ResourceKind, *, on_version: Callable[[str], None]) -> AsyncIterator[list[KubeObject]]:
        if self.failure is not None:
            raise self.failure
        on_version(str(self._version))
        yield list(self.objects[resource.plural].values())

    async def merge_patch(
        self, resource: ResourceKind, namespace: str | None, name: str, body: KubeObject, *, subresource: str
    ) -> KubeObject:
        if name not in self.objects[resource.plural]:
            raise NotFoundError(name, status=404)
        self.writes.append(name)
        status = {**self.objects[resource.plural][name].get("status", {}), **body["status"]}
        return self.put(resource.plural, name, status={key: value for key, value in status.items() if value is not None})


class Bench:
    def __init__(self) -> None:
        self.server = FakeServer()
        self.now = START
        self.movers: dict[str, int] = {}
        self.paths: tuple[NetworkPath, ...] = ()
        self.store = DtnStore()
        self.metrics = OperatorMetrics()
        self.service = DtnService(
            store=self.store,
            client=cast(KubeClient, self.server),
            metrics=self.metrics,
            timers=FakeTimers(),
            now=lambda: self.now,
            movers=lambda: self.movers,
            paths=lambda: self.paths,
        )

    def report(self, name: str = "dtn-a", instance: str = "one", **status: Any) -> None:
        moment = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        before = self.server.objects["datatransfernodes"].get(name, {}).get("status", {})
        report = {"interfaces": [DATA0], "agent": {"instance": instance}, "lastReportTime": moment, **status}
        self.server.put("datatransfernodes", name, status={**before, **report})

    def node(self, name: str = "dtn-a", ready: str = "True", **spec: Any) -> None:
        status = {"conditions": [{"type": "Ready", "status": ready}]}
        self.server.put("nodes", name, metadata={"labels": {"zone": "a"}}, status=status, spec=spec)

    async def settle(self, name: str = "dtn-a") -> KubeObject:
        await self.service.refresh()
        await self.service.keep(name)
        status: KubeObject = self.server.objects["datatransfernodes"][name].get("status", {})
        return status

    def ready(self, name: str = "dtn-a") -> tuple[str, str]:
        conditions = self.server.objects["datatransfernodes"][name]["status"]["conditions"]
        return next((each["status"], each["reason"]) for each in conditions if each["type"] == "Ready")


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_node_that_reports_is_known_and_costs_one_write(bench: Bench) -> None:
    bench.node()
    bench.report()
    status = await bench.settle()
    assert (status["summary"]["interfaces"], bench.ready()) == ("data0 100G", ("True", "AgentReports"))
    node = bench.store.transfer_nodes()["dtn-a"]
    assert (node.ready, node.labels, [each.name for each in node.data_interfaces]) == (True, {"zone": "a"}, ["data0"])
    for _ in range(3):
        await bench.settle()
    assert bench.server.writes == ["dtn-a"]


async def test_without_data_transfer_nodes_decisions_see_none_and_nodes_are_not_listed(bench: Bench) -> None:
    bench.node()
    await bench.service.refresh()
    assert bench.store.transfer_nodes() == {}
    assert not bench.store.nodes_listed


async def test_an_agent_that_falls_silent_is_doubted_without_any_event(bench: Bench) -> None:
    bench.node()
    bench.report()
    await bench.settle()
    bench.now += SILENT_AFTER + timedelta(seconds=1)
    bench.service.look()
    assert not bench.store.transfer_nodes()["dtn-a"].ready
    await bench.service.keep("dtn-a")
    assert bench.ready() == ("Unknown", "AgentSilent")
    bench.report()
    await bench.settle()
    assert bench.ready() == ("True", "AgentReports")
    assert bench.store.transfer_nodes()["dtn-a"].ready


async def test_two_agents_of_one_node_are_doubted_until_one_is_left(bench: Bench) -> None:
    bench.node()
    for instance in ("one", "two", "one"):
        bench.report(instance=instance)
        await bench.settle()
        bench.now += timedelta(minutes=2)
    assert bench.ready() == ("Unknown", "SeveralAgents")
    assert not bench.store.transfer_nodes()["dtn-a"].ready
    bench.now += timedelta(minutes=14)
    bench.report()
    await bench.settle()
    await bench.settle()
    assert bench.ready() == ("True", "AgentReports")
    assert bench.store.transfer_nodes()["dtn-a"].ready


@pytest.mark.parametrize(("ready", "spec"), [("Unknown", {}), ("True", {"unschedulable": True})])
async def test_a_kubernetes_node_that_takes_no_pods_is_not_ready_for_movers(bench: Bench, ready: str, spec: dict[str, Any]) -> None:
    bench.report()
    bench.node(ready=ready, **spec)
    await bench.settle()
    assert not bench.store.transfer_nodes()["dtn-a"].ready
    assert bench.ready() == ("True", "AgentReports")


async def test_a_node_that_left_the_cluster_is_marked_and_what_was_declared_stays(bench: Bench) -> None:
    bench.node("other")
    bench.report()
    bench.server.put("datatransfernodes", "dtn-a", spec={"site": "geneva"})
    await bench.settle()
    assert bench.ready() == ("False", "NodeGone")
    node = bench.store.transfer_nodes()["dtn-a"]
    assert (node.ready, node.site) == (False, "geneva")


async def test_movers_are_counted(bench: Bench) -> None:
    bench.node()
    bench.report()
    bench.movers = {"dtn-a": 3, "elsewhere": 9}
    status = await bench.settle()
    assert (status["jobs"], status["summary"]["jobs"]) == (3, "3/8")


async def test_one_that_is_deleted_is_forgotten(bench: Bench) -> None:
    bench.report()
    await bench.settle()
    del bench.server.objects["datatransfernodes"]["dtn-a"]
    await bench.service.keep("dtn-a")
    await bench.service.refresh()
    assert bench.store.transfer_nodes() == {}
    assert await bench.service.keep("dtn-a") is None


async def test_one_that_cannot_be_read_is_left_alone_and_others_are_not(bench: Bench) -> None:
    bench.server.put("datatransfernodes", "broken", spec={"slots": "many"})
    bench.report()
    await bench.settle()
    assert set(bench.store.transfer_nodes()) == {"dtn-a"}


async def test_a_cluster_without_the_kind_goes_on_without(bench: Bench) -> None:
    bench.server.failure = NotFoundError("no such kind", status=404)
    await bench.service.refresh()
    assert bench.store.transfer_nodes() == {}
    assert bench.metrics.registry.get_sample_value("fairlead_operator_reconcile_errors_total", {"kind": "NotFound"}) == 1


async def test_a_server_that_does_not_answer_is_not_taken_for_a_cluster_without_the_kind(bench: Bench) -> None:
    """Every job that waits for a slot would start when the operator is started."""
    bench.report()
    bench.server.failure = UnavailableError("no answer")
    with pytest.raises(UnavailableError):
        await bench.service.refresh()
    bench.server.failure = None
    await bench.service.refresh()
    assert set(bench.store.transfer_nodes()) == {"dtn-a"}


async def test_what_should_be_set_is_written_once_and_follows_the_paths(bench: Bench) -> None:
    bench.node()
    bench.report(kernel={"cpuGovernor": "powersave", "tcpSendBufferMaximumBytes": 4194304})
    status = await bench.settle()
    assert [each["rule"] for each in status["advice"]] == ["CPUGovernor"]
    for _ in range(3):
        await bench.settle()
    assert bench.server.writes == ["dtn-a"]
    bench.paths = (
        NetworkPath.from_object(
            {
                "metadata": {"name": "a-b", "uid": "path", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"source": {"node": "dtn-a", "interface": "data0"}, "destination": {"node": "dtn-b"}, "capacity": "10G"},
                "status": {"rttMinimum": "60ms"},
            }
        ),
    )
    status = await bench.settle()
    assert [each["rule"] for each in status["advice"]] == ["SocketBuffers", "CPUGovernor"]
    assert len(bench.server.writes) == 2
    bench.report(kernel={"cpuGovernor": "performance", "tcpSendBufferMaximumBytes": 2**31 - 1})
    status = await bench.settle()
    assert status["advice"] == []
    assert next(each["status"] for each in status["conditions"] if each["type"] == "Tuned") == "True"


class EndingError(Exception):
    """Ends a follower that would run for ever."""


class FakeWatch(FakeServer):
    """A server whose watches are written down before."""

    def __init__(self, watches: list[list[Change] | Exception]) -> None:
        super().__init__()
        self.watches = watches
        self.begun_at: list[str] = []

    async def changes(self, resource: ResourceKind, since: str, seconds: int) -> AsyncIterator[Change]:
        self.begun_at.append(since)
        if not self.watches:
            raise EndingError
        watch = self.watches.pop(0)
        if isinstance(watch, Exception):
            raise watch
        for change in watch:
            yield change


async def _follow(server: FakeWatch, store: DtnStore) -> list[float]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    follower = Follower(
        cast(KubeClient, server),
        DTNS,
        store.dtns,
        put=lambda body: (store.put_dtn(body, START), None)[1],
        drop=store.drop_dtn,
        consequence="nothing is known",
        sleep=sleep,
    )
    with pytest.raises(EndingError):
        await follower.run()
    return slept


async def test_a_watch_goes_on_from_its_list_and_a_list_follows_it() -> None:
    server, store = FakeWatch([]), DtnStore()
    first, second = server.put("datatransfernodes", "a"), server.put("datatransfernodes", "b")
    del server.objects["datatransfernodes"]["b"]
    server.watches = [[Change("ADDED", second), Change("DELETED", first), Change("BOOKMARK", {})]]
    assert await _follow(server, store) == []
    assert server.begun_at == ["2", "2"]
    # The second list has `a` and no `b`.
    assert set(store.transfer_nodes()) == {"a"}


async def test_a_follower_survives_every_refusal() -> None:
    server, store = FakeWatch([ConflictError("too old", status=410), ForbiddenError("no right", status=403), []]), DtnStore()
    server.put("datatransfernodes", "a")
    assert await _follow(server, store) == [2.0, 2.0]
    assert set(store.transfer_nodes()) == {"a"}
