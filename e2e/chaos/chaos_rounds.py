"""Transfers that are disturbed in mid-flight."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from e2e.chaos.disturbances import DISTURBANCES, Scene, kill_operator
from e2e.chaos.rounds import Round
from e2e.chaos.verdict import Ending, Problem, Verdict, judged
from e2e.lib import history
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.manifests import FOLDER
from e2e.lib.waiting import WaitedTooLongError, wait_until
from e2e.lib.wire import counted
from fairlead_dev.clients.kubectl import CommandError
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.trees.listing import compare

BYTES = 24_000_000
SLOW = {"limit": "8M"}
"""At that rate the data last 24 s, longer than any disturbance that begins early enough to matter."""
MANY = 20
KILL_EVERY_S = 5.0


def chaos_in_mid_flight(chaos: Round, lab: Lab, cluster: LocalCluster, conclude: Callable[[Verdict], None]) -> None:
    disturb, expected = DISTURBANCES[chaos.disturbance]
    began_s = time.monotonic()
    lab.write(lab.source, "odd", bytes_total=BYTES)
    before = lab.listing(lab.source, FOLDER)
    job = lab.submit(bandwidth=SLOW)

    def verdict(problem: Problem, detail: str, ended: str) -> Verdict:
        attempts = int(job.status.get("attempts", 0))
        return Verdict(str(chaos), problem, detail, ended, attempts, round(time.monotonic() - began_s, 1))

    try:
        job.wait_phase("Transferring")
        with counted(cluster, job) as sent:
            wait_until(lambda: sent.bytes_sent() >= chaos.begins_at_share * BYTES, f"{chaos.begins_at_share:.0%} of the data")
            with disturb(Scene(cluster, lab, job, random.Random(str(chaos)))):
                # How long it lasts is drawn, and nothing that is waited for.
                time.sleep(chaos.seconds)
        hurry(job)
        done = job.wait_for(history.has_ended, "its end")
        ending = Ending(
            done,
            before,
            lab.listing(lab.source, FOLDER),
            lab.listing(lab.destination, FOLDER),
            lab.partial_files(),
            lab.pod_versions(),
        )
    except WaitedTooLongError as error:
        conclude(verdict("stuck", str(error), ""))
        return
    conclude(verdict(*judged(ending, expected), ending.reason))


def chaos_with_the_operator_killed_again_and_again(lab: Lab, cluster: LocalCluster, conclude: Callable[[Verdict], None]) -> None:
    """An operator that is killed every five seconds during many transfers: none of them notices."""
    began_s = time.monotonic()
    lab.write(lab.source, "plain", bytes_total=BYTES // 4, files=3)
    jobs = [lab.submit(f"job-{number}", destination={"path": f"copy-{number}"}, bandwidth=SLOW) for number in range(MANY)]
    over = threading.Event()

    def keep_killing() -> None:
        while not over.wait(KILL_EVERY_S):
            kill_operator(cluster)

    killer = threading.Thread(target=keep_killing)
    killer.start()
    try:
        wait_until(lambda: all(history.has_ended(job.object) for job in jobs), "the end of all jobs")
    finally:
        over.set()
        killer.join()
    attempts = max(int(job.status["attempts"]) for job in jobs)
    noticed = [f"{job.name}: {job.status.get('lastFailure')}" for job in jobs if not history.is_true(job.object, "Succeeded")]
    source = lab.listing(lab.source, FOLDER)
    wrong = [job.name for job in jobs if compare(source, lab.listing(lab.destination, str(job.object["spec"]["destination"]["path"])))]
    problem: Problem = ""
    detail = ""
    if wrong:
        problem, detail = "wrong tree", ", ".join(wrong)
    elif noticed or attempts > 1:
        problem, detail = "noticed", "; ".join(noticed) or f"{attempts} attempts"
    conclude(Verdict("operator-killed-every-5-s", problem, detail, "Succeeded", attempts, round(time.monotonic() - began_s, 1)))


def hurry(job: Job) -> None:
    """Takes the job's limit away, as soon as the API server takes it."""

    def taken() -> bool:
        job.patch(bandwidth=None)
        return True

    wait_until(taken, "the API server takes a change of the job", not_yet=(CommandError,))
