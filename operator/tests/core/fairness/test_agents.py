"""Others' traffic where the node's agent reads the interface: its word counts in full, and nobody else's counts there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fairness_builders import G, M, Network, make_job, make_link, make_rules
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.fairness.meter import STALE_SECONDS, Meter
from fairlead.core.fairness.round import RoundInput, RoundMemory, run_round

HERE = "dtn-a", "data0", "Transmit"


def _watched(*names: str, **spec: float) -> Network:
    network = Network(make_rules(make_link(headroom="10%"), tenants={"a": {}, "b": {}}), has_agent=True, **spec)
    for name in names:
        network.add(make_job(name, namespace=name))
    return network


def _growing(rate_bps: float, until: float, seconds: int = 18) -> Meter:
    meter = Meter()
    for second in range(0, seconds + 1, 3):
        meter = meter.noted(until - seconds + second, int(rate_bps * second / 8))
    return meter


def test_a_single_tenants_link_follows_the_agent_at_once_and_in_full() -> None:
    network = _watched("a")
    network.run(30)
    assert network.rate("a") == pytest.approx(900 * M, rel=0.01)
    network.foreign_bps = 600 * M
    network.run(20)
    assert network.rate("a") == pytest.approx(300 * M, rel=0.05)
    network.foreign_bps = 0.0
    network.run(30)
    assert network.rate("a") == pytest.approx(900 * M, rel=0.01)


@pytest.mark.parametrize("lie_bps", [0.0, 400 * M, 800 * M, 3 * G])
def test_what_movers_say_changes_nothing_where_an_agent_reads(lie_bps: float) -> None:
    network = Network(make_rules(make_link(headroom="10%"), tenants={"a": {}, "b": {}}), has_agent=True)
    for name in "ab":
        network.add(make_job(name, namespace=name), counts_as=lambda now, count: count + int(max(0.0, now - 1030) * lie_bps / 8))
    network.run(200)
    assert min(seen["b"] for seen in network.history[30:]) == pytest.approx(450 * M, rel=0.02)
    assert network.outcome is not None
    assert network.outcome.foreign_bps == {"out": 0.0}


def test_movers_that_hide_others_traffic_hide_nothing_from_an_agent() -> None:
    network = Network(make_rules(make_link(headroom="10%"), tenants={"a": {}, "b": {}}), has_agent=True)
    for name in "ab":
        network.add(make_job(name, namespace=name), counts_as=lambda now, count: 0)
    network.foreign_bps = 600 * M
    network.run(60)
    assert network.total() == pytest.approx(300 * M, rel=0.03)


def test_our_own_traffic_is_not_taken_for_others() -> None:
    network = _watched("a", "b")
    network.run(60)
    assert network.outcome is not None
    assert network.outcome.foreign_bps == {"out": 0.0}


def test_others_traffic_is_known_before_the_first_job_starts() -> None:
    rules, now = make_rules(make_link(headroom="10%")), 1000.0
    memory = RoundMemory()
    for _ in range(3):
        outcome = run_round(RoundInput(rules, (), {}, {}, {HERE: _growing(600 * M, now)}), memory, now)
        memory, now = outcome.memory, now + 5.0
    assert outcome.foreign_bps["out"] == pytest.approx(600 * M)
    assert outcome.available_bps["out"] == pytest.approx(300 * M)


def test_a_silent_agent_leaves_the_word_to_the_movers() -> None:
    network = _watched("a", "b")
    network.run(30)
    network.has_agent = False
    network.foreign_bps = 600 * M
    network.run(int(STALE_SECONDS) + 40)
    assert network.total() == pytest.approx(300 * M, rel=0.03)


def test_an_agent_counts_for_its_own_interfaces_and_movers_for_the_others_of_the_link() -> None:
    elsewhere = "dtn-c", "data0", "Transmit"
    link = make_link(headroom="0")
    link["interfaces"] = [*link["interfaces"], {"node": "dtn-c", "name": "data0", "direction": "Transmit"}]
    rules, memory, now = make_rules(link), RoundMemory(), 1000.0
    job = make_job("one", source=replace(make_job().source, node="dtn-c"))
    for _ in range(3):
        movers, agents = {elsewhere: {"one": _growing(200 * M, now)}}, {HERE: _growing(300 * M, now)}
        outcome = run_round(RoundInput(rules, (job,), {}, movers, agents), memory, now)
        memory, now = outcome.memory, now + 5.0
    assert outcome.foreign_bps["out"] == pytest.approx(500 * M)


@given(
    claims=st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 5 * G)), max_size=6),
    foreign_bps=st.floats(0, 2 * G),
)
def test_whatever_movers_claim_the_agents_figure_stands(claims: list[tuple[str, float]], foreign_bps: float) -> None:
    rules = make_rules(make_link(headroom="10%"), tenants={"a": {}, "b": {}})
    jobs = tuple(make_job(f"job-{number}", namespace=name) for number, (name, _) in enumerate(claims))
    movers = {HERE: {f"job-{number}": _growing(rate_bps, 1000.0) for number, (_, rate_bps) in enumerate(claims)}}
    agents = {HERE: _growing(foreign_bps, 1000.0)}
    with_movers = run_round(RoundInput(rules, jobs, {}, movers, agents), RoundMemory(), 1000.0)
    alone = run_round(RoundInput(rules, (), {}, {}, agents), RoundMemory(), 1000.0)
    assert with_movers.foreign_bps == alone.foreign_bps
    assert with_movers.available_bps == alone.available_bps
