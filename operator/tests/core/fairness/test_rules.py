"""Which links a job crosses, whose a namespace is, and which policy is in force."""

from __future__ import annotations

from typing import Any

import pytest
from fairness_builders import make_job, make_link, make_policy, make_rules

from fairlead.core.fairness.rules import InvalidPolicyError, choose, read_candidate, read_rules
from fairlead.core.paths.model import End


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
            (End("dtn-a", "mgmt"), End("dtn-x", "data0"), ("a-out", "uplink")),
            (End("dtn-a", "zz0"), End("dtn-b", "zz0"), ("a-out", "uplink")),
            (End("dtn-x", "zz0"), End("dtn-x", "zz1"), ()),
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

    def test_an_interface_has_for_jobs_what_the_tightest_of_its_links_leaves(self) -> None:
        rules = make_rules(make_link("out"), make_link("uplink", capacity="5G"), make_link("in", node="dtn-b", direction="Receive"))
        open_bps = rules.open_bps({"out": 4e8, "uplink": 3e8, "in": 1e9})
        assert open_bps == {("dtn-a", "data0"): 3e8, ("dtn-b", "data0"): 1e9}

    def test_an_interface_that_is_not_known_stands_for_all_of_its_node_that_are_shared(self) -> None:
        rules = read_rules(_both(), {})
        known = make_job(source=End("dtn-a", "data0"), destination=End("dtn-b", "data0"))
        assert rules.interfaces_of(known) == {("dtn-a", "data0", "Transmit"), ("dtn-b", "data0", "Receive")}
        for name in (None, "mgmt"):
            unknown = make_job(source=End("dtn-a", name), destination=End("dtn-x", name))
            assert rules.interfaces_of(unknown) == {("dtn-a", "data0", "Transmit")}

    @pytest.mark.parametrize(
        ("interface", "expected"),
        [("mgmt", ()), ("bond3", ()), ("bond12", ("a-out", "uplink")), ("eth0", ("a-out", "uplink")), ("data0", ("a-out", "uplink"))],
    )
    def test_a_job_on_an_interface_that_an_administrator_lists_crosses_the_links_that_name_it_alone(
        self, interface: str, expected: tuple[str, ...]
    ) -> None:
        listed = [{"nodes": ["dtn-*"], "names": ["mgmt", "bond?"]}, {"nodes": ["gate-1"], "names": ["eth0"]}]
        policy = make_policy(*(link.to_object() for link in _both().spec.links), interfaces=listed)
        job = make_job(source=End("dtn-a", interface), destination=End("dtn-x", "mgmt"))
        rules = read_rules(policy, {})
        assert rules.links_of(job) == expected
        crosses_as_unlisted = interface in {"bond12", "eth0"}
        assert rules.unlisted_of(job) == ((f"{interface} of node dtn-a (source)",) if crosses_as_unlisted else ())

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
