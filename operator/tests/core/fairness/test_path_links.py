"""Links that are NetworkPaths: who crosses them, whose capacity they have, and what becomes of them without their path."""

from __future__ import annotations

from typing import Any

import pytest
from fairness_builders import M, Network, make_job, make_link, make_path, make_path_link, make_rules

from fairlead.api.networkpath import NetworkPath
from fairlead.core.fairness.rules import InvalidPolicyError
from fairlead.core.paths.model import End

HERE, THERE = End("dtn-a", "data0"), End("dtn-b", "data0")


@pytest.mark.parametrize(
    ("interfaces", "source", "destination", "crosses"),
    [
        ((None, None), HERE, THERE, True),
        (("data0", "data0"), HERE, THERE, True),
        (("data0", None), HERE, End("dtn-b", "data7"), True),
        (("data0", "data0"), End("dtn-a", "data1"), THERE, False),
        (("data0", "data0"), HERE, End("dtn-b", "data1"), False),
        (("data0", "data0"), End("dtn-a", None), End("dtn-b", None), True),
        ((None, None), THERE, HERE, False),
        ((None, None), HERE, End("dtn-c", "data0"), False),
        ((None, None), HERE, End(None, None), False),
        ((None, None), End(None, "data0"), THERE, False),
    ],
)
def test_a_job_crosses_a_path_that_leads_from_its_source_to_its_destination_as_far_as_they_are_known(
    interfaces: tuple[str | None, str | None], source: End, destination: End, crosses: bool
) -> None:
    listed = [{"nodes": ["dtn-?"], "names": ["data1", "data7"]}]
    rules = make_rules(make_path_link(), paths=[make_path("a-b", *interfaces)], interfaces=listed)
    assert rules.links_of(make_job(source=source, destination=destination)) == (("wan",) if crosses else ())


def test_a_job_on_an_interface_that_nobody_listed_crosses_every_path_between_its_nodes() -> None:
    rules = make_rules(make_path_link(), paths=[make_path("a-b", "data0", "data0")])
    job = make_job(source=End("dtn-a", "zz0"), destination=THERE)
    assert (rules.links_of(job), rules.unlisted_of(job)) == (("wan",), ("zz0 of node dtn-a (source)",))
    anywhere = make_rules(make_path_link(), paths=[make_path()])
    assert (anywhere.links_of(job), anywhere.unlisted_of(job)) == (("wan",), ())


def test_a_job_crosses_its_interfaces_and_every_path_that_it_may_be_on() -> None:
    paths = [make_path("any"), make_path("exact", "data0", "data0"), make_path("other", "data1", "data1")]
    links = [make_path_link(f"link-{path.metadata.name}", path.metadata.name) for path in paths]
    rules = make_rules(make_link(), *links, paths=paths)
    assert rules.links_of(make_job()) == ("link-any", "link-exact", "out")


def test_a_path_is_shared_like_any_link_and_its_receivers_have_no_share_of_their_own() -> None:
    rules = make_rules(make_path_link(capacity="300M"), paths=[make_path()])
    network = Network(rules)
    network.add(make_job("a", weight=100), make_job("b", weight=200), make_job("back", source=THERE, destination=HERE))
    network.run(20)
    assert (network.caps["a"], network.caps["b"]) == (100 * M, 200 * M)
    assert "back" not in network.caps
    assert not rules.shares_at_receiver(make_job())


@pytest.mark.parametrize(
    ("own", "declared", "expected"),
    [("500M", None, (5e8, "Policy")), ("500M", "2G", (5e8, "Policy")), (None, "2G", (2e9, "NetworkPath"))],
)
def test_a_links_own_capacity_goes_before_its_paths(own: str | None, declared: str | None, expected: tuple[float, str]) -> None:
    link = make_rules(make_path_link(capacity=own), paths=[make_path(capacity=declared)]).links["wan"]
    assert (link.capacity_bps, link.capacity_source) == expected


def test_parts_are_those_of_the_paths_capacity() -> None:
    link = make_rules(make_path_link(capacity=None, headroom="10%", floor="5%"), paths=[make_path(capacity="1G")]).links["wan"]
    assert (link.headroom_bps, link.floor_bps, link.available_bps) == (1e8, 5e7, 9e8)


LOST: dict[str, tuple[dict[str, Any], list[NetworkPath], str, str]] = {
    "no such path": ({}, [make_path("other")], "PathNotFound", "NetworkPath a-b does not exist: correct networkPath or create it"),
    "nor a capacity": ({"capacity": None}, [], "PathNotFound", "NetworkPath a-b does not exist: correct networkPath or create it"),
    "a path that declares none": (
        {"capacity": None},
        [make_path()],
        "NoCapacity",
        "NetworkPath a-b declares no capacity: give the link a capacity or the path its spec.capacity",
    ),
    "a path that declares too little": (
        {"capacity": None, "headroom": "2G"},
        [make_path(capacity="1G")],
        "NoCapacity",
        "NetworkPath a-b declares a capacity of 1G: spec.links[0]: headroom and floor together exceed capacity: lower one of them",
    ),
}


@pytest.mark.parametrize("case", LOST)
def test_a_link_that_its_path_does_not_give_is_named_with_the_remedy_and_not_shared(case: str) -> None:
    fields, paths, reason, message = LOST[case]
    rules = make_rules(make_path_link(**fields), paths=paths)
    assert rules.links == {}
    assert rules.unresolved["wan"].reason == reason
    assert rules.unresolved["wan"].message == f"link wan: {message}; until then the link is not shared"


@pytest.mark.parametrize("case", LOST)
def test_a_link_that_loses_its_path_or_capacity_stays_as_it_was(case: str) -> None:
    fields, paths, _, message = LOST[case]
    good = make_rules(make_path_link(capacity="400M"), paths=[make_path()])
    rules = make_rules(make_path_link(**fields), paths=paths, before=good)
    again = make_rules(make_path_link(**fields), paths=paths, before=rules)
    for each in (rules, again):
        assert each.links == good.links
        assert each.links_of(make_job()) == ("wan",)
        assert each.unresolved["wan"].message == f"link wan: {message}; until then the link stays as it was"


@pytest.mark.parametrize("fields", [{"capacity": "0"}, {"capacity": "1G", "floor": "0"}, {"capacity": "1G", "headroom": "99%"}])
@pytest.mark.parametrize("paths", [[], [make_path(capacity="1G")]])
def test_numbers_that_cannot_work_are_the_policys_fault_whatever_the_path(fields: dict[str, str], paths: list[NetworkPath]) -> None:
    with pytest.raises(InvalidPolicyError, match=r"spec\.links\[0\]"):
        make_rules(make_path_link(**fields), paths=paths)


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ({"name": "x", "capacity": "1G"}, "either interfaces or a networkPath"),
        (make_link(networkPath="a-b"), "either interfaces or a networkPath"),
        ({key: value for key, value in make_link().items() if key != "capacity"}, "capacity is missing"),
    ],
)
def test_a_link_that_is_neither_or_both_or_has_no_capacity_is_refused(link: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidPolicyError, match=problem):
        make_rules(link, paths=[make_path()])


def test_without_any_link_nobody_is_held_or_capped() -> None:
    network = Network(make_rules(make_path_link()))
    network.add(make_job())
    network._round()
    assert network.outcome is not None
    assert (network.caps, network.outcome.routes) == ({}, {})
