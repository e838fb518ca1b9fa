"""Two operators and one Lease, on a server that a test can take away from either."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest
import pytest_asyncio

from fairlead.core.election import LEADS_SECONDS, LEASE_SECONDS
from fairlead.handlers.election import Elector, LeasePlace
from fairlead.kube.client import LEASES, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError, NotLeadingError, UnavailableError

pytestmark = pytest.mark.asyncio

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class FakeServer:
    """One Lease with versions."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.lease: KubeObject | None = None
        self.version = 0

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        return cast(dict[str, Any], self.lease["spec"])

    def store(self, spec: KubeObject) -> KubeObject:
        self.version += 1
        self.lease = {"metadata": {"name": "fairlead", "resourceVersion": str(self.version)}, "spec": spec}
        return self.lease


class FakeClient:
    """What one operator has of the server. `cut` loses requests, `deaf` loses answers."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.cut = self.deaf = False
        self.writes = 0

    async def get(self, resource: ResourceKind, namespace: str, name: str) -> KubeObject:
        assert (resource, namespace, name) == (LEASES, "system", "fairlead")
        self._pass()
        if self.server.lease is None:
            raise NotFoundError(name)
        return self.server.lease

    async def create(self, resource: ResourceKind, namespace: str, body: KubeObject) -> KubeObject:
        self._pass()
        if self.server.lease is not None:
            raise AlreadyExistsError("there")
        return self._answer(self.server.store(body["spec"]))

    async def merge_patch(self, resource: ResourceKind, namespace: str, name: str, body: KubeObject) -> KubeObject:
        self._pass()
        if self.server.lease is None:
            raise NotFoundError(name)
        if body["metadata"]["resourceVersion"] != self.server.lease["metadata"]["resourceVersion"]:
            raise ConflictError("old")
        return self._answer(self.server.store({**self.server.spec, **body["spec"]}))

    def _pass(self) -> None:
        if self.cut:
            raise UnavailableError("down")

    def _answer(self, body: KubeObject) -> KubeObject:
        self.writes += 1
        if self.deaf:
            raise UnavailableError("no answer")
        return body


class Operator:
    def __init__(self, server: FakeServer, identity: str) -> None:
        self.client = FakeClient(server)
        self.began = 0
        self.lost: list[str] = []
        self.elector = Elector(
            cast(KubeClient, self.client),
            LeasePlace("system", "fairlead", identity),
            boot_seconds=lambda: server.now,
            now=lambda: NOW,
            on_leading=self._lead,
            on_lost=self.lost.append,
        )

    async def _lead(self) -> None:
        self.began += 1

    async def look(self) -> None:
        try:
            await self.elector.look()
        except KubeError:
            assert self.client.cut or self.client.deaf


class Bench:
    def __init__(self) -> None:
        self.server = FakeServer()
        self.first, self.second = Operator(self.server, "first"), Operator(self.server, "second")

    async def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.server.now += 1.0
            for operator in (self.first, self.second):
                await operator.look()
                assert not (self.first.elector.leads and self.second.elector.leads)


@pytest_asyncio.fixture
async def bench() -> Bench:
    bench = Bench()
    await bench.first.look()
    await bench.second.look()
    return bench


async def test_the_first_one_leads_and_the_second_one_may_not_write(bench: Bench) -> None:
    await bench.pass_seconds(60)
    assert (bench.first.began, bench.second.began) == (1, 0)
    bench.first.elector.check_write()
    with pytest.raises(NotLeadingError):
        bench.second.elector.check_write()
    assert bench.server.spec["holderIdentity"] == "first"
    assert bench.server.spec["leaseTransitions"] == 0
    assert bench.first.elector.check() == {"leading": 1.0}
    assert bench.second.elector.check() == {"leading": 0.0}


async def test_one_that_is_cut_off_stops_writing_before_the_other_takes_over_and_ends_when_it_is_back(bench: Bench) -> None:
    bench.first.client.cut = True
    await bench.pass_seconds(int(LEADS_SECONDS))
    with pytest.raises(NotLeadingError):
        bench.first.elector.check_write()
    assert bench.second.began == 0
    await bench.pass_seconds(int(LEASE_SECONDS - LEADS_SECONDS) + 1)
    assert (bench.second.elector.leads, bench.second.began) == (True, 1)
    assert bench.server.spec["leaseTransitions"] == 1
    assert bench.first.lost == []
    bench.first.client.cut = False
    await bench.pass_seconds(1)
    assert len(bench.first.lost) == 1
    assert "second holds Lease system/fairlead" in bench.first.lost[0]
    assert not bench.first.elector.leads


async def test_one_that_was_stopped_may_not_write_when_it_wakes(bench: Bench) -> None:
    bench.server.now += 3600.0
    with pytest.raises(NotLeadingError):
        bench.first.elector.check_write()


async def test_an_api_server_that_is_gone_for_long_ends_nobody(bench: Bench) -> None:
    bench.first.client.cut = bench.second.client.cut = True
    await bench.pass_seconds(300)
    assert not bench.first.elector.leads
    bench.first.client.cut = False
    await bench.first.look()
    bench.second.client.cut = False
    await bench.pass_seconds(30)
    assert bench.first.elector.leads
    assert (bench.first.began, bench.first.lost, bench.second.began) == (1, [], 0)


async def test_a_renewal_whose_answer_is_lost_is_a_renewal_of_ours(bench: Bench) -> None:
    bench.first.client.deaf = True
    await bench.pass_seconds(1)
    bench.first.client.deaf = False
    await bench.pass_seconds(1)
    assert bench.first.elector.leads
    assert bench.first.lost == []


async def test_a_lease_that_is_deleted_is_made_again(bench: Bench) -> None:
    bench.server.lease = None
    await bench.pass_seconds(1)
    assert bench.first.elector.leads
    assert bench.server.spec["holderIdentity"] == "first"
    assert bench.second.began == 0


async def test_who_stops_gives_the_lease_up_and_the_other_goes_on_at_once(bench: Bench) -> None:
    await bench.first.elector.stop()
    assert bench.server.spec["holderIdentity"] == ""
    await bench.second.look()
    assert bench.second.elector.leads


async def test_who_stops_gives_the_lease_up_though_the_answer_to_its_last_renewal_was_lost(bench: Bench) -> None:
    bench.first.client.deaf = True
    await bench.first.look()
    bench.first.client.deaf = False
    await bench.first.elector.stop()
    assert bench.server.spec["holderIdentity"] == ""


async def test_who_stops_leaves_a_lease_alone_that_another_one_has_taken(bench: Bench) -> None:
    bench.server.store({**bench.server.spec, "holderIdentity": "second"})
    await bench.first.elector.stop()
    assert bench.server.spec["holderIdentity"] == "second"


async def test_who_only_stands_by_leaves_the_lease_alone_when_it_stops(bench: Bench) -> None:
    await bench.second.elector.stop()
    assert bench.second.client.writes == 0
    assert bench.server.spec["holderIdentity"] == "first"


async def test_a_container_that_is_started_again_goes_on_at_once(bench: Bench) -> None:
    again = Operator(bench.server, "first")
    await again.look()
    assert (again.began, again.elector.leads) == (1, True)
