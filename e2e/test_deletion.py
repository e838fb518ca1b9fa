"""Deleting a job at any moment removes both pods and the partial files, and nothing else."""

from __future__ import annotations

import pytest

from e2e.lib.history import is_true
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.waiting import PATIENCE_S, wait_until
from fairlead_dev.clients.kubectl import Kubectl
from fairlead_dev.trees.listing import Listing

BYTES = 40_000_000
SLOW = {"limit": "4M"}


def keep_a_file(lab: Lab) -> Listing:
    lab.write_file(lab.destination, "run42/kept.txt", "was here before\n")
    return lab.kept(lab.destination)


def delete_and_check(lab: Lab, job: Job, before: Listing) -> None:
    job.delete()
    check_gone(lab, before)


def check_gone(lab: Lab, before: Listing) -> None:
    lab.wait_no_mover_pods()
    assert lab.kept(lab.destination) == before


def test_deleted_while_it_waits_for_a_claim(lab: Lab, kubectl: Kubectl) -> None:
    before = keep_a_file(lab)
    job = lab.submit(source={"volume": {"persistentVolumeClaim": {"claimName": "absent"}}})
    job.wait_reason("ClaimNotFound")
    delete_and_check(lab, job, before)


def test_deleted_as_soon_as_its_first_pod_exists(lab: Lab) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES)
    before = keep_a_file(lab)
    job = lab.submit(bandwidth=SLOW)
    wait_until(job.pods, "the first mover pod", interval_s=0.1)
    delete_and_check(lab, job, before)


def test_deleted_as_soon_as_both_movers_are_up(lab: Lab) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES)
    before = keep_a_file(lab)
    job = lab.submit(bandwidth=SLOW)
    # The phase Probing begins here, and may be over before anyone looks: a known path is probed for a second.
    job.wait_before_end(lambda seen: is_true(seen, "MoversReady"), "two movers that are up")
    delete_and_check(lab, job, before)


def test_deleted_in_mid_flight(lab: Lab) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES)
    before = keep_a_file(lab)
    job = lab.submit(bandwidth=SLOW)
    job.wait_phase("Transferring")
    wait_until(lab.partial_files, "partial files that deletion has to remove")
    delete_and_check(lab, job, before)


@pytest.mark.parametrize("cascade", ["foreground", "orphan"])
def test_deleted_in_mid_flight_with_another_cascade(lab: Lab, kubectl: Kubectl, cascade: str) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES)
    before = keep_a_file(lab)
    job = lab.submit(bandwidth=SLOW)
    wait_until(lab.partial_files, "partial files that deletion has to remove")
    kubectl.run("delete", "transferjob", job.name, f"--cascade={cascade}", namespace=job.namespace, timeout_s=PATIENCE_S)
    check_gone(lab, before)


def test_deleted_while_suspended_in_mid_flight(lab: Lab) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES)
    before = keep_a_file(lab)
    job = lab.submit(bandwidth=SLOW)
    wait_until(lab.partial_files, "partial files that deletion has to remove")
    job.patch(suspend=True)
    job.wait_phase("Suspended")
    delete_and_check(lab, job, before)


def test_deleted_after_success_leaves_the_files(lab: Lab) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES)
    job = lab.submit()
    job.wait_succeeded()
    job.delete()
    lab.wait_no_mover_pods()
    lab.assert_equal()
    assert lab.partial_files() == []


def test_deleted_after_failure(lab: Lab) -> None:
    before = keep_a_file(lab)
    job = lab.submit(source={"path": "nowhere"})
    job.wait_failed()
    delete_and_check(lab, job, before)
