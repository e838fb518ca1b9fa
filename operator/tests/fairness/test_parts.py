"""The parts of a round by themselves: meters, demands, caps to write, who may start, and the rules of a policy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from fairness_builders import G, M, make_job, make_link, make_policy, make_rules
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.fairness.admission import OVERTAKING_SECONDS, admit
from fairlead.core.fairness.demand import PATIENCE_SECONDS, WANTING_SECONDS, Demand, JobUsage
from fairlead.core.fairness.meter import CounterReading, Foreign, Meter
from fairlead.core.fairness.model import JobStage
from fairlead.core.fairness.rules import InvalidPolicyError, choose, read_candidate, read_rules
from fairlead.core.fairness.settle import OBEYED_SECONDS, REST_SECONDS, Cap, Room, rounded_down, settle
from fairlead.core.paths.model import End

NOW = 1000.0


class TestMeter:
    @pytest.mark.parametrize(
        ("samples", "expected"),
        [
            ([], None),
            ([(990, 0)], None),
            ([(990, 0), (995, 5_000_000)], 8e6),
            ([(980, 0), (990, 0), (995, 5_000_000)], 8e6),
            ([(999, 0), (1000, 1_000_000)], None),
            ([(900, 0), (905, 5_000_000)], None),
        ],
    )
    def test_the_rate_is_that_of_about_the_window(self, samples: list[tuple[float, int]], expected: float | None) -> None:
        assert Meter(tuple(CounterReading(at, count) for at, count in samples)).rate_bps(NOW, 5.0) == expected

    def test_the_unhindered_rate_leaves_out_what_was_held_back_on_purpose(self) -> None:
        meter = Meter().noted(NOW - 6, 0).noted(NOW - 3, 3_000_000, quiet_seconds=0.0).noted(NOW, 3_000_000, quiet_seconds=3.0)
        assert (meter.rate_bps(NOW, 5.0), meter.unhindered_bps(NOW, 5.0)) == (4e6, 8e6)
        assert meter.unhindered_bps(NOW, 2.0) is None, "nothing was to be sent"

    def test_a_counter_that_fell_begins_anew(self) -> None:
        meter = Meter().noted(990, 10**9).noted(995, 5).noted(998, 3_000_005)
        assert meter.rate_bps(NOW, 5.0) == 8e6

    @pytest.mark.parametrize(
        ("begin", "end", "until", "expected_mbps"),
        [
            (990, 992, None, 8),
            (991, 997, None, 8 * (4 + 2 * 2) / 6),
            (998, 1000, None, 16),
            (1000, 1004, None, 16),
            (1000, 1004, 1001, 4),
            (1002, 1004, 1001, 0),
            (980, 990, None, 0.8),
        ],
    )
    def test_the_mean_of_any_span_follows_from_the_nearest_looks(
        self, begin: float, end: float, until: float | None, expected_mbps: float
    ) -> None:
        meter = Meter((CounterReading(990, 1_000_000), CounterReading(995, 6_000_000), CounterReading(1000, 16_000_000)))
        assert meter.mean_bps(begin, end, until) == pytest.approx(expected_mbps * M)

    def test_fewer_than_two_looks_tell_no_rate(self) -> None:
        assert Meter().mean_bps(990, 995) == Meter((CounterReading(990, 5),)).mean_bps(980, 995) == 0.0

    def test_a_look_at_the_same_moment_changes_nothing(self) -> None:
        meter = Meter().noted(990, 5)
        assert meter.noted(990, 7) == meter

    def test_one_round_in_which_our_counters_lag_is_no_foreign_traffic(self) -> None:
        foreign = Foreign().noted(1e9, 0.98e9, 1e9).noted(1e9, 0.5e9, 1e9).noted(1e9, 0.98e9, 1e9)
        assert foreign.rate_bps == 0.0


class TestDemand:
    CAP = 100 * M

    @pytest.mark.parametrize(
        ("before", "used", "passed", "expected"),
        [
            ("unbounded, uses all", 99, 0, math.inf),
            ("unbounded, uses half, just now", 50, 0, math.inf),
            ("unbounded, uses half for long", 50, PATIENCE_SECONDS, 60),
            ("unbounded, between", 85, PATIENCE_SECONDS, math.inf),
        ],
    )
    def test_a_job_is_limited_only_by_leaving_something_for_a_while(self, before: str, used: float, passed: float, expected: float) -> None:
        since = NOW - passed if passed else None
        demand = Demand(since=since).after(JobUsage(used * M, used * M), self.CAP, NOW)
        assert demand.most_bps == (expected * M if expected < math.inf else math.inf), before

    def test_a_limited_job_that_uses_all_it_may_for_two_rounds_is_free(self) -> None:
        limited, all_of_it = Demand(60 * M, NOW - 60), JobUsage(60 * M, 50 * M)
        wants = limited.after(all_of_it, 60 * M, NOW)
        assert wants == Demand(60 * M, NOW - 60, wants_since=NOW)
        assert wants.after(all_of_it, 60 * M, NOW + 2) == wants
        assert wants.after(all_of_it, 60 * M, NOW + WANTING_SECONDS) == Demand()
        assert wants.after(JobUsage(50 * M, 50 * M), 60 * M, NOW + WANTING_SECONDS) == limited

    def test_small_changes_of_what_a_limited_job_uses_change_nothing(self) -> None:
        demand = Demand(60 * M, NOW - 60)
        assert demand.after(JobUsage(45 * M, 45 * M), self.CAP, NOW) == demand

    def test_a_job_that_sends_next_to_nothing_does_not_want_more_by_a_little_more_of_it(self) -> None:
        idle = Demand(since=NOW - 60).after(JobUsage(8_000, 8_000), self.CAP, NOW, least_bps=M)
        assert idle.most_bps == M
        assert idle.after(JobUsage(20_000, 10_000), self.CAP, NOW + WANTING_SECONDS, least_bps=M) == idle

    def test_a_rate_that_still_rises_is_not_a_limit(self) -> None:
        assert Demand(since=NOW - 60).after(JobUsage(50 * M, 30 * M), self.CAP, NOW) == Demand()

    def test_nothing_is_concluded_from_nothing(self) -> None:
        demand = Demand(5 * M, NOW)
        assert demand.after(None, self.CAP, NOW) == demand
        assert demand.after(JobUsage(1, 1), None, NOW) == demand

    @pytest.mark.parametrize(
        ("cap", "used", "expected"),
        [
            ("below the limit, all used", 29, 60),
            ("below, part used", 26, 60),
            ("below, little used", 10, 12),
            ("near it", 59, 60),
            ("at it", 60, 60),
        ],
    )
    def test_a_limited_job_stays_so_while_a_lower_cap_hides_what_it_could_use(self, cap: str, used: float, expected: float) -> None:
        cap_bps = (60 if cap.endswith(" it") else 30) * M
        assert Demand(60 * M, NOW - 60).after(JobUsage(used * M, used * M), cap_bps, NOW).most_bps == expected * M


ROOM = Room({"a": ("l",), "b": ("l",)}, {"l": 100.0 * M}, {"a": M, "b": M})


class TestSettle:
    @pytest.mark.parametrize(
        ("cap", "goal", "age", "written"),
        [(50, 50, 100, False), (50, 48, 1, False), (50, 48, REST_SECONDS, True), (50, 47, 1, True), (50, 52, REST_SECONDS, True)],
    )
    def test_small_moves_wait_and_large_ones_do_not(self, cap: float, goal: float, age: float, written: bool) -> None:
        caps = {"a": Cap(cap * M, NOW - age), "b": Cap(10 * M, NOW)}
        settled = settle(caps, {"a": goal * M, "b": 10 * M}, ROOM, NOW)
        assert settled.changed == (frozenset({"a"}) if written else frozenset())

    def test_who_rises_waits_until_who_falls_has_obeyed(self) -> None:
        caps = {"a": Cap(90 * M, NOW - 60), "b": Cap(10 * M, NOW - 60)}
        first = settle(caps, {"a": 50 * M, "b": 50 * M}, ROOM, NOW)
        assert (first.caps["a"].bps, first.caps["b"].bps, first.unsettled) == (50 * M, 10 * M, True)
        later = NOW + OBEYED_SECONDS
        second = settle(first.caps, {"a": 50 * M, "b": 50 * M}, ROOM, later)
        assert (second.caps["a"].bps, second.caps["b"].bps, second.unsettled) == (50 * M, 50 * M, False)

    def test_a_small_cut_does_not_wait_where_somebody_needs_the_room(self) -> None:
        room = Room(dict.fromkeys("abc", ("l",)), {"l": 100.0 * M}, dict.fromkeys("abc", M))
        caps = {"a": Cap(49 * M, NOW), "b": Cap(49 * M, NOW), "c": Cap(2 * M, NOW)}
        settled = settle(caps, {"a": 47 * M, "b": 47 * M, "c": 6 * M}, room, NOW + 5)
        assert (settled.caps["a"].bps, settled.caps["b"].bps) == (47 * M, 47 * M)

    def test_a_new_job_gets_its_least_even_from_a_full_link(self) -> None:
        settled = settle({"a": Cap(100 * M, NOW)}, {"a": 50 * M, "b": 50 * M}, ROOM, NOW)
        assert settled.caps["b"].bps == M

    @given(
        st.dictionaries(st.sampled_from("abcdef"), st.floats(1e6, 1e9), min_size=1),
        st.dictionaries(st.sampled_from("abcdef"), st.floats(1.0, 1e9), min_size=6),
        st.lists(st.floats(0.1, 12.0), min_size=1, max_size=6),
    )
    def test_caps_in_force_together_never_grow_beyond_the_link(
        self, begin: dict[str, float], goals: dict[str, float], waits: list[float]
    ) -> None:
        capacity = max(sum(begin.values()), 1e9)
        goals = {uid: bps * 1e9 / max(sum(goals.values()), 1e9) for uid, bps in goals.items()}
        room = Room(dict.fromkeys(goals, ("l",)), {"l": capacity}, dict.fromkeys(goals, 0.0))
        caps = {uid: Cap(bps, NOW - 60) for uid, bps in begin.items()}
        now = NOW
        for wait in waits:
            caps = dict(settle(caps, goals, room, now).caps)
            assert sum(cap.in_force_bps(now) for cap in caps.values()) <= capacity * (1 + 1e-5)
            now += wait

    @pytest.mark.parametrize(("bps", "expected"), [(123456789.0, 123400000.0), (999.9, 999.0), (0.0, 0.0), (64000.0, 64000.0)])
    def test_caps_are_rounded_down(self, bps: float, expected: float) -> None:
        assert rounded_down(bps) == expected


TENANTS = {"astro": {"guarantee": "300M", "limit": "800M"}, "bio": {}}


class TestAdmission:
    rules = make_rules(make_link("out", capacity="1G"), tenants=TENANTS)

    def asking(self, name: str, guarantee: float = 0.0, **fields: Any) -> Any:
        return make_job(name, stage=JobStage.ASKING, guarantee_bps=guarantee * M, **{"namespace": "bio", "asked_at": NOW, **fields})

    def admitted(self, *askers: Any, holders: tuple[Any, ...] = (), now: float = NOW) -> set[str]:
        return set(admit(self.rules, holders, askers, now).admitted) - {job.uid for job in holders}

    def test_guarantees_fit_beside_what_tenants_are_promised(self) -> None:
        assert self.admitted(self.asking("a", 400), self.asking("b", 400)) == {"a"}
        assert self.admitted(self.asking("a", 400), self.asking("b", 300)) == {"a", "b"}

    def test_a_tenants_own_jobs_use_what_it_is_promised(self) -> None:
        holder = make_job("h", guarantee_bps=700 * M, namespace="bio")
        assert self.admitted(self.asking("a", 300, namespace="astro"), holders=(holder,)) == {"a"}
        assert self.admitted(self.asking("a", 100), holders=(holder,)) == set()

    def test_a_job_without_guarantee_needs_next_to_nothing(self) -> None:
        holder = make_job("h", guarantee_bps=990 * M, namespace="elsewhere")
        assert self.admitted(self.asking("a"), holders=(holder,)) == {"a"}
        assert self.admitted(self.asking("a"), holders=(replace(holder, guarantee_bps=G),)) == set()

    def test_priority_goes_first_and_waiting_makes_up_for_it(self) -> None:
        young, old = self.asking("young", 500, priority=10), self.asking("old", 500, asked_at=NOW - 300)
        assert self.admitted(young, old) == {"young"}
        assert self.admitted(young, replace(old, asked_at=NOW - 700)) == {"old"}

    def test_nobody_with_a_guarantee_overtakes_on_a_link(self) -> None:
        holder = make_job("h", guarantee_bps=300 * M, namespace="bio")
        large, small = self.asking("large", 500, asked_at=NOW - 60), self.asking("small", 100)
        outcome = admit(self.rules, (holder,), (large, small), NOW)
        assert outcome.admitted == {"h"}
        assert "place 1 of 2" in outcome.waiting["large"].message
        assert "place 2 of 2" in outcome.waiting["small"].message

    @pytest.mark.parametrize(("waited", "expected"), [(10.0, {"free"}), (OVERTAKING_SECONDS, set())])
    def test_jobs_without_guarantee_overtake_for_a_while_only(self, waited: float, expected: set[str]) -> None:
        holder = make_job("h", guarantee_bps=300 * M, namespace="bio")
        assert self.admitted(self.asking("large", 500, asked_at=NOW - waited), self.asking("free"), holders=(holder,)) == expected

    @pytest.mark.parametrize(("guarantee", "namespace"), [(1100, "bio"), (750, "bio"), (900, "astro")])
    def test_what_never_fits_says_so_and_holds_nobody_up(self, guarantee: float, namespace: str) -> None:
        impossible, other = self.asking("x", guarantee, namespace=namespace, asked_at=NOW - 60), self.asking("other", 100)
        outcome = admit(self.rules, (), (impossible, other), NOW)
        assert outcome.waiting["x"].impossible
        assert "lower it" in outcome.waiting["x"].message
        assert outcome.admitted == {"other"}

    def test_promises_to_tenants_beyond_the_link_keep_no_job_without_guarantee_out(self) -> None:
        rules = make_rules(make_link(), tenants={"astro": {"guarantee": "2G"}})
        assert admit(rules, (), [self.asking("a")], NOW).admitted == {"a"}

    def test_everybody_gets_in_at_last(self) -> None:
        waiting = [self.asking(f"j{n}", 100 + 40 * n, asked_at=NOW + n) for n in range(12)]
        running: list[Any] = []
        for turn in range(40):
            now = NOW + 100 + 60 * turn
            admitted = admit(self.rules, running, waiting, now).admitted
            started = [job for job in waiting if job.uid in admitted]
            waiting = [job for job in waiting if job.uid not in admitted]
            running = [*running, *started][1:]
        assert waiting == []


def _both() -> Any:
    return make_policy(
        make_link("a-out", "dtn-a"),
        {
            "name": "uplink",
            "interfaces": [{"node": n, "name": "data0", "direction": d} for n in ("dtn-a", "dtn-b") for d in ("Transmit", "Receive")],
            "capacity": "2G",
        },
    )


class TestRules:
    @pytest.mark.parametrize(
        ("source", "destination", "expected"),
        [
            (End("dtn-a", "data0"), End("dtn-x", "data0"), ("a-out", "uplink")),
            (End("dtn-a", "mgmt"), End("dtn-x", "data0"), ()),
            (End("dtn-a", None), End("dtn-x", None), ("a-out", "uplink")),
            (End("dtn-x", "data0"), End("dtn-b", "data0"), ("uplink",)),
            (End(None, None), End(None, None), ()),
        ],
    )
    def test_a_job_crosses_the_links_of_its_interfaces_or_of_all_while_they_are_not_known(
        self, source: End, destination: End, expected: tuple[str, ...]
    ) -> None:
        rules = read_rules(_both(), {})
        assert rules.links_of(make_job(source=source, destination=destination)) == expected

    def test_an_interface_that_is_not_known_stands_for_all_of_its_node_that_are_shared(self) -> None:
        rules = read_rules(_both(), {})
        known = make_job(source=End("dtn-a", "mgmt"), destination=End("dtn-b", "data0"))
        assert rules.interfaces_of(known) == {("dtn-a", "mgmt", "Transmit"), ("dtn-b", "data0", "Receive")}
        unknown = make_job(source=End("dtn-a", None), destination=End("dtn-x", None))
        assert rules.interfaces_of(unknown) == {("dtn-a", "data0", "Transmit")}

    def test_a_namespace_belongs_to_the_first_tenant_that_selects_it_and_the_rest_to_others(self) -> None:
        exists = {"matchExpressions": [{"key": "tenant", "operator": "Exists"}]}
        policy = make_policy(tenants={"gold": {}, "any": {"namespaceSelector": exists}, "silver": {}})
        rules = read_rules(policy, {"one": {"tenant": "gold"}, "two": {"tenant": "x"}, "three": {}})
        assert [rules.tenant(name).name for name in ("one", "two", "three", "unheard-of")] == ["gold", "any", "others", "others"]
        assert rules.overlaps == {"one": ("gold", "any")}
        assert rules.without_namespaces == ["silver"]
        assert rules.tenants["others"].namespaces == 1

    @pytest.mark.parametrize(
        ("link", "problem"),
        [
            ({"capacity": "0"}, "capacity is 0"),
            ({"floor": "0%"}, "floor is 0"),
            ({"headroom": "95%", "floor": "10%"}, "headroom and floor together exceed capacity"),
        ],
    )
    def test_numbers_that_cannot_work_are_named(self, link: dict[str, str], problem: str) -> None:
        with pytest.raises(InvalidPolicyError, match=problem):
            make_rules(make_link(**link))

    def test_a_guarantee_above_the_limit_is_named(self) -> None:
        with pytest.raises(InvalidPolicyError, match=r"spec\.tenants\[0\]\.guarantee exceeds its limit"):
            make_rules(tenants={"astro": {"guarantee": "2G", "limit": "1G"}})

    def test_the_oldest_policy_that_is_not_being_deleted_is_in_force(self) -> None:
        def body(name: str, created: str, **metadata: str) -> dict[str, Any]:
            return {"metadata": {"name": name, "uid": name, "creationTimestamp": created, **metadata}, "spec": {"links": [make_link()]}}

        old, new = body("b", "2026-01-01T00:00:00Z"), body("a", "2026-01-02T00:00:00Z")
        dying = body("c", "2025-01-01T00:00:00Z", deletionTimestamp="2026-01-03T00:00:00Z")
        chosen = choose(map(read_candidate, (new, dying, old)))
        assert chosen is not None
        assert chosen.metadata.name == "b"
        assert choose([]) is None

    def test_a_policy_that_cannot_be_read_keeps_its_name_and_says_what_is_wrong(self) -> None:
        candidate = read_candidate({"metadata": {"name": "x", "uid": "x", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}})
        assert candidate.policy is None
        assert "spec.links" in candidate.problem
