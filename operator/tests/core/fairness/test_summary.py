"""What a policy's status says, and when it is written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fairness_builders import G, M, Network, make_job, make_link, make_path, make_path_link, make_policy, make_rules

from fairlead.api.fairnesspolicy import FairnessPolicyStatus
from fairlead.api.reasons import PolicyReason
from fairlead.core.fairness.model import JobStage
from fairlead.core.fairness.rules import Candidate, read_candidate
from fairlead.core.fairness.summary import accepted_status, is_worth_writing, refused_status
from fairlead.core.paths.model import End

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def candidate() -> Candidate:
    policy = make_policy()
    return read_candidate({"metadata": policy.metadata.to_object(), "spec": policy.spec.to_object()})


def summarised(network: Network, problem: str = "") -> FairnessPolicyStatus:
    network._round()
    assert network.outcome is not None
    return accepted_status(candidate(), network.rules, network.outcome, problem, NOW)


def condition(status: FairnessPolicyStatus, kind: str) -> tuple[str, str, str]:
    return next((c.status, c.reason, c.message) for c in status.conditions if c.type == kind)


def test_links_and_tenants_say_what_is_allocated_and_measured() -> None:
    network = Network(make_rules(make_link(capacity="900M"), tenants={"astro": {"weight": 200}}))
    network.add(make_job("a", namespace="astro"), make_job("b"))
    network.run(30)
    status = summarised(network)
    (link,) = status.links
    assert (link.capacity, link.available, link.allocated, link.measured, link.foreign) == ("900M", "900M", "900M", "900M", "0")
    assert (link.jobs, link.waiting, link.jain_index) == (2, 0, "1.000")
    assert {tenant.name: (tenant.jobs, tenant.allocated) for tenant in status.tenants} == {"astro": (1, "600M"), "others": (1, "300M")}
    assert (status.jobs, status.waiting, status.jain_index) == (2, 0, "1.000")


def test_a_scavenger_beside_others_is_no_unfairness() -> None:
    network = Network(make_rules(make_link(capacity="900M")))
    network.add(make_job("a"), make_job("b"), make_job("rest", gives_way=True))
    network.run(30)
    (link,) = summarised(network).links
    assert (link.jobs, link.jain_index) == (3, "1.000")
    network.remove("a")
    network.remove("b")
    network.run(30)
    (link,) = summarised(network).links
    assert (link.jobs, link.jain_index) == (1, "1.000")


def test_jobs_that_wait_are_counted_at_their_link_and_tenant() -> None:
    network = Network(make_rules(tenants={"astro": {}}))
    network.add(make_job("a", namespace="astro", guarantee_bps=G), make_job("b", namespace="astro", guarantee_bps=M, stage=JobStage.ASKING))
    status = summarised(network)
    assert (status.jobs, status.waiting, status.links[0].waiting) == (1, 1, 1)
    assert {tenant.name: tenant.waiting for tenant in status.tenants} == {"astro": 1, "others": 0}


@pytest.mark.parametrize(
    ("tenants", "jobs", "expected"),
    [
        ({"a": {"guarantee": "1G"}}, [{}], ("True", "GuaranteesFit")),
        ({"a": {"guarantee": "800M"}, "b": {"guarantee": "300M"}}, [{"namespace": "a"}, {"namespace": "b"}], ("False", "GuaranteesShrunk")),
        ({"a": {"guarantee": "800M"}, "b": {"guarantee": "300M"}}, [{"namespace": "a"}, {}], ("True", "GuaranteesFit")),
        ({"a": {"limit": "100M"}}, [{"namespace": "a", "guarantee_bps": 400 * M}], ("False", "GuaranteesShrunk")),
    ],
)
def test_guarantees_that_do_not_fit_are_named(tenants: dict[str, Any], jobs: list[dict[str, Any]], expected: tuple[str, str]) -> None:
    network = Network(make_rules(tenants=tenants))
    network.add(*(make_job(f"job-{number}", **fields) for number, fields in enumerate(jobs)))
    assert condition(summarised(network), "GuaranteesMet")[:2] == expected


def test_a_tenant_guaranteed_more_than_a_link_that_it_does_not_use_breaks_no_promise_there() -> None:
    network = Network(
        make_rules(make_link(), make_link("nic", "dtn-c", capacity="900M"), tenants={"astro": {"guarantee": "1G"}, "bio": {}})
    )
    network.add(make_job("a", namespace="astro"), make_job("b", namespace="bio", source=End("dtn-c", "data0"), guarantee_bps=100 * M))
    status, _, message = condition(summarised(network), "GuaranteesMet")
    assert (status, message.endswith("would not on nic")) == ("True", True)
    network.add(make_job("c", namespace="astro", source=End("dtn-c", "data0")))
    status, _, message = condition(summarised(network), "GuaranteesMet")
    assert (status, "nic has 900M for its jobs' tenants, whose guarantees are 1G" in message) == ("False", True)


def test_guarantees_that_others_traffic_leaves_no_room_for_are_named() -> None:
    network = Network(make_rules())
    network.add(make_job(guarantee_bps=800 * M))
    network.foreign_bps = 600 * M
    network.run(40)
    status, reason, message = condition(summarised(network), "GuaranteesMet")
    assert (status, reason) == ("False", "GuaranteesShrunk")
    assert "tenant others's part of its links keeps 0." in message


def test_a_link_by_path_says_whose_capacity_it_has_and_that_others_traffic_is_not_counted() -> None:
    network = Network(make_rules(make_link(), make_path_link(capacity=None), paths=[make_path(capacity="400M")]))
    network.add(make_job())
    network.run(30)
    status = summarised(network)
    out, wan = status.links
    assert (out.capacity, out.capacity_source, out.foreign) == ("1G", "Policy", "0")
    assert (wan.capacity, wan.capacity_source, wan.allocated, wan.foreign) == ("400M", "NetworkPath", "400M", None)
    assert condition(status, "LinksResolved")[:2] == ("True", "AllResolved")
    assert "others' traffic on wan cannot be counted" in condition(status, "LinksResolved")[2]


def test_links_whose_path_is_missing_or_without_capacity_are_named_and_the_others_shared() -> None:
    network = Network(make_rules(make_link(), make_path_link("x", "gone"), make_path_link("y", capacity=None), paths=[make_path()]))
    network.add(make_job())
    status = summarised(network)
    verdict, reason, message = condition(status, "LinksResolved")
    assert (verdict, reason) == ("False", "PathNotFound")
    assert "link x: NetworkPath gone does not exist" in message
    assert "link y: NetworkPath a-b declares no capacity" in message
    assert [link.name for link in status.links] == ["out"]
    assert condition(status, "Accepted")[0] == "True"


def test_tenants_without_namespaces_are_named() -> None:
    network = Network(make_rules(tenants={"astro": {}}))
    network.rules = replace(
        network.rules, tenants={**network.rules.tenants, "ghost": replace(network.rules.tenants["astro"], name="ghost", namespaces=0)}
    )
    status, reason, message = condition(summarised(network), "TenantsMatched")
    assert (status, reason) == ("False", "SelectorMatchesNothing")
    assert "ghost" in message


def test_namespaces_of_several_tenants_are_named() -> None:
    network = Network(make_rules(tenants={"astro": {}}))
    network.rules = replace(network.rules, overlaps={"lab": ("astro", "bio")})
    status, reason, message = condition(summarised(network), "TenantsMatched")
    assert (status, reason) == ("False", "SelectorsOverlap")
    assert "lab (astro, bio)" in message


def test_shares_that_are_only_approximated_are_told_with_their_number() -> None:
    network = Network(make_rules())
    network._round()
    assert network.outcome is not None
    outcome = replace(network.outcome, fair=replace(network.outcome.fair, approximated=7))
    status, reason, message = condition(accepted_status(candidate(), network.rules, outcome, "", NOW), "SharesExact")
    assert (status, reason) == ("False", "Approximated")
    assert "7 jobs" in message


def test_a_policy_whose_last_version_is_bad_is_not_accepted_but_goes_on() -> None:
    status = summarised(Network(make_rules()), "spec.links[0].capacity is 0")
    assert condition(status, "Accepted")[:2] == ("False", "InvalidSpec")
    assert status.links != ()


def test_a_policy_that_is_not_in_force_says_nothing_about_links() -> None:
    status = refused_status(candidate(), PolicyReason.OTHER_POLICY_IN_FORCE, "why", NOW)
    assert ([c.type for c in status.conditions], status.links) == (["Accepted"], ())


def test_conditions_are_news_at_once_and_figures_after_a_while() -> None:
    before = summarised(Network(make_rules()))
    figures = before.model_copy(update={"jobs": 5})
    verdict = summarised(Network(make_rules()), "bad")
    assert not is_worth_writing(before, before, None)
    assert is_worth_writing(before, figures, None)
    assert not is_worth_writing(before, figures, timedelta(seconds=9))
    assert is_worth_writing(before, figures, timedelta(seconds=10))
    assert is_worth_writing(before, verdict, timedelta(seconds=1))
