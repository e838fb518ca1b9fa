"""Jobs with several paths: each path shares its own links, is held to a cap of its own, and nobody gets more by having several."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from fairness_builders import G, M, make_job, make_link, make_rules
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.core.fairness.lanes import lane_uid, spread
from fairlead.core.fairness.meter import Meter
from fairlead.core.fairness.model import Admission, AnnotatedCap, JobShare, JobStage, Lane, Participant
from fairlead.core.fairness.round import RoundInput, RoundMemory, RoundResult, run_round
from fairlead.core.fairness.rules import InterfaceKey, PolicyRules
from fairlead.core.fairness.summary import jobs_by_link, number_of
from fairlead.core.paths.model import End


def out(number: int, capacity: str = "1G", **more: Any) -> dict[str, Any]:
    interface = {"node": "dtn-a", "name": f"data{number}", "direction": "Transmit"}
    return {**make_link(f"out{number}", capacity=capacity, **more), "interfaces": [interface]}


def into(number: int, capacity: str = "1G") -> dict[str, Any]:
    interface = {"node": "dtn-b", "name": f"data{number}", "direction": "Receive"}
    return {**make_link(f"in{number}", capacity=capacity), "interfaces": [interface]}


def make_wide(name: str = "wide", ends: tuple[tuple[int, int], ...] = ((0, 0), (1, 1)), **fields: Any) -> Participant:
    """A job from `data<i>` of dtn-a to `data<j>` of dtn-b for each (i, j)."""
    lanes = tuple(Lane(End("dtn-a", f"data{own}"), End("dtn-b", f"data{peer}")) for own, peer in ends)
    return make_job(name, source=End("dtn-a", None), destination=End("dtn-b", None), lanes=lanes, **fields)


@dataclass
class Wires:
    """Jobs whose paths obey their caps a second late; interfaces of dtn-a are counted by its agent, with others' traffic in them."""

    rules: PolicyRules
    jobs: dict[str, Participant] = field(default_factory=dict)
    able_bps: dict[str, float] = field(default_factory=dict)
    """What a path, or a job with one, could use; all if it is not named."""
    foreign_bps: dict[str, float] = field(default_factory=dict)
    """By interface of dtn-a."""
    now: float = 1000.0
    memory: RoundMemory = field(default_factory=RoundMemory)
    meters: dict[str, Meter] = field(default_factory=dict)
    agents: dict[InterfaceKey, Meter] = field(default_factory=dict)
    sent_bytes: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    counted_bytes: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    caps: dict[str, float] = field(default_factory=dict)
    obeyed: dict[str, float] = field(default_factory=dict)
    written_at: dict[str, float] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    next_round: float = 0.0
    outcome: RoundResult | None = None

    def add(self, *jobs: Participant) -> None:
        self.jobs |= {job.uid: job for job in jobs}
        self.next_round = self.now

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.step()

    def step(self) -> None:
        self._look()
        if self.now >= self.next_round:
            self._round()
        # What was written and what it replaces: either may be obeyed now.
        self._check({uid: max(cap, self.obeyed.get(uid, 0.0)) for uid, cap in self.caps.items()})
        self.obeyed = dict(self.caps)
        self.now += 1.0

    def rate(self, uid: str) -> float:
        return min(self.obeyed.get(uid, 0.0), self.able_bps.get(uid, math.inf))

    def share(self, uid: str) -> JobShare:
        assert self.outcome is not None
        return self.outcome.job_shares[uid]

    def _lanes(self) -> list[Participant]:
        return [lane for job in self.jobs.values() for lane in spread(self.rules, job)]

    def _look(self) -> None:
        carried: dict[str, float] = defaultdict(float, self.foreign_bps)
        for job in self.jobs.values():
            for lane in spread(self.rules, job):
                rate_bps = self.rate(lane.uid) if job.stage is JobStage.FLOWING else 0.0
                self.sent_bytes[lane.uid] += rate_bps / 8
                carried[lane.source.interface or ""] += rate_bps * 1.01
                self.meters[lane.uid] = self.meters.get(lane.uid, Meter()).noted(self.now, int(self.sent_bytes[lane.uid]))
        for interface in ("data0", "data1"):
            self.counted_bytes[interface] += carried[interface] / 8
            key = "dtn-a", interface, "Transmit"
            self.agents[key] = self.agents.get(key, Meter()).noted(self.now, int(self.counted_bytes[interface]))

    def _round(self) -> None:
        jobs = tuple(self._annotated(job) for job in self.jobs.values())
        self.outcome = run_round(RoundInput(self.rules, jobs, dict(self.meters), {}, dict(self.agents)), self.memory, self.now)
        self.memory = self.outcome.memory
        self.started |= self.outcome.admissions.admitted
        caps = {lane.uid: self.outcome.caps_bps[lane.uid] for lane in self.outcome.lanes}
        self.written_at |= {uid: self.now for uid, cap in caps.items() if cap != self.caps.get(uid)}
        self.caps = caps
        self.next_round = self.now + self.outcome.again_seconds

    def _annotated(self, job: Participant) -> Participant:
        """The job as its pod has it: with what the last round wrote."""

        def seen(uid: str) -> AnnotatedCap | None:
            return AnnotatedCap(self.caps[uid], self.written_at[uid]) if uid in self.caps else None

        lanes = tuple(replace(lane, annotated=seen(lane_uid(job.uid, number))) for number, lane in enumerate(job.lanes))
        if job.uid not in self.started:
            # It sends nothing before it may start.
            job = replace(job, stage=JobStage.ASKING)
        return replace(job, annotated=None if lanes else seen(job.uid), lanes=lanes)

    def _check(self, in_force: Mapping[str, float]) -> None:
        """No link is given more than it has, beyond what each of those on it has in any case."""
        lanes = {lane.uid: self.rules.links_of(lane) for lane in self._lanes()}
        for name, link in self.rules.links.items():
            there = [uid for uid in in_force if name in lanes.get(uid, ())]
            least = len(there) * min(M, link.available_bps / 100)
            assert sum(in_force[uid] for uid in there) <= link.available_bps * 1.000001 + least, name


def test_a_job_gets_its_share_of_each_of_its_links_and_others_traffic_on_one_lowers_that_path_alone() -> None:
    wires = Wires(make_rules(out(0), out(1)))
    wires.add(make_wide(), make_job("left"), make_job("right", source=End("dtn-a", "data1")))
    wires.run(40)
    for uid in ("wide#0", "wide#1", "left", "right"):
        assert wires.rate(uid) == pytest.approx(500 * M, rel=0.01), uid
    assert wires.share("wide").path_caps_bps == (500 * M, 500 * M)
    assert wires.share("wide").cap_bps == G
    wires.foreign_bps["data1"] = 400 * M
    wires.run(60)
    assert wires.rate("wide#0") == wires.rate("left") == pytest.approx(500 * M, rel=0.01)
    assert wires.rate("wide#1") == wires.rate("right") == pytest.approx(300 * M, rel=0.03)
    wires.foreign_bps["data1"] = 0.0
    wires.run(60)
    assert wires.rate("wide#1") == pytest.approx(500 * M, rel=0.01)
    assert wires.outcome is not None
    assert wires.outcome.foreign_bps == {"out0": 0.0, "out1": 0.0}


def test_two_equal_links_are_both_a_job_s_that_is_alone_there() -> None:
    wires = Wires(make_rules(out(0), out(1)))
    wires.add(make_wide())
    wires.run(20)
    assert wires.share("wide").cap_bps == 2 * G
    assert wires.share("wide").ceiling_bps == 2 * G


def test_what_a_path_cannot_use_is_the_others_on_that_link_and_no_loss_to_its_own_job_elsewhere() -> None:
    wires = Wires(make_rules(out(0), out(1)), able_bps={"wide#1": 100 * M})
    wires.add(make_wide(), make_job("left"), make_job("right", source=End("dtn-a", "data1")))
    wires.run(60)
    assert wires.rate("right") >= 870 * M
    assert wires.rate("wide#0") == pytest.approx(500 * M, rel=0.01)


def test_paths_that_share_a_link_count_there_as_one_job() -> None:
    wires = Wires(make_rules(out(0), out(1), into(0)))
    wires.add(make_wide(ends=((0, 0), (1, 0))), make_job("other", source=End("dtn-c", "data0")))
    wires.run(30)
    assert wires.rate("wide#0") == wires.rate("wide#1") == pytest.approx(250 * M, rel=0.01)
    assert wires.rate("other") == pytest.approx(500 * M, rel=0.01)
    assert wires.outcome is not None
    assert {name: number_of(jobs) for name, jobs in jobs_by_link(wires.rules, wires.outcome).items()} == {"out0": 1, "out1": 1, "in0": 2}


def test_the_limit_of_a_job_bounds_the_sum_of_its_paths_and_what_one_cannot_use_of_it_is_the_others() -> None:
    wires = Wires(make_rules(out(0), out(1)))
    wires.add(make_wide(limit_bps=600 * M), make_job("left"), make_job("right", source=End("dtn-a", "data1")))
    wires.run(40)
    assert wires.rate("wide#0") == wires.rate("wide#1") == pytest.approx(300 * M, rel=0.01)
    assert wires.rate("left") == wires.rate("right") == pytest.approx(700 * M, rel=0.01)
    bound = wires.share("wide").bound
    assert bound is not None
    assert (bound.by, bound.link) == ("JobLimit", None)
    wires.foreign_bps["data1"] = 800 * M
    wires.run(90)
    assert wires.rate("wide#1") == pytest.approx(100 * M, rel=0.05)
    assert wires.rate("wide#0") == pytest.approx(500 * M, rel=0.02), "its share there, and the limit is not reached"
    assert wires.outcome is not None
    assert wires.outcome.fair.links.keys() == {"out0", "out1"}


def test_a_limit_of_the_tenant_holds_on_each_link_and_not_on_the_sum() -> None:
    wires = Wires(make_rules(out(0), out(1), tenants={"a": {"limit": "300M"}}))
    wires.add(make_wide(namespace="a", limit_bps=500 * M))
    wires.run(30)
    assert wires.share("wide").cap_bps == pytest.approx(500 * M, rel=0.001)
    assert all(cap is not None and cap <= 300 * M for cap in wires.share("wide").path_caps_bps)


def test_a_guarantee_goes_to_the_paths_by_their_narrowest_links_and_a_job_starts_with_all_of_them_or_waits() -> None:
    rules = make_rules(out(0, "1G"), out(1, "3G"))
    lanes = spread(rules, make_wide(guarantee_bps=800 * M))
    assert [lane.guarantee_bps for lane in lanes] == [200 * M, 600 * M]
    wires = Wires(rules)
    wires.add(make_job("first", guarantee_bps=900 * M))
    wires.run(5)
    wires.add(make_wide(guarantee_bps=800 * M, stage=JobStage.ASKING, asked_at=wires.now))
    wires.run(5)
    assert wires.share("wide").admission is Admission.WAITING
    assert wires.outcome is not None
    assert wires.outcome.admissions.waiting["wide"].link == "out0"
    wires.add(make_wide(guarantee_bps=400 * M, stage=JobStage.ASKING, asked_at=wires.now))
    wires.run(5)
    assert wires.share("wide").admission is Admission.ADMITTED


def test_a_path_that_crosses_no_link_has_no_cap_and_then_the_sum_has_none() -> None:
    wires = Wires(make_rules(out(0), interfaces=[{"nodes": ["dtn-a"], "names": ["data1"]}]))
    wires.add(make_wide(), make_job("left"))
    wires.run(20)
    share = wires.share("wide")
    assert (share.cap_bps, share.path_caps_bps) == (None, (500 * M, None))


def test_a_path_on_an_interface_that_nobody_listed_counts_on_every_link_of_its_node() -> None:
    wires = Wires(make_rules(out(0), out(1)))
    wires.add(make_wide(ends=((0, 0), (7, 1))), make_job("left"))
    wires.run(30)
    assert wires.rate("left") == pytest.approx(500 * M, rel=0.02)
    assert wires.rate("wide#0") + wires.rate("wide#1") <= 505 * M
    assert "lists no data interface data7 of node dtn-a (source)" in wires.share("wide").message


def test_a_job_whose_movers_know_one_cap_alone_counts_as_before_on_every_link_of_its_nodes() -> None:
    wires = Wires(make_rules(out(0), out(1)))
    wires.add(replace(make_wide(), lanes=()), make_job("left"))
    wires.run(30)
    share = wires.share("wide")
    assert (share.cap_bps, share.path_caps_bps) == (500 * M, ())


rates = st.sampled_from([50, 200, 1000, 4000])
wide = st.tuples(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=3), st.integers(1, 300), st.none() | rates)


@settings(max_examples=25, deadline=None)
@given(
    capacities=st.tuples(rates, rates, rates, rates),
    jobs=st.lists(wide, min_size=1, max_size=5),
    able=st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 2)), st.integers(1, 900), max_size=6),
    foreign=st.tuples(st.integers(0, 3000), st.integers(0, 3000)),
)
def test_whatever_paths_jobs_have_no_link_is_given_more_than_it_has_and_no_job_more_than_its_limit(
    capacities: tuple[int, int, int, int],
    jobs: list[tuple[list[tuple[int, int]], int, int | None]],
    able: dict[tuple[int, int], int],
    foreign: tuple[int, int],
) -> None:
    own = [out(number, f"{capacity}M", floor="1%") for number, capacity in enumerate(capacities[:2])]
    peers = [into(number, f"{capacity}M") for number, capacity in enumerate(capacities[2:])]
    wires = Wires(make_rules(*own, *peers), able_bps={f"job{job}#{lane}": mbps * M for (job, lane), mbps in able.items()})
    for number, (ends, weight, limit) in enumerate(jobs):
        limit_bps = math.inf if limit is None else limit * M
        wires.add(make_wide(f"job{number}", tuple(ends), weight=weight, limit_bps=limit_bps))
        wires.run(6)
    wires.foreign_bps = {f"data{number}": mbps * M for number, mbps in enumerate(foreign)}
    wires.run(20)
    for number, (_, _, limit) in enumerate(jobs):
        cap_bps = wires.share(f"job{number}").cap_bps
        assert cap_bps is not None
        assert limit is None or cap_bps <= limit * M * 1.05
