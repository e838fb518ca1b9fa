"""What is joined from the job, the policy, the path and the events, and what of others is left out."""

from __future__ import annotations

import json

import pytest
from explain_jobs import TRANSFERRING, explained, job, path, policy, running

from fairlead.api.networkpath import NetworkPathStatus
from fairlead.commands.explain.account import account_of
from fairlead.commands.explain.command import to_json
from fairlead.commands.explain.facts import Facts


def test_conditions_are_in_the_order_of_a_jobs_life() -> None:
    assert [each.type for each in running().conditions] == ["Accepted", "Scheduled", "MoversReady", "PathProbed", "CapEnforced"]


def test_the_bottleneck_and_the_tenant_are_those_of_the_policy_in_force() -> None:
    bandwidth = running().bandwidth
    assert bandwidth.link is not None
    assert bandwidth.tenant is not None
    assert (bandwidth.link.name, bandwidth.link.jobs, bandwidth.link.waiting) == ("uplink", 7, 3)
    assert (bandwidth.tenant.name, bandwidth.tenant.jobs) == ("bio", 2)
    assert (bandwidth.cap, bandwidth.part_of_cap) == ("100M", "0.97")


def test_nothing_of_other_tenants_or_their_jobs_is_in_the_document() -> None:
    printed = to_json(running(), ["wait"])
    assert "secret-project" not in printed
    assert "uid-of-another" not in printed


def test_the_path_is_the_one_between_the_jobs_ends() -> None:
    found = running().path
    assert found is not None
    assert found.job is not None
    assert (found.name, found.rtt, found.capacity, found.declared_capacity, found.job.rtt) == (
        *("dtn-a-dtn-b-1234", "60.213ms", "450M", "1G"),
        "60.2ms",
    )


def test_what_the_jobs_own_namespace_has_measured_comes_first() -> None:
    measured = {"namespaces": [{"namespace": "rival", "rtt": "1.0ms", "capacity": "9G"}, {"namespace": "bio", "rtt": "61.0ms"}]}
    known = path().model_copy(update={"status": NetworkPathStatus.model_validate({**path().status.to_object(), **measured})})
    found = account_of(Facts(job(TRANSFERRING), paths=(known,))).path
    assert found is not None
    assert (found.rtt, found.capacity) == ("61.0ms", None)


def test_without_policy_and_path_the_job_alone_is_told() -> None:
    document = account_of(Facts(job(TRANSFERRING), not_shown=("you may not list fairnesspolicies",)))
    assert document.bandwidth.tenant_name == "bio"
    assert (document.bandwidth.tenant, document.bandwidth.link) == (None, None)
    assert document.path is not None
    assert document.path.name is None
    assert document.not_shown == ("you may not list fairnesspolicies",)


def test_before_the_operator_has_seen_the_job_there_is_the_spec_alone() -> None:
    document = explained()
    assert (document.phase, document.conditions, document.answers_spec) == ("Unknown", (), False)
    assert (document.source.node, document.source.claim, document.source.path) == ("dtn-a", "raw", "run42")
    assert (document.path, document.decision, document.attempts) == (None, None, 0)


@pytest.mark.parametrize("measured", ["", "fast", "1e9", None])
def test_a_rate_that_is_none_gives_no_ratio(measured: str | None) -> None:
    status = {**TRANSFERRING, "bandwidth": {"allocated": "100M", "measured": measured, "enforcedBy": "Pacing"}}
    assert explained(status).bandwidth.part_of_cap is None


def test_a_path_of_other_ends_is_not_the_jobs() -> None:
    elsewhere = {**TRANSFERRING, "endpoints": {"source": {"node": "dtn-x"}, "destination": {"node": "dtn-b"}}}
    document = account_of(Facts(job(elsewhere), (), (policy(),), (path(),)))
    assert document.path is not None
    assert document.path.name is None


def test_json_has_a_version_and_the_names_of_the_resources() -> None:
    document = json.loads(to_json(running(), ["wait"]))
    assert (document["version"], document["nextSteps"]) == (1, ["wait"])
    assert document["decision"]["switches"][0]["from"] == "cubic"
    assert document["bandwidth"]["link"]["jobs"] == 7
    assert document["conditions"][0]["lastTransitionTime"].endswith("Z")
