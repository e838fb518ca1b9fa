"""Whole rounds against a small model of a network: convergence, no oscillation, no starvation, few writes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fairness_builders import G, M, Network, make_job, make_link, make_rules

from fairlead.api.reasons import Reason
from fairlead.core.fairness.foreign import UNSUPPORTED_SECONDS
from fairlead.core.fairness.model import Admission, JobShare, JobStage, Participant
from fairlead.core.fairness.round import HOLD_SECONDS, RoundInput, run_round
from fairlead.core.paths.model import End

WEIGHTED = {"a": {"weight": 1}, "b": {"weight": 2}, "c": {"weight": 4}}


def weighted(capacity: str = "700M") -> Network:
    return Network(make_rules(make_link(capacity=capacity), tenants=WEIGHTED))


def test_tenants_share_by_weight_however_many_jobs_they_have() -> None:
    network = weighted()
    network.add(*(make_job(f"a{n}", namespace="a") for n in range(6)), make_job("b", namespace="b"), make_job("c", namespace="c"))
    network.run(30)
    assert sum(network.rate(f"a{n}") for n in range(6)) == pytest.approx(100 * M, rel=0.01)
    assert network.rate("b") == pytest.approx(200 * M, rel=0.01)
    assert network.rate("c") == pytest.approx(400 * M, rel=0.01)


def test_the_link_is_never_overfull_and_shares_are_reached_within_ten_seconds_of_an_arrival() -> None:
    network = weighted()
    network.add(make_job("a", namespace="a"), make_job("b", namespace="b"))
    network.run(30)
    network.add(make_job("c", namespace="c", stage=JobStage.FLOWING))
    network.run(10)
    assert network.rate("c") == pytest.approx(400 * M, rel=0.1)
    assert network.rate("b") == pytest.approx(200 * M, rel=0.1)
    assert max(sum(rates.values()) for rates in network.history) <= 700 * M * 1.02


def test_what_a_departure_frees_is_used_within_ten_seconds() -> None:
    network = weighted()
    network.add(*(make_job(name, namespace=name) for name in "abc"))
    network.run(30)
    network.remove("c")
    network.run(10)
    assert network.total() == pytest.approx(700 * M, rel=0.05)
    assert max(sum(rates.values()) for rates in network.history) <= 700 * M * 1.02


def test_a_scavenger_leaves_the_link_to_other_tenants_and_takes_it_whole_when_they_have_gone() -> None:
    network = weighted()
    network.add(make_job("c", namespace="c", gives_way=True))
    network.run(30)
    assert network.rate("c") == pytest.approx(700 * M, rel=0.02)
    network.add(make_job("a", namespace="a"))
    network.run(10)
    assert network.rate("a") >= 0.98 * 700 * M
    assert 0 < network.rate("c") <= 0.01 * 700 * M
    network.remove("a")
    network.run(10)
    assert network.rate("c") == pytest.approx(700 * M, rel=0.1)
    assert max(sum(rates.values()) for rates in network.history) <= 700 * M * 1.02


def test_a_scavenger_has_a_part_of_what_a_slow_job_leaves_and_scavengers_share_what_is_left() -> None:
    network = Network(make_rules())
    network.add(make_job("disk"), able_bps=100 * M)
    network.add(make_job("first", gives_way=True), make_job("second", gives_way=True))
    network.run(60)
    assert network.rate("disk") == pytest.approx(100 * M, rel=0.01)
    assert network.rate("first") == pytest.approx(network.rate("second"), rel=0.02)
    assert network.rate("first") >= 250 * M


def test_a_change_of_weight_is_followed_within_ten_seconds() -> None:
    network = weighted()
    network.add(*(make_job(name, namespace=name) for name in "abc"))
    network.run(30)
    network.rules = make_rules(make_link(capacity="700M"), tenants=WEIGHTED | {"a": {"weight": 8}})
    network.next_round = network.now
    network.run(10)
    assert network.rate("a") == pytest.approx(400 * M, rel=0.1)
    assert network.rate("c") == pytest.approx(200 * M, rel=0.1)


def test_a_job_limited_by_its_disk_leaves_the_rest_and_no_share_oscillates() -> None:
    network = Network(make_rules())
    network.add(make_job("disk"), able_bps=100 * M)
    network.add(make_job("eager"))
    network.run(40)
    assert network.rate("disk") == pytest.approx(100 * M, rel=0.01)
    assert network.rate("eager") >= 878 * M
    before = network.writes
    network.run(300)
    assert network.writes == before
    assert {round(rates["eager"]) for rates in network.history[-300:]} == {round(network.rate("eager"))}


def test_a_job_whose_disk_becomes_faster_gets_its_share_back_two_rounds_after_it_is_seen_to_want_it() -> None:
    network = Network(make_rules())
    network.add(make_job("disk"), able_bps=100 * M)
    network.add(make_job("eager"))
    network.run(60)
    network.pipes["disk"].able_bps = 2 * G
    network.run(18)
    assert network.rate("disk") == pytest.approx(500 * M, rel=0.02)
    network.run(120)
    assert network.rate("disk") == pytest.approx(500 * M, rel=0.02)
    assert max(sum(rates.values()) for rates in network.history) <= 1.02 * G


@pytest.mark.parametrize("seed", range(5))
def test_noise_in_a_disks_speed_starves_nobody_and_costs_few_writes(seed: int) -> None:
    chance = random.Random(seed)
    network = Network(make_rules())
    network.add(make_job("disk"))
    network.add(make_job("eager"))
    network.pipes["disk"].able_bps = 100 * M
    network.run(60)
    before = network.writes
    for _ in range(600):
        network.pipes["disk"].able_bps = 100 * M * chance.uniform(0.8, 1.2)
        network.step()
    tail = network.history[-600:]
    assert sum(rates["disk"] for rates in tail) / 600 >= 95 * M
    assert sum(rates["eager"] for rates in tail) / 600 >= 780 * M
    assert network.writes - before <= 60


@pytest.mark.parametrize("begins_after", range(15))
@pytest.mark.parametrize("quiet_seconds", [3, 7, 10, 15])
@pytest.mark.parametrize("rise_seconds", [1.0, 4.0])
def test_a_paused_probe_takes_nothing_of_a_jobs_share(quiet_seconds: int, begins_after: int, rise_seconds: float) -> None:
    network = Network(make_rules(make_link(capacity="40M"), tenants={"a": {"weight": 1}, "b": {"weight": 1}}))
    network.add(*(make_job(name, namespace=name) for name in "ab"), rise_seconds=rise_seconds)
    network.run(40 + begins_after)
    shares, writes = dict(network.caps), network.writes
    network.pipes["a"].quiet_until = network.now + quiet_seconds
    network.run(60)
    assert shares == {"a": 20 * M, "b": 20 * M}
    assert (network.caps, network.writes) == (shares, writes)


@pytest.mark.parametrize("begins_after", range(8))
def test_a_job_that_a_newcomer_pushed_aside_before_its_paused_probe_keeps_its_share(begins_after: int) -> None:
    network = Network(make_rules(make_link(capacity="40M"), tenants={"a": {"weight": 1}, "b": {"weight": 1}}))
    network.add(*(make_job(name, namespace=name) for name in "ab"))
    network.run(40 + begins_after)
    network.pipes["a"].able_bps = 12 * M
    network.run(5)
    network.pipes["a"].quiet_until = network.now + 10
    network.run(12)
    network.pipes["a"].able_bps = 2 * G
    network.run(4)
    assert network.caps == {"a": 20 * M, "b": 20 * M}


def test_a_slow_starter_is_not_taken_for_a_limited_job_for_good() -> None:
    network = Network(make_rules())
    network.add(make_job("slow"), rise_seconds=15.0)
    network.add(make_job("quick"))
    network.run(90)
    assert network.rate("slow") == pytest.approx(500 * M, rel=0.05)


def test_a_job_that_does_not_flow_yet_costs_the_others_next_to_nothing() -> None:
    network = Network(make_rules())
    network.add(make_job("running"))
    network.run(20)
    network.add(make_job("probing"), starts_in=12.0)
    network.run(10)
    assert network.rate("running") >= 0.99 * G
    network.run(16)
    assert network.rate("probing") == pytest.approx(500 * M, rel=0.1)


def test_on_an_idle_link_a_new_job_may_use_everything_from_the_start() -> None:
    network = Network(make_rules())
    network.add(make_job("first"), starts_in=12.0)
    network.step()
    assert network.caps["first"] == pytest.approx(G, rel=0.01)


def test_others_traffic_shrinks_our_share_down_to_the_floor_and_gives_it_back() -> None:
    network = Network(make_rules(make_link(floor="200M", headroom="10%")))
    network.add(make_job("ours"))
    network.run(30)
    assert network.rate("ours") == pytest.approx(900 * M, rel=0.01)
    network.foreign_bps = 300 * M
    network.run(30)
    assert network.rate("ours") == pytest.approx(600 * M, rel=0.05)
    network.foreign_bps = 5 * G
    network.run(30)
    assert network.rate("ours") == pytest.approx(200 * M, rel=0.01)
    network.foreign_bps = 0.0
    network.run(30)
    assert network.rate("ours") == pytest.approx(900 * M, rel=0.01)


def sharing(**counts_as: Callable[[float, int], int]) -> Network:
    """Two tenants' jobs on one interface, whose movers may say something else of its counter."""
    network = Network(make_rules(make_link(headroom="10%"), tenants={"a": {}, "b": {}}))
    for name in "ab":
        network.add(make_job(name, namespace=name), **({"counts_as": counts_as[name]} if name in counts_as else {}))
    network.run(30)
    return network


def test_others_traffic_that_two_tenants_see_counts_in_full() -> None:
    network = sharing()
    network.foreign_bps = 600 * M
    network.run(200)
    assert network.total() == pytest.approx(300 * M, rel=0.03)


@pytest.mark.parametrize(
    "says",
    [
        pytest.param(lambda now, count: count + int(max(0.0, now - 1030) * 2e9), id="grows beyond the link"),
        pytest.param(lambda now, count: count + (2**60 if now > 1030 else 0), id="jumps"),
        pytest.param(lambda now, count: count + 2**60 * (int(now / 3) % 2), id="alternates"),
        pytest.param(lambda now, count: 0, id="zero"),
        pytest.param(lambda now, count: max(0, 10**15 - int(now * 1e9)), id="falls"),
    ],
)
def test_counters_that_cannot_be_right_change_nobodys_share(says: Callable[[float, int], int]) -> None:
    network = sharing(a=says)
    for _ in range(150):
        network.step()
        assert network.rate("b") == pytest.approx(450 * M, rel=0.02)
    assert network.outcome is not None
    assert network.outcome.foreign_bps == {"out": 0.0}


def test_what_one_tenant_alone_says_of_others_traffic_takes_a_quarter_for_a_minute_within_ten() -> None:
    network = sharing(a=lambda now, count: count + int(max(0.0, now - 1030) * 600 * M / 8))
    network.run(500)
    rates = [seen["b"] for seen in network.history[30:]]
    assert min(rates) >= 0.74 * 450 * M
    assert sum(rate < 440 * M for rate in rates) <= UNSUPPORTED_SECONDS + 20
    assert network.rate("b") == pytest.approx(450 * M, rel=0.02)


def test_a_mover_that_hides_others_traffic_does_not_keep_a_second_source_from_being_heard() -> None:
    network = sharing(a=lambda now, count: 0)
    network.add(make_job("others", namespace="elsewhere"))
    network.run(30)
    network.foreign_bps = 600 * M
    network.run(60)
    assert network.total() == pytest.approx(300 * M, rel=0.03)


def test_namespaces_of_one_tenant_need_a_second_one_too() -> None:
    network = Network(make_rules(make_link(headroom="10%")))
    network.add(make_job("a", namespace="one"), counts_as=lambda now, count: count + int(max(0.0, now - 1030) * 600 * M / 8))
    network.add(make_job("b", namespace="two"))
    network.run(200)
    assert min(seen["b"] for seen in network.history[30:]) >= 0.74 * 450 * M
    assert network.rate("b") == pytest.approx(450 * M, rel=0.02)


def test_our_own_headers_are_not_taken_for_others_traffic() -> None:
    network = Network(make_rules())
    network.add(*(make_job(f"job-{n}") for n in range(5)))
    network.run(60)
    assert network.outcome is not None
    assert network.outcome.foreign_bps == {"out": 0.0}


def test_jobs_that_run_uncapped_when_a_policy_appears_are_capped_at_once_and_nobody_rises_meanwhile() -> None:
    network = Network(make_rules())
    network.add(make_job("one"), make_job("two"))
    network._round()
    assert network.caps == {"one": 500 * M, "two": 500 * M}


def test_a_running_job_keeps_the_cap_that_its_status_names_until_there_is_room() -> None:
    network = Network(make_rules())
    network.add(make_job("one", cap_bps=900 * M), make_job("two", cap_bps=100 * M))
    network._round()
    assert network.caps == {"one": 500 * M, "two": 100 * M}
    network.now += 2.1
    network._round()
    assert network.caps == {"one": 500 * M, "two": 500 * M}


def test_a_job_that_crosses_no_link_is_admitted_without_a_cap() -> None:
    network = Network(make_rules())
    network.add(replace(make_job("local"), source=make_job().destination))
    network._round()
    assert network.outcome is not None
    share = network.outcome.job_shares["local"]
    assert (share.admission, share.cap_bps) == (Admission.ADMITTED, None)


def test_guarantees_hold_and_a_job_that_would_break_them_waits_until_there_is_room() -> None:
    network = Network(make_rules())
    network.add(make_job("one", guarantee_bps=600 * M), *(make_job(f"crowd-{n}") for n in range(9)))
    network.run(20)
    network.add(make_job("late", guarantee_bps=500 * M, stage=JobStage.ASKING))
    network.run(20)
    assert network.outcome is not None
    late = network.outcome.job_shares["late"]
    assert late.admission is Admission.WAITING
    assert "first in its queue" in late.message
    assert network.rate("one") >= 595 * M
    network.remove("one")
    network.run(2)
    assert network.outcome.job_shares["late"].admission is Admission.ADMITTED


def beside_others_traffic() -> Network:
    """A job with a guarantee, and others' traffic that leaves room for no second one of its kind."""
    network = Network(make_rules(make_link(capacity="10G", headroom="1G")))
    network.add(make_job("one", guarantee_bps=3 * G))
    network.foreign_bps = 6 * G
    network.run(40)
    return network


def test_a_guarantee_that_fits_only_without_others_traffic_waits_until_that_is_gone() -> None:
    network = beside_others_traffic()
    network.add(make_job("late", guarantee_bps=3 * G, stage=JobStage.ASKING, asked_at=network.now))
    network.run(400)
    assert network.outcome is not None
    late = network.outcome.job_shares["late"]
    assert (late.admission, late.reason) == (Admission.WAITING, Reason.WAITING_FOR_LINK)
    assert (
        late.message == "link out has promised 3G of 9G and others' traffic leaves no room for bandwidth.guarantee 3G: first in its queue"
    )
    assert network.rate("one") >= 2.9 * G
    network.foreign_bps = 0.0
    network.run(30)
    assert network.outcome.job_shares["late"].admission is Admission.ADMITTED


def test_others_traffic_keeps_no_job_without_guarantee_out_also_not_behind_one_that_waits() -> None:
    network = beside_others_traffic()
    late = make_job("late", guarantee_bps=3 * G, stage=JobStage.ASKING, asked_at=network.now - 600)
    network.add(late, make_job("behind", guarantee_bps=G, stage=JobStage.ASKING, asked_at=network.now - 590))
    network.add(make_job("free", stage=JobStage.ASKING, asked_at=network.now))
    network.run(5)
    assert network.outcome is not None
    assert network.outcome.admissions.admitted == {"one", "free"}


def test_others_traffic_that_nobody_sees_any_more_is_not_told_and_keeps_no_guarantee_out() -> None:
    network = beside_others_traffic()
    late = make_job("late", guarantee_bps=8 * G, stage=JobStage.ASKING, asked_at=network.now)
    outcome = run_round(RoundInput(network.rules, (late,), {}, {}), network.memory, network.now)
    assert outcome.foreign_bps == {}
    assert outcome.job_shares["late"].admission is Admission.ADMITTED


def change(network: Network, uid: str, **fields: Any) -> None:
    """Patches a job."""
    network.pipes[uid].job = replace(network.pipes[uid].job, **fields)
    network.next_round = network.now


def share(network: Network, uid: str) -> JobShare:
    assert network.outcome is not None
    return network.outcome.job_shares[uid]


def test_a_guarantee_raised_while_the_job_runs_counts_only_when_it_fits() -> None:
    network = Network(make_rules())
    network.add(make_job("honest", guarantee_bps=600 * M), make_job("sly", guarantee_bps=100 * M, weight=1))
    network.run(20)
    change(network, "sly", guarantee_bps=900 * M)
    network.run(60)
    assert network.rate("honest") >= 595 * M
    assert share(network, "sly").admission is Admission.ADMITTED
    assert share(network, "sly").message == "bandwidth.guarantee 900M has no room on link out yet; meanwhile the job keeps 100M"
    change(network, "sly", guarantee_bps=400 * M)
    network.run(20)
    assert share(network, "sly").message == ""
    assert network.rate("sly") == pytest.approx(400 * M, rel=0.02)


def test_a_raised_guarantee_is_given_when_others_leave() -> None:
    network = Network(make_rules())
    network.add(make_job("one", guarantee_bps=600 * M), make_job("two"), *(make_job(f"crowd-{n}") for n in range(9)))
    network.run(20)
    change(network, "two", guarantee_bps=800 * M)
    network.run(20)
    assert network.rate("two") < 100 * M
    network.remove("one")
    network.run(20)
    assert network.rate("two") >= 795 * M


def test_a_guarantee_lowered_while_the_job_runs_makes_room_and_is_not_got_back_at_once() -> None:
    network = Network(make_rules())
    network.add(make_job("one", guarantee_bps=600 * M))
    network.run(10)
    change(network, "one", guarantee_bps=100 * M)
    network.add(make_job("two", guarantee_bps=800 * M, stage=JobStage.ASKING, asked_at=network.now))
    network.run(5)
    assert share(network, "two").admission is Admission.ADMITTED
    change(network, "one", guarantee_bps=600 * M)
    network.run(5)
    assert share(network, "one").message.endswith("meanwhile the job keeps 100M")


def test_a_guarantee_raised_between_admission_and_start_has_to_fit_too() -> None:
    network = Network(make_rules())
    network.add(make_job("one", guarantee_bps=600 * M), make_job("new", stage=JobStage.ASKING, asked_at=network.now))
    network.run(2)
    assert share(network, "new").admission is Admission.ADMITTED
    change(network, "new", guarantee_bps=500 * M)
    network.run(2)
    assert share(network, "new").message.endswith("meanwhile the job keeps 0")


def test_a_guarantee_that_never_fits_is_not_given_to_a_running_job_either() -> None:
    network = Network(make_rules())
    network.add(make_job("one"))
    network.run(5)
    change(network, "one", guarantee_bps=2 * G)
    network.run(5)
    assert "bandwidth.guarantee is more than link out ever has for it" in share(network, "one").message
    assert share(network, "one").message.endswith("meanwhile the job keeps 0")


def test_without_memory_of_what_was_given_the_present_guarantee_counts_as_given() -> None:
    network = Network(make_rules())
    network.add(make_job("one", guarantee_bps=600 * M), make_job("two", guarantee_bps=600 * M))
    network.run(2)
    assert share(network, "one").message == share(network, "two").message == ""


def test_a_hold_that_never_flows_is_released_and_its_guarantee_comes_back_with_its_data() -> None:
    network = Network(make_rules())
    network.add(make_job("hog", guarantee_bps=G), starts_in=400.0)
    network.add(make_job("waits", guarantee_bps=800 * M, stage=JobStage.ASKING, asked_at=network.now))
    network.run(int(HOLD_SECONDS) - 2)
    assert share(network, "waits").admission is Admission.WAITING
    network.run(10)
    assert share(network, "waits").admission is Admission.ADMITTED
    assert share(network, "hog").message.startswith(
        "bandwidth.guarantee 1G is not held any more, as the job has used nothing of it for 120 s"
    )
    change(network, "waits", stage=JobStage.FLOWING)
    network.run(300)
    assert share(network, "hog").message == "bandwidth.guarantee 1G has no room on link out yet; meanwhile the job keeps 0"
    assert network.rate("hog") == pytest.approx(200 * M, rel=0.02)
    network.remove("waits")
    network.run(20)
    assert share(network, "hog").message == ""
    assert network.rate("hog") == pytest.approx(G, rel=0.02)


def test_a_job_whose_data_flow_keeps_its_hold() -> None:
    network = Network(make_rules())
    network.add(make_job("slow", guarantee_bps=800 * M), able_bps=10 * M)
    network.add(make_job("waits", guarantee_bps=800 * M, stage=JobStage.ASKING, asked_at=network.now))
    network.run(int(3 * HOLD_SECONDS))
    assert share(network, "waits").admission is Admission.WAITING


HOGS: dict[str, tuple[list[Participant], dict[str, Any]]] = {
    "a guarantee of the whole link": ([make_job("hog", namespace="a", guarantee_bps=G, priority=100)], {}),
    "five hundred guarantees and pods that never start": (
        [make_job(f"hog-{n}", namespace="a", guarantee_bps=G, priority=100) for n in range(500)],
        {"starts_in": math.inf},
    ),
    "two hundred small jobs that flow": ([make_job(f"hog-{n}", namespace="a", weight=1000, priority=100) for n in range(200)], {}),
    "two hundred guarantees that send next to nothing": (
        [make_job(f"hog-{n}", namespace="a", guarantee_bps=G) for n in range(200)],
        {"able_bps": 1e4},
    ),
}


@pytest.mark.parametrize("stage", [JobStage.HOLDING, JobStage.ASKING])
@pytest.mark.parametrize("hogs", HOGS.values(), ids=HOGS.keys())
def test_no_act_of_one_tenant_lowers_another_below_its_share(hogs: tuple[list[Participant], dict[str, Any]], stage: JobStage) -> None:
    jobs, ability = hogs
    network = Network(make_rules(tenants={"a": {"weight": 3}, "b": {"weight": 1}}))
    network.add(*jobs, **ability)
    network.run(6)
    network.add(make_job("victim", namespace="b", stage=stage, guarantee_bps=100 * M))
    network.run(2)
    assert share(network, "victim").admission is Admission.ADMITTED
    change(network, "victim", stage=JobStage.FLOWING)
    network.run(30)
    assert network.rate("victim") >= 245 * M
    assert network.total() <= 1.02 * G


def test_a_steady_network_is_not_written_to() -> None:
    network = weighted()
    network.add(*(make_job(f"{name}{n}", namespace=name) for name in "abc" for n in range(4)))
    network.run(30)
    before = network.writes
    network.run(300)
    assert network.writes == before


@pytest.mark.parametrize(("direction", "at_receiver"), [("Transmit", False), ("Receive", True)])
def test_a_share_says_whether_the_receivers_interface_is_shared(direction: str, at_receiver: bool) -> None:
    node = "dtn-b" if at_receiver else "dtn-a"
    network = Network(make_rules(make_link(node=node, direction=direction)))
    network.add(make_job("one"))
    network._round()
    assert network.outcome is not None
    assert network.outcome.job_shares["one"].at_receiver is at_receiver


@pytest.mark.parametrize("name", ["zz0", "eth0", "data00"])
def test_a_job_on_an_interface_that_nobody_listed_keeps_the_cap_of_all_links_and_is_told(name: str) -> None:
    network = Network(make_rules())
    network.add(make_job("honest"), make_job("sly", source=End("dtn-a", name)))
    network.run(30)
    assert network.rate("honest") == pytest.approx(500 * M, rel=0.02)
    assert network.rate("sly") == pytest.approx(500 * M, rel=0.02)
    assert share(network, "sly").reason is Reason.INTERFACE_NOT_LISTED
    assert share(network, "sly").message.startswith(f"the FairnessPolicy lists no data interface {name} of node dtn-a (source), so the job")
    assert share(network, "honest").message == ""


def test_traffic_of_a_job_whose_interface_is_not_known_is_not_taken_for_others() -> None:
    network = Network(make_rules())
    network.add(replace(make_job("pod"), source=End("dtn-a", None), destination=End("dtn-b", None)), make_job("host"))
    network.run(60)
    assert network.outcome is not None
    assert network.outcome.foreign_bps == {"out": 0.0}
    assert network.rate("pod") == pytest.approx(500 * M, rel=0.02)
