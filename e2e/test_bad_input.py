"""Jobs that cannot succeed say why, by name and soon, and leave the destination as it was."""

from __future__ import annotations

from typing import Any

import pytest
from e2e.lib import history
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.manifests import DESTINATION_NODE, SOURCE_NODE
from e2e.lib.waiting import wait_until

from access.kubectl import Kubectl, Object
from access.volumes import local_volume
from trees.listing import Listing

PROMPT_S = 10.0
BYTES = 10_000_000


def keep_a_file(lab: Lab) -> Listing:
    """Puts a file where the job wants to write, and returns what the destination holds."""
    lab.write_file(lab.destination, "run42/kept.txt", "was here before\n")
    return lab.kept(lab.destination)


def assert_prompt(job: Job, seen: Object, reason: str) -> Object:
    found = history.condition_with_reason(seen, reason)
    assert found is not None
    assert found["message"]
    assert history.seconds_until(seen, found) <= PROMPT_S, f"{reason} took too long (phases {job.phases})"
    return found


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"source": {"path": "nowhere"}}, "SourceMissing"),
        ({"source": {"path": "a-file"}}, "SourceNotDirectory"),
        ({"source": {"path": "empty"}}, "SourceEmpty"),
        ({"data": {"exclude": ["**"]}}, "SourceEmpty"),
        ({"transport": {"congestionControl": "vegas"}}, "CongestionControlUnavailable"),
        ({"source": {"interface": "nope0"}}, "InterfaceNotFound"),
        ({"destination": {"interface": "nope0"}}, "InterfaceNotFound"),
    ],
    ids=[
        "missing source",
        "source is a file",
        "empty source",
        "everything excluded",
        "congestion control",
        "source interface",
        "destination interface",
    ],
)
def test_a_hopeless_job_fails_with_the_reason_and_touches_nothing(lab: Lab, spec: dict[str, Any], reason: str) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES)
    lab.write_file(lab.source, "a-file", "not a directory\n")
    lab.make_folder(lab.source, "empty")
    before = keep_a_file(lab)

    job = lab.submit(**spec)
    failed = job.wait_failed()

    assert_prompt(job, failed, reason)
    ending = history.condition(failed, "Failed")
    assert ending is not None
    assert ending["reason"] == reason
    assert job.status["attempts"] == 1, "a retry could not have helped"
    wait_until(lambda: lab.kept(lab.destination) == before, "the destination is as it was before", 30)


@pytest.mark.destination_size("16M")
def test_a_destination_without_space_is_told_before_anything_is_written(lab: Lab) -> None:
    lab.write(lab.source, "plain", bytes_total=40_000_000)
    before = keep_a_file(lab)
    job = lab.submit()
    assert_prompt(job, job.wait_failed(), "DestinationFull")
    wait_until(lambda: lab.kept(lab.destination) == before, "the destination is as it was before", 30)


@pytest.mark.parametrize("side", ["source", "destination"])
def test_an_unknown_node_is_named(lab: Lab, side: str) -> None:
    before = keep_a_file(lab)
    spec: dict[str, Any] = {side: {"node": "dtn-zz"}}
    job = lab.submit(**spec)
    found = assert_prompt(job, job.wait_reason("NodeNotFound"), "NodeNotFound")
    assert "dtn-zz" in found["message"]
    assert job.pods() == []
    assert lab.kept(lab.destination) == before


def test_a_claim_on_another_node_is_named(lab: Lab) -> None:
    job = lab.submit(source={"node": DESTINATION_NODE})
    assert_prompt(job, job.wait_reason("ClaimOnOtherNode"), "ClaimOnOtherNode")
    assert job.pods() == []


def test_a_missing_claim_is_named_and_the_job_goes_on_when_it_comes(lab: Lab, kubectl: Kubectl) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES)
    kubectl.delete("persistentvolumeclaim", ["scratch"], namespace=lab.namespace)
    kubectl.delete("persistentvolume", [lab.destination.name])
    job = lab.submit()
    found = assert_prompt(job, job.wait_reason("ClaimNotFound"), "ClaimNotFound")
    assert "scratch" in found["message"]

    kubectl.apply(*local_volume(lab.destination, "scratch", lab.namespace))
    job.wait_succeeded()
    lab.assert_equal()


@pytest.mark.exclusive
def test_a_receiver_that_never_comes_up_is_told_and_the_job_goes_on_when_it_can(lab: Lab, kubectl: Kubectl) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES)
    kubectl.run("cordon", DESTINATION_NODE)
    try:
        job = lab.submit()
        waiting = job.wait_for(
            lambda seen: any("unschedulable" in c["message"] for c in seen.get("status", {}).get("conditions", [])),
            "a condition that tells what holds the receiver back",
        )
        telling = next(c for c in waiting["status"]["conditions"] if "unschedulable" in c["message"])
        assert telling["reason"] in {"WaitingForScheduler", "ReceiverNotReady"}
        assert history.seconds_until(waiting, telling) <= PROMPT_S
    finally:
        kubectl.run("uncordon", DESTINATION_NODE)
    job.wait_succeeded()
    assert job.status["endpoints"]["source"]["node"] == SOURCE_NODE
