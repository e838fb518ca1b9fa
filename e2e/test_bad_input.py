"""Jobs that cannot succeed say why, by name and soon, and leave the destination as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.lib import history
from e2e.lib.history import TOLD_AFTER
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.manifests import DESTINATION_NODE, SOURCE_NODE
from e2e.lib.turns import CLUSTER
from e2e.lib.waiting import wait_until
from fairlead_dev.clients.kubectl import Kubectl, Object
from fairlead_dev.clients.volumes import local_volume
from fairlead_dev.trees.listing import Listing

BYTES = 10_000_000


def keep_a_file(lab: Lab) -> Listing:
    """Puts a file where the job wants to write, and returns what the destination holds."""
    lab.write_file(lab.destination, "run42/kept.txt", "was here before\n")
    return lab.kept(lab.destination)


@dataclass(frozen=True)
class Prompt:
    """Judges what makes a reason come soon; how soon it came depends on the machine, and is printed at the end of the run."""

    record: Callable[[str, object], None]

    def tells(self, job: Job, seen: Object, reason: str) -> Object:
        """The condition of that reason, which the first attempt brought, if it took one, without a retry or a pause before."""
        found = history.condition_with_reason(seen, reason)
        assert found is not None
        assert found["message"]
        assert seen["status"].get("attempts", 0) <= 1, "it took another attempt"
        assert seen["status"].get("failures", 0) == 0, "an attempt failed in vain"
        paused = [change.object for change in job.changes if history.condition_with_reason(change.object, "BackingOff")]
        assert paused == [], f"it took a pause (phases {job.phases})"
        self.record(TOLD_AFTER, history.seconds_until(seen, found))
        return found


@pytest.fixture
def prompt(record_property: Callable[[str, object], None]) -> Prompt:
    return Prompt(record_property)


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
def test_a_hopeless_job_fails_with_the_reason_and_touches_nothing(lab: Lab, prompt: Prompt, spec: dict[str, Any], reason: str) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES)
    lab.write_file(lab.source, "a-file", "not a directory\n")
    lab.make_folder(lab.source, "empty")
    before = keep_a_file(lab)

    job = lab.submit(**spec)
    failed = job.wait_failed()

    prompt.tells(job, failed, reason)
    ending = history.condition(failed, "Failed")
    assert ending is not None
    assert ending["reason"] == reason
    assert job.status["attempts"] == 1, "a retry could not have helped"
    wait_until(lambda: lab.kept(lab.destination) == before, "the destination is as it was before")


@pytest.mark.destination_size("16M")
def test_a_destination_without_space_is_told_before_anything_is_written(lab: Lab, prompt: Prompt) -> None:
    lab.write(lab.source, "plain", bytes_total=40_000_000)
    before = keep_a_file(lab)
    job = lab.submit()
    prompt.tells(job, job.wait_failed(), "DestinationFull")
    wait_until(lambda: lab.kept(lab.destination) == before, "the destination is as it was before")


@pytest.mark.parametrize("side", ["source", "destination"])
def test_an_unknown_node_is_named(lab: Lab, prompt: Prompt, side: str) -> None:
    before = keep_a_file(lab)
    spec: dict[str, Any] = {side: {"node": "dtn-zz"}}
    job = lab.submit(**spec)
    found = prompt.tells(job, job.wait_reason("NodeNotFound"), "NodeNotFound")
    assert "dtn-zz" in found["message"]
    assert job.pods() == []
    assert lab.kept(lab.destination) == before


def test_a_claim_on_another_node_is_named(lab: Lab, prompt: Prompt) -> None:
    job = lab.submit(source={"node": DESTINATION_NODE})
    prompt.tells(job, job.wait_reason("ClaimOnOtherNode"), "ClaimOnOtherNode")
    assert job.pods() == []


def test_a_missing_claim_is_named_and_the_job_goes_on_when_it_comes(lab: Lab, kubectl: Kubectl, prompt: Prompt) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES)
    kubectl.delete("persistentvolumeclaim", ["scratch"], namespace=lab.namespace)
    kubectl.delete("persistentvolume", [lab.destination.name])
    job = lab.submit()
    found = prompt.tells(job, job.wait_reason("ClaimNotFound"), "ClaimNotFound")
    assert "scratch" in found["message"]

    kubectl.apply(*local_volume(lab.destination, "scratch", lab.namespace))
    job.wait_succeeded()
    lab.assert_equal()


@pytest.mark.exclusive(CLUSTER)
def test_a_receiver_that_never_comes_up_is_told_and_the_job_goes_on_when_it_can(lab: Lab, kubectl: Kubectl, prompt: Prompt) -> None:
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
        prompt.tells(job, waiting, telling["reason"])
    finally:
        kubectl.run("uncordon", DESTINATION_NODE)
    job.wait_succeeded()
    assert job.status["endpoints"]["source"]["node"] == SOURCE_NODE
