"""Movers on lost nodes: the job says so, keeps its attempt, and goes on when the nodes are back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from job_builders import NOW, make_job, make_progress, make_reports, observe, receiver, sender, with_plan_applied

from fairlead.core.lifecycle import decide
from fairlead.core.observed import NodeFacts, Observed
from fairlead.core.plan import Plan
from fairlead.core.reports import Reports

READY, LOST, GONE = NodeFacts(exists=True, ready=True), NodeFacts(exists=True, ready=False), NodeFacts(exists=False)


def transferring() -> Observed:
    first = observe(make_job(), receiver(), sender())
    up = with_plan_applied(first, decide(first, NOW))
    up = replace(up, pods=first.pods, reports=make_reports(make_progress(100), decided=True))
    return replace(with_plan_applied(up, decide(up, NOW)), pods=first.pods)


def told(observed: Observed, source: NodeFacts, destination: NodeFacts, reports: Reports | None = None) -> tuple[Observed, Plan]:
    """The job after a pass in which its nodes are like this; nobody answers unless `reports` are given."""
    nodes = {sender().node or "": source, receiver().node or "": destination}
    observed = replace(observed, nodes=nodes, reports=reports or Reports())
    plan = decide(observed, NOW)
    return replace(with_plan_applied(observed, plan), pods=observed.pods), plan


def events(plan: Plan) -> list[tuple[str, bool]]:
    return [(event.reason, event.warning) for event in plan.events if event.reason.startswith("Nodes")]


@pytest.mark.parametrize(
    ("source", "destination", "words"),
    [
        (LOST, LOST, f"node {sender().node} of the sender and node {receiver().node} of the receiver are not ready"),
        (GONE, LOST, f"node {sender().node} of the sender and node {receiver().node} of the receiver are not ready"),
        (LOST, READY, f"node {sender().node} of the sender is not ready"),
        (READY, LOST, f"node {receiver().node} of the receiver is not ready"),
    ],
    ids=["both", "both, one for good", "the source", "the destination"],
)
def test_a_lost_node_is_told_once_and_so_is_that_it_is_back(source: NodeFacts, destination: NodeFacts, words: str) -> None:
    observed, plan = told(transferring(), READY, READY)
    assert observed.job.status.condition("NodesReady") is None
    assert events(plan) == []
    observed, plan = told(observed, source, destination)
    lost = observed.job.status.condition("NodesReady")
    assert lost is not None
    assert (lost.status, lost.reason) == ("False", "NodesLost")
    assert lost.message.startswith(words)
    assert events(plan) == [("NodesLost", True)]
    observed, plan = told(observed, source, destination)
    assert (plan.status, plan.deletes, plan.creates) == (None, (), ()), "the attempt may run on: nobody else may write"
    observed, plan = told(observed, READY, READY, make_reports(make_progress(200), decided=True))
    back = observed.job.status.condition("NodesReady")
    assert back is not None
    assert (back.status, back.reason) == ("True", "NodesBack")
    assert events(plan) == [("NodesBack", False)]
    assert (observed.job.status.phase, observed.job.status.failures) == ("Transferring", None)


def test_a_transfer_of_which_nothing_is_heard_shows_no_rate() -> None:
    observed = transferring()
    assert observed.job.status.progress is not None
    assert observed.job.status.progress.rate is not None
    observed, _ = told(observed, LOST, LOST)
    progress = observed.job.status.progress
    assert progress is not None
    assert (progress.rate, progress.eta) == (None, None)
    assert progress.bytes_transferred, "what had arrived stays known"


def test_a_mover_that_is_still_coming_up_is_not_called_lost() -> None:
    starting = observe(make_job(), receiver(ready=False))
    starting = replace(with_plan_applied(starting, decide(starting, NOW)), pods=starting.pods)
    observed, _ = told(starting, READY, LOST)
    assert observed.job.status.condition("NodesReady") is None
