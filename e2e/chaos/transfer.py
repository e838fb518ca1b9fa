"""One transfer that is disturbed in mid-flight, from its submission to what became of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from e2e.chaos.disturbances import DISTURBANCES, Scene
from e2e.chaos.rounds import Round
from e2e.chaos.verdict import Ending, Problem, Verdict, judged
from e2e.lib import history
from e2e.lib.job import Job
from e2e.lib.lab import Lab
from e2e.lib.manifests import FOLDER
from e2e.lib.waiting import WaitedTooLongError, wait_until
from e2e.lib.wire import counted
from fairlead_dev.clients.kubectl import CommandError
from fairlead_dev.clock import Clock
from fairlead_dev.cluster.client import LocalCluster

BYTES = 24_000_000
SLOW = {"limit": "8M"}
"""At that rate the data last 24 s, longer than any disturbance that begins early enough to matter."""


def disturbed(chaos: Round, lab: Lab, cluster: LocalCluster) -> Verdict:
    """Transfers `BYTES`, has the round's disturbance happen to it, and waits for its end."""
    disturb, expected = DISTURBANCES[chaos.disturbance]
    began_s = time.monotonic()
    lab.write(lab.source, "odd", bytes_total=BYTES)
    before = lab.listing(lab.source, FOLDER)
    job = lab.submit(bandwidth=SLOW)

    def verdict(problem: Problem, detail: str, ended: str, *, missed: bool = False) -> Verdict:
        attempts = int(job.status.get("attempts", 0))
        return Verdict(str(chaos), problem, detail, ended, attempts, round(time.monotonic() - began_s, 1), missed=missed)

    try:
        # Whatever is sent before the phase is told counts too.
        with counted(cluster, job) as sent:
            job.wait_for(lambda seen: history.phase(seen) == "Transferring" or history.has_ended(seen), "phase Transferring")
            wait_until(
                lambda: sent.bytes_sent() >= chaos.begins_at_share * BYTES or history.has_ended(job.object),
                f"{chaos.begins_at_share:.0%} of the data",
            )
            scene = Scene(cluster, lab, job, random.Random(str(chaos)))
            # Asked before the disturbance is made: that may end the job too.
            is_late = history.has_ended(job.object)
            took_place = not is_late and made(disturb(scene), chaos.seconds, over=lambda: sent.bytes_sent() >= BYTES)
        _hurry(job)
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
        return verdict("stuck", str(error), "")
    if not expected.can_clean_up:
        job.let_go()
    problem, detail = judged(ending, expected)
    return verdict(problem, detail, ending.reason, missed=not took_place and not problem)


def made(disturbance: AbstractContextManager[None], seconds: float, over: Callable[[], bool], clock: Clock = time) -> bool:
    """Makes a disturbance that lasts so long; whether it took place before the transfer was `over`."""
    with ExitStack() as stack:
        try:
            stack.enter_context(disturbance)
        except CommandError:
            # Where nothing is left to disturb, the commands that would do it fail.
            if not over():
                raise
            return False
        if over():
            return False
        # How long it lasts is drawn, and nothing that is waited for.
        clock.sleep(seconds)
    return True


def _hurry(job: Job) -> None:
    """Takes the job's limit away, as soon as the API server takes it."""

    def taken() -> bool:
        job.patch(bandwidth=None)
        return True

    wait_until(taken, "the API server takes a change of the job", not_yet=(CommandError,))
