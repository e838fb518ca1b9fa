"""Rounds with everything around them faked: which policy counts, what is written, and what a bad one changes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from fake_timers import FakeTimers
from handler_objects import job_body
from prometheus_client import context_managers
from prometheus_client.registry import CollectorRegistry

from fairlead.core.fairness.meter import Meter
from fairlead.core.fairness.model import Admission, JobStage, Participant
from fairlead.core.fairness.round import ROUND_SECONDS
from fairlead.core.fairness.rules import InterfaceKey
from fairlead.core.paths.model import End
from fairlead.handlers.cache import Cache, ObjectKey
from fairlead.handlers.fairness import loop
from fairlead.handlers.fairness.loop import WARM_UP_SECONDS, FairnessLoop
from fairlead.handlers.fairness.metrics import FairnessMetrics
from fairlead.handlers.fairness.store import ShareStore
from fairlead.handlers.paths.store import PathStore
from fairlead.handlers.queue import WorkQueue
from fairlead.kube.client import KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import ConflictError

pytestmark = pytest.mark.asyncio

KEY = ObjectKey("lab", "job")


class FakeClient:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.patches: list[KubeObject] = []
        self.failures: list[Exception] = []

    async def merge_patch(
        self, resource: ResourceKind, namespace: str | None, name: str, body: KubeObject, *, subresource: str
    ) -> KubeObject:
        if self.failures:
            raise self.failures.pop(0)
        self.patches.append(body["status"])
        known = self._cache.policies.get(ObjectKey("", name))
        assert known is not None
        version = str(int(known["metadata"]["resourceVersion"]) + 1)
        return {**known, "metadata": {**known["metadata"], "resourceVersion": version}, "status": {**known["status"], **body["status"]}}


class FakeAgents:
    """Agents that see so much on the interface that leads out."""

    def __init__(self) -> None:
        self.wanted: list[frozenset[str]] = []
        self.rate_bps: float | None = None

    def want(self, nodes: frozenset[str]) -> None:
        self.wanted.append(nodes)

    def meters(self, now: float) -> dict[InterfaceKey, Meter]:
        if self.rate_bps is None:
            return {}
        earlier = Meter().noted(now - 5.0, 0)
        return {("dtn-a", "data0", "Transmit"): earlier.noted(now, int(self.rate_bps * 5 / 8))}


class Bench:
    def __init__(self) -> None:
        self.agents = FakeAgents()
        self.timers = FakeTimers()
        self.cache = Cache()
        self.shares = ShareStore()
        self.paths = PathStore()
        self.jobs: WorkQueue[ObjectKey] = WorkQueue(self.timers)
        self.client = FakeClient(self.cache)
        self.registry = CollectorRegistry()
        self.metrics = FairnessMetrics(self.registry)
        self.start = datetime(2026, 1, 1, tzinfo=UTC)
        self.loop = FairnessLoop(
            cache=self.cache,
            shares=self.shares,
            paths=self.paths,
            jobs=self.jobs,
            client=cast(KubeClient, self.client),
            metrics=self.metrics,
            timers=self.timers,
            now=self.now,
            agents=self.agents,
        )

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.timers.time() - 1000.0)

    def put_policy(self, name: str = "site", version: int = 1, created: str = "2026-01-01T00:00:00Z", **link: Any) -> None:
        interface = {"node": "dtn-a", "name": "data0", "direction": "Transmit"}
        ends: dict[str, Any] = {} if "networkPath" in link else {"interfaces": [interface], "capacity": "1G"}
        body = {
            "metadata": {"name": name, "uid": f"{name}-uid", "generation": version, "resourceVersion": f"{version}0"},
            "spec": {"links": [{"name": "out", "headroom": "0", **ends, **link}]},
        }
        body["metadata"]["creationTimestamp"] = created  # type: ignore[index]
        self.cache.put_policy(body)

    def list_paths(self, **capacities: str | None) -> None:
        """A list of the paths from `dtn-a` to `dtn-b` with these names, as the path service takes it in."""
        before, listed = self.paths.snapshot(), {}
        for name, capacity in capacities.items():
            metadata = {"name": name, "uid": f"{name}-uid", "creationTimestamp": "2026-01-01T00:00:00Z"}
            spec = {"source": {"node": "dtn-a"}, "destination": {"node": "dtn-b"}, "capacity": capacity}
            self.paths.put_path({"metadata": metadata, "spec": spec})
            listed[ObjectKey("", name)] = f"{name}-uid"
        self.paths.keep_paths(before, listed)

    def put_job(self, name: str = "job", stage: JobStage = JobStage.FLOWING, **fields: Any) -> None:
        self.cache.put_job(job_body(name, uid=f"{name}-uid"))
        job = Participant(f"{name}-uid", "lab", name, End("dtn-a", "data0"), End("dtn-b", "data0"), stage, **fields)
        self.shares.note(ObjectKey("lab", name), job, self.now().timestamp())

    def accepted(self, number: int = -1) -> tuple[str, str, str]:
        return self.condition("Accepted", number)

    def condition(self, kind: str, number: int = -1) -> tuple[str, str, str]:
        conditions = self.client.patches[number]["conditions"]
        return next((c["status"], c["reason"], c["message"]) for c in conditions if c["type"] == kind)

    def cap(self, name: str = "job") -> int | None:
        share = self.shares.share(f"{name}-uid")
        assert share is not None
        return share.cap_bps


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_without_a_policy_nothing_is_written_and_nothing_published(bench: Bench) -> None:
    bench.put_job()
    assert await bench.loop.round() is None
    assert bench.client.patches == []
    assert bench.shares.share("job-uid") is None
    assert bench.jobs.depth == 0


async def test_shares_are_published_and_the_jobs_they_are_new_for_are_looked_at(bench: Bench) -> None:
    bench.put_policy()
    bench.put_job(cap_bps=5e8)
    assert await bench.loop.round() == ROUND_SECONDS
    assert bench.cap() == 10**9
    assert await bench.jobs.get() == KEY
    bench.jobs.done(KEY)
    bench.timers.advance(ROUND_SECONDS)
    await bench.loop.round()
    assert bench.jobs.depth == 0


async def test_the_status_says_what_links_and_tenants_have_and_is_not_written_again_without_news(bench: Bench) -> None:
    bench.put_policy()
    bench.put_job()
    await bench.loop.round()
    (status,) = bench.client.patches
    assert bench.accepted()[:2] == ("True", "InForce")
    known = {"name": "out", "capacity": "1G", "capacitySource": "Policy"}
    assert status["links"] == [{**known, "available": "1G", "allocated": "1G", "jobs": 1, "waiting": 0}]
    assert [tenant["name"] for tenant in status["tenants"]] == ["others"]
    bench.timers.advance(60)
    await bench.loop.round()
    assert len(bench.client.patches) == 1


async def test_figures_are_written_at_most_every_ten_seconds(bench: Bench) -> None:
    bench.put_policy()
    await bench.loop.round()
    for number in range(20):
        bench.put_job(f"job-{number}")
        bench.timers.advance(1)
        await bench.loop.round()
    assert len(bench.client.patches) == 3


async def test_until_the_workers_have_seen_every_job_nothing_starts_and_no_cap_changes(bench: Bench) -> None:
    bench.put_policy()
    bench.put_job(cap_bps=1e8)
    bench.cache.put_job(job_body("unseen", uid="unseen-uid"))
    await bench.loop.round()
    for uid in ("job-uid", "unseen-uid"):
        share = bench.shares.share(uid)
        assert share is not None
        assert (share.hold, share.admission) == (True, Admission.UNDECIDED)
    assert bench.client.patches == []
    bench.timers.advance(WARM_UP_SECONDS)
    await bench.loop.round()
    assert bench.cap() == 10**9


async def test_after_the_warm_up_a_job_that_no_worker_has_seen_counts_with_the_cap_of_its_status(bench: Bench) -> None:
    bench.put_policy()
    bench.put_job(stage=JobStage.ASKING)
    status = {
        "attempts": 1,
        "attemptStartTime": "2026-01-01T00:00:00Z",
        "bandwidth": {"allocated": "900M"},
        "endpoints": {"source": {"node": "dtn-a", "interface": "data0"}, "destination": {"node": "dtn-b", "interface": "data0"}},
    }
    bench.cache.put_job(job_body("unseen", uid="unseen-uid") | {"status": status})
    bench.timers.advance(WARM_UP_SECONDS)
    await bench.loop.round()
    unseen = bench.shares.share("unseen-uid")
    assert unseen is not None
    assert unseen.cap_bps == 5 * 10**8
    assert (bench.cap() or 0) <= 10**8, "what the other one may still send is not given away"


async def test_the_older_of_two_policies_is_in_force_and_the_other_says_so(bench: Bench) -> None:
    bench.put_policy("new", created="2026-01-02T00:00:00Z", capacity="5G")
    bench.put_policy("old")
    bench.put_job()
    await bench.loop.round()
    assert bench.cap() == 10**9
    assert {bench.accepted(0)[1], bench.accepted(1)[1]} == {"InForce", "OtherPolicyInForce"}
    assert "policy old is older" in bench.accepted(1)[2]


async def test_a_policy_that_turns_bad_leaves_its_last_good_version_in_force(bench: Bench) -> None:
    bench.put_policy()
    bench.put_job()
    await bench.loop.round()
    bench.put_policy(version=2, capacity="0")
    bench.put_job("second", stage=JobStage.ASKING)
    bench.timers.advance(5)
    await bench.loop.round()
    status, reason, message = bench.accepted()
    assert (status, reason) == ("False", "InvalidSpec")
    assert "spec.links[0].capacity is 0" in message
    assert "last good version" in message
    assert bench.cap() == 999_000_000
    second = bench.shares.share("second-uid")
    assert second is not None
    assert second.admission is Admission.ADMITTED


async def test_a_policy_that_was_never_good_changes_no_cap_and_stops_nobody(bench: Bench) -> None:
    bench.put_policy(capacity="fast")
    bench.put_job(cap_bps=1e8)
    assert await bench.loop.round() == ROUND_SECONDS
    assert bench.accepted()[:2] == ("False", "InvalidSpec")
    share = bench.shares.share("job-uid")
    assert share is not None
    assert (share.hold, share.admission) == (True, Admission.ADMITTED)


async def test_a_policy_that_was_good_before_a_restart_starts_no_job_without_a_cap(bench: Bench) -> None:
    bench.put_policy()
    bench.put_job(cap_bps=1e8)
    await bench.loop.round()
    status = bench.client.patches[-1]
    # A restart: another loop, and a policy that turned bad meanwhile. Then one more, which finds the status of that.
    for _ in range(2):
        restarted = Bench()
        restarted.put_policy(version=2, capacity="fast")
        body = restarted.cache.policies.get(ObjectKey("", "site"))
        assert body is not None
        restarted.cache.put_policy({**body, "metadata": {**body["metadata"], "resourceVersion": "21"}, "status": status})
        restarted.put_job(cap_bps=1e8)
        restarted.put_job("second", stage=JobStage.ASKING)
        assert await restarted.loop.round() == ROUND_SECONDS
        if restarted.client.patches:
            assert restarted.accepted()[:2] == ("False", "LastGoodUnknown")
            assert "no job starts" in restarted.accepted()[2]
            status = {**status, **restarted.client.patches[-1]}
        first, second = restarted.shares.share("job-uid"), restarted.shares.share("second-uid")
        assert first is not None
        assert second is not None
        assert (first.hold, first.cap_bps, second.admission) == (True, None, Admission.UNDECIDED)


async def test_a_link_whose_path_goes_stays_as_it_was_and_is_what_the_path_says_when_that_is_back(bench: Bench) -> None:
    bench.put_policy(networkPath="wan")
    bench.list_paths(wan="400M")
    bench.put_job(cap_bps=4e8)
    await bench.loop.round()
    assert (bench.cap(), bench.condition("LinksResolved")[0]) == (400_000_000, "True")
    for missing in ({}, {"wan": None}):
        bench.list_paths(**missing)
        bench.timers.advance(ROUND_SECONDS)
        await bench.loop.round()
        assert (bench.cap(), bench.condition("LinksResolved")[0]) == (400_000_000, "False")
        assert "the link stays as it was" in bench.condition("LinksResolved")[2]
    bench.list_paths(wan="200M")
    bench.timers.advance(ROUND_SECONDS)
    await bench.loop.round()
    assert (bench.cap(), bench.condition("LinksResolved")[0]) == (200_000_000, "True")


async def test_a_policy_that_turns_bad_beside_a_path_that_goes_keeps_its_last_good_link(bench: Bench) -> None:
    bench.put_policy(networkPath="wan")
    bench.list_paths(wan="400M")
    bench.put_job(cap_bps=4e8)
    await bench.loop.round()
    bench.put_policy(version=2, capacity="0")
    bench.list_paths()
    bench.timers.advance(ROUND_SECONDS)
    await bench.loop.round()
    assert (bench.accepted()[1], bench.condition("LinksResolved")[1], bench.cap()) == ("InvalidSpec", "PathNotFound", 400_000_000)


async def test_a_share_comes_with_the_most_that_it_can_ever_be_which_is_no_news_from_round_to_round(bench: Bench) -> None:
    bench.put_policy()
    for name in ("one", "two"):
        bench.put_job(name, limit_bps=3e8 if name == "one" else 2e9)
    await bench.loop.round()
    before = {name: bench.shares.share(f"{name}-uid") for name in ("one", "two")}
    assert {name: share and share.ceiling_bps for name, share in before.items()} == {"one": 3 * 10**8, "two": 10**9}
    bench.timers.advance(60.0)
    await bench.loop.round()
    await bench.loop.round()
    settled = bench.shares.share("two-uid")
    bench.timers.advance(60.0)
    await bench.loop.round()
    assert bench.shares.share("two-uid") == settled


async def test_a_link_that_was_never_known_holds_nobody(bench: Bench) -> None:
    bench.put_policy(networkPath="typo")
    bench.list_paths(wan="400M")
    bench.put_job(stage=JobStage.ASKING)
    await bench.loop.round()
    share = bench.shares.share("job-uid")
    assert share is not None
    assert (share.admission, share.cap_bps) == (Admission.ADMITTED, None)
    assert bench.condition("LinksResolved")[:2] == ("False", "PathNotFound")
    assert bench.accepted()[0] == "True"


async def test_until_the_paths_were_listed_no_cap_of_a_policy_that_names_one_changes(bench: Bench) -> None:
    bench.put_policy(networkPath="wan")
    bench.put_job(cap_bps=1e8)
    await bench.loop.round()
    share = bench.shares.share("job-uid")
    assert share is not None
    assert share.hold
    bench.list_paths(wan="400M")
    await bench.loop.round()
    assert bench.cap() == 400_000_000


async def test_when_the_policy_goes_every_job_is_let_go(bench: Bench) -> None:
    bench.put_policy()
    bench.put_job()
    await bench.loop.round()
    bench.jobs.done(await bench.jobs.get())
    bench.cache.policies.drop(ObjectKey("", "site"), "site-uid")
    assert await bench.loop.round() is None
    assert bench.shares.share("job-uid") is None
    assert await bench.jobs.get() == KEY


async def test_a_status_that_somebody_else_changed_meanwhile_is_written_in_the_next_round(bench: Bench) -> None:
    bench.put_policy()
    bench.client.failures = [ConflictError("changed")]
    with pytest.raises(ConflictError):
        await bench.loop.round()
    await bench.loop.round()
    assert len(bench.client.patches) == 1


async def test_a_defect_leaves_caps_as_they_are_stops_nobody_and_is_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    failed = asyncio.Event()
    monkeypatch.setattr(loop, "run_round", fail)
    monkeypatch.setattr(bench.metrics, "count_error", lambda kind: failed.set())
    bench.put_policy()
    bench.put_job(cap_bps=1e8)
    bench.loop.wake()
    bench.timers.advance(1)
    worker = asyncio.create_task(bench.loop.worker.run())
    await asyncio.wait_for(failed.wait(), timeout=60)
    share = bench.shares.share("job-uid")
    assert share is not None
    assert (share.hold, share.admission) == (True, Admission.ADMITTED)
    assert bench.loop._queue.scheduled == 1
    bench.loop._queue.close()
    await worker


async def test_links_are_shown_in_bytes(bench: Bench) -> None:
    bench.put_policy()
    bench.put_job()
    assert bench.registry.get_sample_value("fairlead_operator_link_allocated_bytes_per_second", {"link": "out"}) is None
    await bench.loop.round()
    assert bench.registry.get_sample_value("fairlead_operator_link_allocated_bytes_per_second", {"link": "out"}) == 1e9 / 8
    assert bench.registry.get_sample_value("fairlead_operator_link_capacity_bytes_per_second", {"link": "out"}) == 1e9 / 8
    assert bench.registry.get_sample_value("fairlead_operator_tenant_jobs", {"tenant": "others"}) == 1
    assert bench.registry.get_sample_value("fairlead_operator_fairness_jobs_waiting") == 0


async def test_a_round_is_timed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((100.0, 100.75))
    monkeypatch.setattr(context_managers, "default_timer", lambda: next(clock))
    bench.put_policy()
    await bench.loop.round()
    assert bench.registry.get_sample_value("fairlead_operator_fairness_round_duration_seconds_count") == 1
    assert bench.registry.get_sample_value("fairlead_operator_fairness_round_duration_seconds_sum") == 0.75


async def test_a_round_that_fails_is_counted_by_kind(bench: Bench) -> None:
    def failures() -> list[float | None]:
        kinds = ("Conflict", "Internal")
        return [bench.registry.get_sample_value("fairlead_operator_fairness_errors_total", {"kind": kind}) for kind in kinds]

    bench.put_policy()
    bench.client.failures = [ConflictError("changed"), ConflictError("changed"), ZeroDivisionError()]
    assert failures() == [0, 0]
    for _ in range(4):
        await bench.loop.worker.handle(loop.KEY)
    assert failures() == [2, 1]


async def test_arrivals_in_a_burst_are_one_round(bench: Bench) -> None:
    bench.put_policy()
    await bench.loop.round()
    for _ in range(5):
        bench.loop.wake()
    assert bench.loop._queue.depth == 0
    bench.timers.advance(1)
    assert bench.loop._queue.depth == 1


async def test_nobody_is_woken_without_a_policy(bench: Bench) -> None:
    bench.loop.wake()
    bench.timers.advance(10)
    assert bench.loop._queue.depth == 0


async def test_agents_are_asked_for_the_nodes_of_the_links_while_there_is_a_policy() -> None:
    bench = Bench()
    bench.put_policy()
    bench.put_job()
    bench.agents.rate_bps = 400e6
    for _ in range(3):
        await bench.loop.round()
    assert bench.agents.wanted[-1] == {"dtn-a"}
    assert bench.cap() == pytest.approx(600e6)
    bench.cache.policies.drop(ObjectKey("", "site"), "site-uid")
    await bench.loop.round()
    assert bench.agents.wanted[-1] == frozenset()
