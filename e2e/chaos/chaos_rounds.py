"""Transfers that are disturbed in mid-flight."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from e2e.chaos.disturbances import kill_operator
from e2e.chaos.rounds import Round
from e2e.chaos.transfer import BYTES, SLOW, disturbed
from e2e.chaos.verdict import Problem, Verdict
from e2e.lib import history
from e2e.lib.lab import Lab
from e2e.lib.manifests import FOLDER
from e2e.lib.waiting import wait_until
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.trees.listing import compare

MANY = 20
KILL_EVERY_S = 5.0


def chaos_in_mid_flight(chaos: Round, lab: Lab, cluster: LocalCluster, conclude: Callable[[Verdict], None]) -> None:
    conclude(disturbed(chaos, lab, cluster))


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
