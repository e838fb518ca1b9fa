"""Jobs outlive suspension, the operator's restart and the loss of a mover."""

from __future__ import annotations

import pytest

from e2e.lib.history import condition, condition_with_reason
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.node import advisor_command_line, frozen
from e2e.lib.slow import finish_fast
from e2e.lib.turns import CLUSTER
from e2e.lib.waiting import PATIENCE_S, wait_until
from fairlead_dev.clients.kubectl import Kubectl
from fairlead_dev.clients.release import RELEASE_NAMESPACE

BYTES = 40_000_000
SLOW = {"limit": "2M"}
"""The data last for more than two minutes, in which also a slow and busy machine has done what a test does to the job."""


def start_slowly(lab: Lab) -> Job:
    """A job in mid-transfer, with partial files at the destination."""
    lab.write(lab.source, "odd", bytes_total=BYTES)
    job = lab.submit(bandwidth=SLOW)
    job.wait_phase("Transferring")
    wait_until(lab.partial_files, "data that has arrived")
    return job


@pytest.mark.long(50)
def test_a_suspended_job_resumes_and_succeeds(lab: Lab) -> None:
    job = start_slowly(lab)
    job.wait_for(lambda seen: seen.get("status", {}).get("progress", {}).get("bytesTransferred"), "a whole block that has arrived")
    job.patch(suspend=True)
    job.wait_phase("Suspended")
    lab.wait_no_mover_pods()
    job.patch(suspend=False)
    finish_fast(lab, job)
    assert job.status.get("failures", 0) == 0, "suspension is no failure"
    succeeded = condition(job.object, "Succeeded")
    assert succeeded is not None
    assert "bytes were there from earlier attempts" in succeeded["message"]


@pytest.mark.long(50)
def test_a_lost_receiver_is_followed_by_a_second_attempt(lab: Lab, kubectl: Kubectl) -> None:
    job = start_slowly(lab)
    receiver = job.pod("receiver")
    assert receiver is not None
    kubectl.run("delete", "pod", receiver["metadata"]["name"], "--force", "--grace-period=0", namespace=lab.namespace)
    job.wait_for(lambda seen: seen.get("status", {}).get("attempts") == 2, "a second attempt")
    finish_fast(lab, job)
    assert job.status["attempts"] == 2, job.status.get("lastFailure")
    assert job.status["lastFailure"]["attempt"] == 1


@pytest.mark.long(50)
def test_a_killed_sender_is_followed_by_a_second_attempt(lab: Lab) -> None:
    job = start_slowly(lab)
    lab.cluster.on(lab.source.node, "pkill", "-KILL", "-f", "--", f"^[^ ]*fairlead-mover send .*--job={job.uid}")
    job.wait_for(lambda seen: seen.get("status", {}).get("attempts") == 2, "a second attempt")
    finish_fast(lab, job)
    assert job.status["attempts"] == 2, job.status.get("lastFailure")


@pytest.mark.long(50)
def test_an_advisor_that_hangs_is_told_and_costs_the_transfer_nothing(lab: Lab) -> None:
    job = start_slowly(lab)
    job.wait_reason("Probed")
    advisor = advisor_command_line(job.pod("sender"))
    movers = {pod["metadata"]["uid"] for pod in job.pods()}
    with frozen(lab.cluster, lab.source.node, "-f", "--", advisor):
        silent = condition(job.wait_before_end(lambda seen: condition_with_reason(seen, "AdvisorSilent"), "AdvisorSilent"), "PathProbed")
        assert silent is not None and silent["status"] == "True"
        # CUBIC on an idle link, but a busy machine's delays may look like BBR.
        chosen = job.status["decision"]["congestionControl"]
        assert f"the transfer goes on with {chosen} over " in silent["message"]
        wait_until(lambda: [event for event in job.events() if event["reason"] == "AdvisorSilent"], "an event that says so")
        finish_fast(lab, job)
    assert job.status["attempts"] == 1
    assert {change.object["metadata"]["uid"] for change in lab.pod_versions()} == movers


@pytest.mark.exclusive(CLUSTER)
def test_the_operators_restart_costs_no_attempt(lab: Lab, kubectl: Kubectl) -> None:
    job = start_slowly(lab)
    movers = {pod["metadata"]["uid"] for pod in job.pods()}
    operators = [pod["metadata"]["name"] for pod in kubectl.list("pods", namespace=RELEASE_NAMESPACE)]
    assert operators
    kubectl.delete("pod", operators, namespace=RELEASE_NAMESPACE, wait_s=PATIENCE_S)
    kubectl.run("rollout", "status", "deployment", f"--timeout={PATIENCE_S:g}s", namespace=RELEASE_NAMESPACE, timeout_s=PATIENCE_S + 60)
    finish_fast(lab, job)
    assert job.status["attempts"] == 1
    assert {change.object["metadata"]["uid"] for change in lab.pod_versions()} == movers
