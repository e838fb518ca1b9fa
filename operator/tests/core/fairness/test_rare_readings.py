"""Rounds over jobs whose movers are asked once a minute or more rarely, as with ten thousand of them: nothing is concluded from waiting."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from fairness_builders import M, Network, make_job, make_link, make_rules

from fairlead.core.fairness.model import Contact
from fairlead.core.fairness.round import HOLD_SECONDS


def rarely_read(*names: str, has_agent: bool = False, read_seconds: float = 100.0, **job: float) -> Network:
    """Jobs of tenants of their names, on a link of 900M without headroom, each read at a time of its own."""
    tenants = {name: {"weight": 1} for name in names}
    network = Network(make_rules(make_link(headroom="10%"), tenants=tenants), has_agent=has_agent)
    for number, name in enumerate(names):
        network.add(make_job(name, namespace=name, **job), read_seconds=read_seconds)
        network.pipes[name].next_read = network.now + read_seconds * number / len(names)
    return network


@pytest.mark.parametrize("read_seconds", [60.0, 200.0])
def test_a_job_keeps_its_guarantee_from_one_reading_to_the_next(read_seconds: float) -> None:
    network = rarely_read("a", "b", read_seconds=read_seconds, guarantee_bps=300 * M)
    network.run(int(5 * read_seconds))
    assert network.memory.idle_since == {}
    assert min(rates["a"] for rates in network.history[30:]) >= 300 * M


def test_a_job_that_the_readings_show_to_use_nothing_is_released_all_the_same() -> None:
    network = rarely_read("a", "b", guarantee_bps=300 * M)
    network.pipes["a"].able_bps = 0.0
    network.run(int(2 * 100 + HOLD_SECONDS + 10))
    assert network.memory.idle_since.keys() == {"a"}
    assert network.rate("b") > 600 * M


def test_a_job_that_does_not_answer_any_more_is_released_as_nobody_knows_that_it_uses_its_guarantee() -> None:
    network = rarely_read("a", "b", guarantee_bps=300 * M)
    network.run(300)
    assert network.memory.idle_since == {}
    network.pipes["a"].job = replace(network.pipes["a"].job, contact=Contact.SILENT)
    network.run(10)
    assert network.memory.idle_since.keys() == {"a"}


def test_after_a_change_of_the_operator_no_guarantee_is_lost_and_nothing_of_ours_is_others_until_all_were_read_twice() -> None:
    network = rarely_read("a", "b", "c", has_agent=True, guarantee_bps=200 * M)
    network.run(500)
    before = dict(network.caps)
    network.take_over(first_read_seconds=200.0)
    for _ in range(400):
        network.step()
        assert network.memory.idle_since == {}
        assert network.outcome is not None
        assert network.outcome.foreign_bps.get("out", 0.0) == 0.0
    assert network.caps == before


def test_a_job_that_its_disk_limits_leaves_the_rest_after_two_readings_and_no_share_oscillates() -> None:
    network = rarely_read("disk", "eager", read_seconds=60.0)
    network.pipes["disk"].able_bps = 100 * M
    network.run(60 + 3 * 60 + 20)
    assert network.rate("eager") >= 770 * M
    before = network.writes
    network.run(600)
    assert network.writes == before
    network.pipes["disk"].able_bps = 2000 * M
    network.run(4 * 60)
    assert network.rate("disk") == pytest.approx(450 * M, rel=0.02)


def test_a_job_whose_cap_rose_between_two_readings_is_not_taken_for_one_that_leaves_it() -> None:
    network = rarely_read("a", "b")
    network.run(500)
    network.remove("b")
    network.run(400)
    assert network.rate("a") == pytest.approx(900 * M, rel=0.01)
    rates = [seen["a"] for seen in network.history[-380:]]
    assert all(after >= before * 0.999 for before, after in pairwise(rates))


@pytest.mark.parametrize(("has_agent", "most_bps"), [(True, 0.0), (False, 0.06 * 900 * M)], ids=["agent", "movers"])
def test_what_a_raised_cap_brings_before_the_next_reading_is_not_taken_for_others_traffic(has_agent: bool, most_bps: float) -> None:
    network = rarely_read("a", "b", "c", has_agent=has_agent)
    network.run(500)
    network.remove("c")
    for _ in range(300):
        network.step()
        assert network.outcome is not None
        # Two movers read one counter at times of their own: what is between them shows for a while.
        assert network.outcome.foreign_bps.get("out", 0.0) <= most_bps
    assert network.total() == pytest.approx(900 * M, rel=0.02)


@pytest.mark.parametrize("has_agent", [True, False], ids=["agent", "movers"])
def test_others_traffic_is_left_room_also_while_our_own_is_read_rarely(has_agent: bool) -> None:
    network = rarely_read("a", "b", has_agent=has_agent)
    network.run(400)
    network.foreign_bps = 400 * M
    network.run(600)
    assert network.total() == pytest.approx(500 * M, rel=0.05)
    network.foreign_bps = 0.0
    network.run(600)
    assert network.total() == pytest.approx(900 * M, rel=0.05)
