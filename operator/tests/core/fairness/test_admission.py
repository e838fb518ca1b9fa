"""Which jobs may start, whom one that waits for its guarantee keeps from starting, and whom it does not."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest
from fairness_builders import G, M, make_job, make_link, make_rules

from fairlead.core.fairness.admission import OVERTAKING_SECONDS, admit
from fairlead.core.fairness.model import JobStage, Participant
from fairlead.core.paths.model import End

NOW = 1000.0
X, Y = End("dtn-x", "data0"), End("dtn-y", "data0")
AWAY = End("dtn-z", "data0")

TWO_LINKS = make_rules(make_link("x-out", "dtn-x"), make_link("y-in", "dtn-y", "Receive"), tenants={"astro": {}, "bio": {}})
ONE_TENANT_LIMITED = make_rules(make_link("out", capacity="10G"), tenants={"astro": {"limit": "1G"}, "bio": {}})


def asking(name: str, guarantee_mbps: float = 0.0, **fields: Any) -> Participant:
    return make_job(name, **{"stage": JobStage.ASKING, "guarantee_bps": guarantee_mbps * M, "asked_at": NOW, "namespace": "bio", **fields})


def holding(name: str, guarantee_mbps: float, **fields: Any) -> Participant:
    return replace(asking(name, guarantee_mbps, **fields), stage=JobStage.FLOWING)


class TestTenantAtItsLimit:
    first = holding("first", 1000, namespace="astro")
    second = asking("second", 1000, namespace="astro", asked_at=NOW - 2 * OVERTAKING_SECONDS)

    @pytest.mark.parametrize("guarantee_mbps", [0, 100, 8000])
    def test_its_waiting_job_leaves_the_link_to_other_tenants_for_ever(self, guarantee_mbps: float) -> None:
        outcome = admit(ONE_TENANT_LIMITED, [self.first], [self.second, asking("other", guarantee_mbps)], NOW)
        assert outcome.admitted == {"first", "other"}

    def test_its_waiting_job_is_told_of_the_limit(self) -> None:
        message = admit(ONE_TENANT_LIMITED, [self.first], [self.second], NOW).waiting["second"].message
        assert message == (
            "tenant astro has promised 1G of its limit of 1G on link out and has no room for bandwidth.guarantee 1G: first in its queue"
        )

    def test_its_own_jobs_do_not_overtake_each_other(self) -> None:
        first, small = replace(self.first, guarantee_bps=600 * M), asking("small", 300, namespace="astro")
        outcome = admit(ONE_TENANT_LIMITED, [first], [self.second, small], NOW)
        assert outcome.admitted == {"first"}
        assert "jobs that wait for it come before this one: among the first 10" in outcome.waiting["small"].message

    def test_a_guarantee_above_the_limit_is_told_of_it_at_once(self) -> None:
        waiting = admit(ONE_TENANT_LIMITED, [], [asking("large", 2000, namespace="astro")], NOW).waiting["large"]
        assert waiting.impossible
        assert "more than the limit of tenant astro, 1G: lower it" in waiting.message


class TestTenantsApart:
    """What one tenant asks for is no reason for another one's job to wait."""

    rules = make_rules(make_link(capacity="100M"), tenants={"astro": {}, "bio": {}, "chem": {"guarantee": "10M", "weight": 50}})
    hog = holding("hog", 100, namespace="astro")

    @pytest.mark.parametrize(
        "hogs",
        [
            [holding("hog", 100, namespace="astro")],
            [holding(f"hog-{n}", 20, namespace="astro", priority=100) for n in range(5)],
            [replace(holding(f"hog-{n}", 0, namespace="astro"), stage=JobStage.HOLDING) for n in range(500)],
            [asking(f"hog-{n}", 10, namespace="astro", priority=100, asked_at=NOW - 9000) for n in range(500)],
            [asking(f"hog-{n}", 0, namespace="astro", priority=100, asked_at=NOW - 9000) for n in range(500)],
        ],
        ids=["guarantee of the whole link", "guarantees", "many that never start", "many that ask first", "many small ones that ask first"],
    )
    @pytest.mark.parametrize(("guarantee_mbps", "fits"), [(0, True), (45, True), (46, False)])
    def test_a_job_starts_within_its_own_tenants_part_whatever_others_have_claimed(
        self, hogs: list[Participant], guarantee_mbps: float, fits: bool
    ) -> None:
        holders = [job for job in hogs if job.stage is not JobStage.ASKING]
        askers = [job for job in hogs if job.stage is JobStage.ASKING]
        outcome = admit(self.rules, holders, [*askers, asking("victim", guarantee_mbps)], NOW)
        assert ("victim" in outcome.admitted) is fits
        if not fits:
            assert not outcome.waiting["victim"].impossible

    def test_a_tenants_own_guarantee_is_there_for_its_jobs_whatever_its_weight(self) -> None:
        askers = [asking("a", 45, namespace="astro"), asking("b", 45), asking("c", 10, namespace="chem")]
        assert admit(self.rules, [], askers, NOW).admitted == {"a", "b", "c"}
        assert admit(self.rules, [self.hog], [asking("c", 20, namespace="chem")], NOW).admitted == {"hog", "c"}

    def test_alone_a_tenant_may_promise_what_others_are_not_guaranteed(self) -> None:
        assert admit(self.rules, [], [asking("a", 90)], NOW).admitted == {"a"}
        assert admit(self.rules, [], [asking("a", 91)], NOW).waiting["a"].impossible

    def test_between_tenants_the_turn_is_by_waiting_not_by_priority(self) -> None:
        patient, urgent = asking("patient", 80, asked_at=NOW - 5), asking("urgent", 80, namespace="astro", priority=100)
        assert admit(self.rules, [], [urgent, patient], NOW).admitted == {"patient"}

    def test_however_small_its_weight_a_tenant_finds_a_place_for_one_job(self) -> None:
        rules = make_rules(make_link(capacity="100M"), tenants={"astro": {"weight": 1000}, "bio": {"weight": 1}})
        outcome = admit(rules, [self.hog], [asking("first"), asking("second", asked_at=NOW + 1)], NOW)
        assert outcome.admitted == {"hog", "first"}

    def test_for_a_released_holder_nothing_is_kept(self) -> None:
        holders = [replace(self.hog, guarantee_bps=0.0, stage=JobStage.HOLDING)]
        assert admit(self.rules, holders, [asking("a", 90, namespace="astro")], NOW).admitted == {"hog"}
        assert admit(self.rules, holders, [asking("a", 90, namespace="astro")], NOW, released={"hog"}).admitted == {"hog", "a"}
        assert admit(self.rules, holders, [asking("b", 90)], NOW, released={"hog"}).admitted == {"hog", "b"}


class TestTwoLinks:
    full = holding("full", 900, source=X, destination=AWAY)
    both = asking("both", 400, source=X, destination=Y, asked_at=NOW - 2 * OVERTAKING_SECONDS)

    def on_y(self, name: str, guarantee_mbps: float, **fields: Any) -> Participant:
        return asking(name, guarantee_mbps, source=AWAY, destination=Y, **fields)

    def test_a_job_that_waits_for_one_link_leaves_the_rest_of_the_other_to_everybody(self) -> None:
        askers = [self.both, self.on_y("guaranteed", 600), self.on_y("free", 0)]
        assert admit(TWO_LINKS, [self.full], askers[:2], NOW).admitted == {"full", "guaranteed"}
        assert admit(TWO_LINKS, [self.full], [askers[0], askers[2]], NOW).admitted == {"full", "free"}

    def test_what_it_needs_of_the_other_link_is_kept_for_it(self) -> None:
        outcome = admit(TWO_LINKS, [self.full], [self.both, self.on_y("large", 700)], NOW)
        assert outcome.admitted == {"full"}
        assert outcome.waiting["both"].link == "x-out"
        assert outcome.waiting["large"].message.startswith(
            "link y-in has promised 0 of 1G, keeps 400M for jobs that wait elsewhere and has no"
        )
        assert "first in its queue" in outcome.waiting["large"].message

    @pytest.mark.parametrize(("waited", "expected"), [(10.0, {"free"}), (OVERTAKING_SECONDS, set())])
    def test_jobs_without_guarantee_take_of_what_is_kept_for_a_while_only(self, waited: float, expected: set[str]) -> None:
        holders = [self.full, holding("h", 600, source=AWAY, destination=Y)]
        both = replace(self.both, asked_at=NOW - waited)
        assert admit(TWO_LINKS, holders, [both, self.on_y("free", 0)], NOW).admitted - {"full", "h"} == expected

    def test_nobody_overtakes_on_the_link_that_lacks_room(self) -> None:
        small = asking("small", 50, source=X, destination=AWAY)
        outcome = admit(TWO_LINKS, [self.full], [self.both, small], NOW)
        assert outcome.admitted == {"full"}
        assert "link x-out has promised 900M of 1G and jobs that wait for it come before this one" in outcome.waiting["small"].message
        assert "among the first 10" in outcome.waiting["small"].message


class TestRaisedGuarantee:
    rules = make_rules(make_link(), tenants={"astro": {"limit": "500M"}, "bio": {}})
    small = holding("small", 100)

    def raised(self, job: Participant, guarantee_mbps: float, *askers: Participant, holders: tuple[Participant, ...] = ()) -> str | None:
        wants = replace(job, guarantee_bps=guarantee_mbps * M)
        return admit(self.rules, [job, *holders], askers, NOW, raises=[wants]).not_raised.get(job.uid)

    @pytest.mark.parametrize(("guarantee_mbps", "given"), [(400, True), (401, False)])
    def test_only_what_it_is_raised_by_has_to_fit(self, guarantee_mbps: float, given: bool) -> None:
        why = self.raised(self.small, guarantee_mbps, holders=(holding("h", 600),))
        assert why == (None if given else "bandwidth.guarantee 401M has no room on link out yet")

    def test_two_that_fit_alone_and_not_together_are_not_both_given(self) -> None:
        jobs = [holding("a", 100), holding("b", 100)]
        raises = [replace(job, guarantee_bps=600 * M) for job in jobs]
        assert list(admit(self.rules, jobs, [], NOW, raises=raises).not_raised) == ["b"]

    def test_jobs_that_wait_to_start_come_first(self) -> None:
        assert self.raised(self.small, 300, asking("new", 800)) == "bandwidth.guarantee 300M has no room on link out yet"
        assert self.raised(self.small, 300, asking("large", 950)) == "bandwidth.guarantee 300M has no room on link out yet"
        assert self.raised(self.small, 300, asking("never", 1001)) is None

    def test_the_limit_of_its_tenant_is_named(self) -> None:
        job = replace(self.small, namespace="astro")
        other = holding("other", 300, namespace="astro")
        assert self.raised(job, 200, holders=(other,)) is None
        why = self.raised(job, 300, holders=(other,))
        assert why == "bandwidth.guarantee 300M has no room within the limit of tenant astro on link out yet"
        assert "more than the limit of tenant astro" in str(self.raised(job, 600))


class TestLinkTooSmallForAllTenants:
    rules = make_rules(make_link(capacity="900M"), tenants={"astro": {"guarantee": "1G"}, "bio": {}, "chem": {"guarantee": "300M"}})

    @pytest.mark.parametrize(("guarantee_mbps", "admitted"), [(100, {"a"}), (900, {"a"}), (901, set())])
    def test_tenants_without_jobs_there_keep_nobody_out(self, guarantee_mbps: float, admitted: set[str]) -> None:
        assert admit(self.rules, [], [asking("a", guarantee_mbps)], NOW).admitted == admitted

    def test_those_with_jobs_there_do_for_as_long_as_they_have_them(self) -> None:
        holders = [holding("h", 0, namespace="chem")]
        outcome = admit(self.rules, holders, [asking("a", 700)], NOW)
        assert outcome.admitted == {"h"}
        assert not outcome.waiting["a"].impossible
        assert outcome.waiting["a"].message.startswith("tenant bio has promised 0 of its part of 450M on link out and has no room for")
        assert admit(self.rules, holders, [asking("b", 450)], NOW).admitted == {"h", "b"}

    def test_a_tenants_guarantee_counts_as_no_more_than_the_link_has(self) -> None:
        waiting = admit(self.rules, [holding("h", 0, namespace="astro")], [asking("a", 100)], NOW).waiting["a"]
        assert waiting.message.startswith("tenant bio has promised 0 of its part of 0 on link out and")

    def test_a_tenants_own_job_beyond_its_guarantee_fits_beside_all_others(self) -> None:
        holders = [holding("h", 500)]
        assert admit(self.rules, holders, [asking("c", 450, namespace="chem")], NOW).admitted == {"h", "c"}
        assert admit(self.rules, holders, [asking("c", 451, namespace="chem")], NOW).admitted == {"h"}


@pytest.mark.parametrize("seed", range(5))
def test_tenants_promise_no_more_than_a_link_has_and_everybody_gets_in_at_last(seed: int) -> None:
    chance = random.Random(seed)
    limited = make_rules(
        make_link("x-out", "dtn-x"),
        make_link("y-in", "dtn-y", "Receive"),
        tenants={"astro": {"limit": "900M"}, "bio": {"guarantee": "100M"}},
    )
    waiting = [
        asking(
            f"j{number}",
            chance.choice([0, 100, 400, 800]),
            namespace=chance.choice(["astro", "bio", "elsewhere"]),
            source=chance.choice([X, X, AWAY]),
            destination=chance.choice([Y, Y, AWAY]),
            priority=chance.choice([0, 100]),
            asked_at=NOW + number,
        )
        for number in range(60)
    ]
    running: list[Participant] = []
    for turn in range(400):
        now = NOW + 100 + 60 * turn
        admitted = admit(limited, running, waiting, now).admitted
        running += [job for job in waiting if job.uid in admitted]
        waiting = [job for job in waiting if job.uid not in admitted]
        for link, tenant in itertools.product(limited.links, limited.tenants.values()):
            own = [job for job in running if link in limited.links_of(job) and limited.tenant(job.namespace) is tenant]
            assert sum(job.guarantee_bps for job in own) <= min(G, tenant.limit_bps)
        # New jobs never stop coming, and none of them starves an old one.
        waiting += [asking(f"n{turn}", 100, source=X, destination=AWAY, priority=100, asked_at=now) for _ in range(turn < 200)]
        running.pop(chance.randrange(len(running)))
        if not waiting and turn > 200:
            break
    assert waiting == []


class TestAdmission:
    rules = make_rules(make_link("out", capacity="1G"), tenants={"astro": {"guarantee": "300M", "limit": "800M"}, "bio": {}})

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
        own = replace(holder, namespace="bio")
        assert self.admitted(self.asking("a"), holders=(own,)) == {"a"}
        assert self.admitted(self.asking("a"), holders=(replace(own, guarantee_bps=G),)) == set()

    def test_priority_goes_first_and_waiting_makes_up_for_it(self) -> None:
        young, old = self.asking("young", 500, priority=10), self.asking("old", 500, asked_at=NOW - 300)
        assert self.admitted(young, old) == {"young"}
        assert self.admitted(young, replace(old, asked_at=NOW - 700)) == {"old"}

    def test_nobody_with_a_guarantee_overtakes_on_a_link(self) -> None:
        holder = make_job("h", guarantee_bps=300 * M, namespace="bio")
        large, small = self.asking("large", 500, asked_at=NOW - 60), self.asking("small", 100)
        outcome = admit(self.rules, (holder,), (large, small), NOW)
        assert outcome.admitted == {"h"}
        assert "first in its queue" in outcome.waiting["large"].message
        assert "among the first 10" in outcome.waiting["small"].message

    def test_a_departure_changes_what_few_of_many_that_wait_are_told(self) -> None:
        holder, successor = make_job("h", guarantee_bps=500 * M, namespace="bio"), make_job("i", guarantee_bps=500 * M, namespace="bio")
        queue = [self.asking(f"job-{number:04d}", 500, asked_at=NOW - 5000 + number) for number in range(1200)]
        before = admit(self.rules, (holder,), queue, NOW).waiting
        after = admit(self.rules, (successor,), queue[1:], NOW).waiting
        changed = [uid for uid in after if after[uid].message != before[uid].message]
        assert changed == ["job-0001", "job-0010", "job-0100", "job-1000"]

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
