"""How a sender is started on its path: with a probe of its own, with what is known, or after another job's probe."""

from __future__ import annotations

from dataclasses import replace

import pytest
from job_builders import NOW, SETTINGS, make_job, make_progress, make_reports, observe, receiver, seconds, sender, with_plan_applied

from fairlead.api.transferjob import TransferJob
from fairlead.core.lifecycle import decide
from fairlead.core.observed import MoverPod, Observed, Role
from fairlead.core.paths.model import KnownPath, ProbeAssignment, Probing
from fairlead.core.plan import Plan

KNOWN = KnownPath(rtt_minimum_seconds=0.06, capacity_bps=2e8, stream_coefficient=1.2e-6)


def _ready(assignment: ProbeAssignment | None, pod: MoverPod | None = None) -> Observed:
    job = with_plan_applied(first := observe(make_job(finalizer=True), receiver()), decide(first, NOW)).job
    return observe(job, pod or receiver(ready_since=NOW), reports=make_reports(), path=assignment)


def _probed(plan: Plan) -> tuple[str, str]:
    assert plan.status is not None
    condition = plan.status.condition("PathProbed")
    assert condition is not None
    return condition.reason, condition.message


@pytest.mark.parametrize(
    ("assignment", "path", "probe"),
    [
        (None, KnownPath(), True),
        (ProbeAssignment(Probing.OWN, KNOWN), KNOWN, True),
        (ProbeAssignment(Probing.KNOWN, KNOWN), KNOWN, False),
    ],
    ids=["nothing is known of nodes", "nobody probes", "just probed"],
)
def test_the_sender_is_told_what_is_known_and_whether_to_probe(assignment: ProbeAssignment | None, path: KnownPath, probe: bool) -> None:
    (create,) = decide(_ready(assignment), NOW).creates
    assert (create.role, create.path, create.probe) == (Role.SENDER, path, probe)


def test_while_another_job_probes_the_sender_waits_and_the_status_says_why() -> None:
    plan = decide(_ready(ProbeAssignment(Probing.LEASED, KNOWN)), NOW)
    assert plan.creates == ()
    reason, message = _probed(plan)
    assert (reason, "another job probes the path" in message, "03:04:35Z" in message) == ("PathLeased", True, True)
    assert plan.requeue_after is not None
    assert plan.requeue_after <= seconds(1)


def test_a_repeated_pass_while_waiting_writes_nothing() -> None:
    observed = _ready(ProbeAssignment(Probing.LEASED, KNOWN))
    again = with_plan_applied(observed, decide(observed, NOW))
    assert decide(again, NOW + seconds(1)).status is None


def test_the_wait_is_bounded_from_when_the_receiver_was_ready_and_then_nothing_is_probed() -> None:
    leased = ProbeAssignment(Probing.LEASED, KNOWN)
    (create,) = decide(_ready(leased, receiver(ready_since=NOW - SETTINGS.probe_wait)), NOW).creates
    assert (create.path, create.probe) == (KNOWN, False)
    late = receiver(ready_since=NOW - SETTINGS.probe_wait + seconds(1), created_at=NOW - seconds(300))
    assert decide(_ready(leased, late), NOW).creates == ()
    silent = receiver(ready_since=None, created_at=NOW - SETTINGS.probe_wait)
    assert len(decide(_ready(leased, silent), NOW).creates) == 1
    # A node whose clock is an hour ahead.
    ahead = receiver(ready_since=NOW + seconds(3600), created_at=NOW - SETTINGS.probe_wait)
    assert len(decide(_ready(leased, ahead), NOW).creates) == 1


def _silent(job: TransferJob, seconds_silent: float, *, streams: int = 4) -> Observed:
    said = replace(make_progress(500), congestion_control="cubic", streams=streams)
    reports = replace(make_reports(said), sender=said, advisor_silent_seconds=seconds_silent)
    return observe(job, receiver(), sender(), reports=reports)


def _under_way(*, decided: bool) -> TransferJob:
    first = observe(make_job(finalizer=True), receiver())
    job = with_plan_applied(first, decide(first, NOW)).job
    up = observe(job, receiver(), sender(), reports=make_reports(make_progress(10), decided=decided))
    return with_plan_applied(up, decide(up, NOW)).job


@pytest.mark.parametrize(
    ("decided", "status", "word"), [(False, "False", "has told no decision"), (True, "True", "tells nothing any more")]
)
def test_a_silent_advisor_is_told_once_with_what_stays_in_force(decided: bool, status: str, word: str) -> None:
    observed = _silent(_under_way(decided=decided), 30.0)
    plan = decide(observed, NOW + seconds(100))
    assert plan.status is not None
    condition = plan.status.condition("PathProbed")
    assert condition is not None
    assert (condition.status, condition.reason) == (status, "AdvisorSilent")
    assert word in condition.message
    assert "goes on with cubic over 4 streams" in condition.message
    assert (plan.status.phase, plan.status.decision is not None) == ("Transferring", decided)
    assert [(event.reason, event.warning) for event in plan.events] == [("AdvisorSilent", True)]
    later = with_plan_applied(_silent(observed.job, 60.0), plan)
    again = decide(later, NOW + seconds(130))
    assert (again.status, again.events, again.requeue_after) == (None, (), None)


def test_an_advisor_may_be_silent_for_as_long_as_it_takes_to_start_it_again() -> None:
    for decided in (True, False):
        plan = decide(_silent(_under_way(decided=decided), 29.0), NOW + seconds(100))
        assert "AdvisorSilent" not in [event.reason for event in plan.events]


def test_an_advisor_that_speaks_again_is_believed_again() -> None:
    silent = _silent(_under_way(decided=True), 30.0)
    job = with_plan_applied(silent, decide(silent, NOW + seconds(100))).job
    plan = decide(observe(job, receiver(), sender(), reports=make_reports(make_progress(500), decided=True)), NOW + seconds(110))
    assert _probed(plan)[0] == "Probed"


def test_once_the_sender_is_started_the_wait_is_over_in_the_status_too() -> None:
    observed = _ready(ProbeAssignment(Probing.LEASED))
    waiting = with_plan_applied(observed, decide(observed, NOW)).job
    plan = decide(observe(waiting, receiver(ready_since=NOW), reports=make_reports(), path=ProbeAssignment(Probing.KNOWN)), NOW)
    assert (len(plan.creates), _probed(plan)[0]) == (1, "Probing")
