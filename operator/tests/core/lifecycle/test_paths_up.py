"""A path of several that is lost shows on the job, and so does that it is back."""

from __future__ import annotations

from dataclasses import replace

from job_builders import NOW, make_job, make_progress, make_reports, observe, receiver, sender, with_plan_applied

from fairlead.core.lifecycle import decide
from fairlead.core.observed import Observed
from fairlead.core.plan import Plan
from fairlead.core.reports import PathState


def told(observed: Observed, *up: bool) -> tuple[Observed, Plan]:
    """The job after a pass in which its sender tells which of its paths are in use."""
    paths = tuple(PathState(f"data{at}", is_up) for at, is_up in enumerate(up))
    reports = replace(make_reports(make_progress(100), decided=True), sender=replace(make_progress(100), paths=paths))
    observed = replace(observed, pods=(receiver(), sender()), reports=reports)
    plan = decide(observed, NOW)
    return with_plan_applied(observed, plan), plan


def running() -> Observed:
    first = observe(make_job(), receiver(), sender())
    return with_plan_applied(first, decide(first, NOW))


def events(plan: Plan) -> list[tuple[str, bool]]:
    return [(event.reason, event.warning) for event in plan.events if event.reason.startswith("Path") and event.reason != "PathProbed"]


def test_a_lost_path_is_told_once_with_its_interface_and_again_when_it_is_back() -> None:
    observed, plan = told(running(), True, True)
    assert observed.job.status.condition("PathsUp") is None
    assert events(plan) == []
    observed, plan = told(observed, True, False)
    lost = observed.job.status.condition("PathsUp")
    assert lost is not None
    assert (lost.status, lost.reason) == ("False", "PathLost")
    assert "the source's interface data1: the transfer goes on over data0" in lost.message
    assert events(plan) == [("PathLost", True)]
    observed, plan = told(observed, True, False)
    assert events(plan) == []
    observed, plan = told(observed, True, True)
    back = observed.job.status.condition("PathsUp")
    assert back is not None
    assert (back.status, back.reason) == ("True", "PathRestored")
    assert events(plan) == [("PathRestored", False)]


def test_a_sender_with_one_path_says_nothing_of_it() -> None:
    observed, plan = told(running())
    assert observed.job.status.condition("PathsUp") is None
    assert events(plan) == []
