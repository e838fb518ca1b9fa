"""How a sender is started on its path: with a probe of its own, with what is known, or after another job's probe."""

from __future__ import annotations

import pytest
from job_builders import NOW, SETTINGS, make_job, make_reports, observe, receiver, seconds, with_plan_applied

from fairlead.core.lifecycle import decide
from fairlead.core.model import KnownPath, MoverPod, Observed, PathStanding, Plan, Probing, Role

KNOWN = KnownPath(rtt_minimum_seconds=0.06, capacity_bps=2e8, stream_coefficient=1.2e-6)


def _ready(standing: PathStanding | None, pod: MoverPod | None = None) -> Observed:
    job = with_plan_applied(first := observe(make_job(finalizer=True), receiver()), decide(first, NOW)).job
    return observe(job, pod or receiver(ready_since=NOW), reports=make_reports(), path=standing)


def _probed(plan: Plan) -> tuple[str, str]:
    assert plan.status is not None
    condition = plan.status.condition("PathProbed")
    assert condition is not None
    return condition.reason, condition.message


@pytest.mark.parametrize(
    ("standing", "path", "probe"),
    [
        (None, KnownPath(), True),
        (PathStanding(Probing.OWN, KNOWN), KNOWN, True),
        (PathStanding(Probing.KNOWN, KNOWN), KNOWN, False),
    ],
    ids=["nothing is known of nodes", "nobody probes", "just probed"],
)
def test_the_sender_is_told_what_is_known_and_whether_to_probe(standing: PathStanding | None, path: KnownPath, probe: bool) -> None:
    (create,) = decide(_ready(standing), NOW).creates
    assert (create.role, create.path, create.probe) == (Role.SENDER, path, probe)


def test_while_another_job_probes_the_sender_waits_and_the_status_says_why() -> None:
    plan = decide(_ready(PathStanding(Probing.LEASED, KNOWN)), NOW)
    assert plan.creates == ()
    reason, message = _probed(plan)
    assert (reason, "another job probes the path" in message, "03:04:35Z" in message) == ("PathLeased", True, True)
    assert plan.requeue_after is not None
    assert plan.requeue_after <= seconds(1)


def test_a_repeated_pass_while_waiting_writes_nothing() -> None:
    observed = _ready(PathStanding(Probing.LEASED, KNOWN))
    again = with_plan_applied(observed, decide(observed, NOW))
    assert decide(again, NOW + seconds(1)).status is None


def test_the_wait_is_bounded_from_when_the_receiver_was_ready_and_then_nothing_is_probed() -> None:
    leased = PathStanding(Probing.LEASED, KNOWN)
    (create,) = decide(_ready(leased, receiver(ready_since=NOW - SETTINGS.probe_wait)), NOW).creates
    assert (create.path, create.probe) == (KNOWN, False)
    late = receiver(ready_since=NOW - SETTINGS.probe_wait + seconds(1), created_at=NOW - seconds(300))
    assert decide(_ready(leased, late), NOW).creates == ()
    silent = receiver(ready_since=None, created_at=NOW - SETTINGS.probe_wait)
    assert len(decide(_ready(leased, silent), NOW).creates) == 1


def test_once_the_sender_is_started_the_wait_is_over_in_the_status_too() -> None:
    observed = _ready(PathStanding(Probing.LEASED))
    waiting = with_plan_applied(observed, decide(observed, NOW)).job
    plan = decide(observe(waiting, receiver(ready_since=NOW), reports=make_reports(), path=PathStanding(Probing.KNOWN)), NOW)
    assert (len(plan.creates), _probed(plan)[0]) == (1, "Probing")
