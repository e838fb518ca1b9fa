"""Where an attempt runs: what a job asks for, what its pods get, and what it waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from job_builders import NOW, SETTINGS, UID, make_job, make_pod, make_reports, receiver, seconds, sender

from fairlead.api.reasons import ConditionType, MoverReason, Reason
from fairlead.api.transferjob import TransferJobStatus
from fairlead.api.transferjob.status import FailureStatus, PlacedEnd, PlacementStatus
from fairlead.core.dtn import TransferNode
from fairlead.core.fairness.model import Admission, JobShare
from fairlead.core.lifecycle import decide
from fairlead.core.lifecycle.placing import holding_of, request_of
from fairlead.core.network import ends_of, lanes_of
from fairlead.core.observed import ClaimFacts, MoverPod, NodeFacts, Observed, PodPhase, Role
from fairlead.core.placement.model import EndPlacement, EndWish, LabelRule, Placement, Waits
from fairlead.core.ports import PortsInUse
from fairlead.core.reports import EndpointPlace, MoverEndpoint, Reports

PLACED = Placement(EndPlacement("dtn-c", ("data1",)), EndPlacement("dtn-d", ("data0",)), 1, 9.4e9, 1e10)
ANYWHERE = {
    "source": {"volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "site": "north"},
    "destination": {"volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "nodeSelector": {"disk": "nvme"}},
}


def observe(*pods: MoverPod, status: TransferJobStatus | None = None, spec: dict[str, Any] | None = None, **facts: Any) -> Observed:
    return Observed(make_job(status=status, **(spec or {})), pods=pods, settings=SETTINGS, **facts)


def test_an_attempt_begins_where_it_was_placed_and_the_status_says_why() -> None:
    plan = decide(observe(placement=PLACED, spec=ANYWHERE), NOW)
    (create,) = plan.creates
    assert (create.role, create.node, create.interfaces) == (Role.RECEIVER, "dtn-d", ("data0",))
    assert plan.status is not None
    assert plan.status.placement == PlacementStatus(
        source=PlacedEnd(node="dtn-c", interfaces=("data1",)),
        destination=PlacedEnd(node="dtn-d", interfaces=("data0",)),
        reason="dtn-c data1 → dtn-d data0: 9.4 Gb/s spare of 10 Gb/s",
    )


def under_way(*pods: MoverPod, **facts: Any) -> Observed:
    began = decide(observe(placement=PLACED, spec=ANYWHERE), NOW).status
    return observe(*pods, status=began, spec=ANYWHERE, **facts)


def test_the_sender_goes_where_the_attempt_was_placed_whatever_would_be_chosen_now() -> None:
    other = Placement(EndPlacement("dtn-x"), EndPlacement("dtn-y"), 1)
    plan = decide(under_way(receiver(node="dtn-d"), reports=make_reports(), placement=other), NOW)
    (create,) = plan.creates
    assert (create.role, create.node, create.interfaces) == (Role.SENDER, "dtn-c", ("data1",))


def test_no_receiver_is_made_whose_sender_would_get_no_port_where_it_was_placed() -> None:
    taken = frozenset(range(SETTINGS.ports.first, SETTINGS.ports.last, 4))
    plan = decide(under_way(placement=PLACED, ports_in_use=PortsInUse(placed={"dtn-c": taken})), NOW)
    assert plan.creates == plan.credentials == ()
    assert plan.status is not None
    scheduled = plan.status.condition(ConditionType.SCHEDULED)
    assert scheduled is not None
    assert (scheduled.status, scheduled.reason) == ("False", Reason.NO_PORT_FREE)


def test_scheduled_says_why() -> None:
    plan = decide(under_way(receiver(node="dtn-d"), sender(node="dtn-c")), NOW)
    assert plan.status is not None
    scheduled = plan.status.condition(ConditionType.SCHEDULED)
    assert scheduled is not None
    assert scheduled.status == "True"
    assert "dtn-c data1 → dtn-d data0: 9.4 Gb/s spare of 10 Gb/s" in scheduled.message


@pytest.mark.parametrize(
    ("waits", "stalled"),
    [
        (Waits(Reason.NO_SLOT_FREE, "source: all 8 slots of node dtn-a are taken"), "False"),
        (Waits(Reason.NO_NODE_MATCHES, "source.site: no DataTransferNode has site north", needs_person=True), "True"),
        (Waits(Reason.NO_INTERFACE_FITS, "source: interface data0 of node dtn-a has no carrier"), "False"),
    ],
)
def test_a_job_without_a_place_waits_and_counts_no_failure(waits: Waits, stalled: str) -> None:
    plan = decide(observe(placement=waits), NOW)
    assert plan.creates == ()
    assert plan.status is not None
    scheduled = plan.status.condition(ConditionType.SCHEDULED)
    assert scheduled is not None
    assert (scheduled.status, scheduled.reason, scheduled.message) == ("False", waits.reason, waits.message)
    assert (plan.status.failures, plan.status.attempts) == (None, None)
    assert plan.status.condition(ConditionType.STALLED).status == stalled  # type: ignore[union-attr]
    assert [(event.reason, event.warning) for event in plan.events if event.reason == "WaitingForPlace"] == [("WaitingForPlace", True)]
    assert not plan.asks_for_links
    assert plan.requeue_after is not None


def test_a_network_that_nobody_describes_is_said_to_be_so() -> None:
    side = {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "interfaceNetwork": "wan"}
    plan = decide(observe(spec={"source": side}), NOW)
    assert plan.status is not None
    scheduled = plan.status.condition(ConditionType.SCHEDULED)
    assert scheduled is not None
    assert scheduled.reason == Reason.NO_INTERFACE_FITS
    assert "source.interfaceNetwork" in scheduled.message


def test_without_data_transfer_nodes_site_and_labels_are_the_schedulers_choice() -> None:
    (create,) = decide(observe(spec=ANYWHERE), NOW).creates
    assert (create.node, create.node_labels, create.interfaces) == (None, (("disk", "nvme"),), ())
    swapped = {"source": ANYWHERE["destination"], "destination": ANYWHERE["source"]}
    (create,) = decide(observe(spec=swapped), NOW).creates
    assert create.node_labels == (("fairlead.io/site", "north"),)


def test_named_interfaces_reach_the_pods_without_a_placement() -> None:
    ends = make_job().spec.model_dump(by_alias=True, mode="json", exclude_none=True)
    spec = {end: {**ends[end], "interfaces": ["data0", "data1"]} for end in ("source", "destination")}
    (create,) = decide(observe(spec=spec), NOW).creates
    assert create.interfaces == ("data0", "data1")


def test_a_pod_that_stays_on_a_lost_node_is_waited_for_with_what_helps() -> None:
    ended = make_job(status=failed(Reason.MOVER_DIED)).status
    stuck = sender(node="dtn-a", deleting=True, phase=PodPhase.RUNNING)
    lost = {"dtn-a": NodeFacts(exists=True, ready=False)}
    spec = ANYWHERE
    plan = decide(observe(stuck, status=ended, spec=spec, nodes=lost), NOW)
    assert plan.creates == ()
    assert plan.status is not None
    ready = plan.status.condition(ConditionType.MOVERS_READY)
    assert ready is not None
    assert "its node dtn-a is not ready" in ready.message
    assert "removed from the cluster" in ready.message


def failed(reason: str, *, ago: float = 3600.0) -> TransferJobStatus:
    placement = PlacementStatus(source=PlacedEnd(node="dtn-c", interfaces=("data1",)), destination=PlacedEnd(node="dtn-d"))
    failure = FailureStatus(attempt=1, reason=reason, message="because", time=NOW - seconds(ago))
    return TransferJobStatus(attempts=1, failures=1, last_failure=failure, placement=placement)


@pytest.mark.parametrize(
    ("reason", "nodes", "interfaces"),
    [
        (Reason.MOVER_DIED, {"dtn-c", "dtn-d"}, set()),
        (Reason.RECEIVER_NOT_READY, {"dtn-c", "dtn-d"}, set()),
        (MoverReason.INTERFACE_NOT_FOUND, set(), {("dtn-c", "data1")}),
        (MoverReason.INTERFACE_DOWN, set(), {("dtn-c", "data1")}),
        (MoverReason.ROUTE_MISSING, set(), {("dtn-c", "data1")}),
        (MoverReason.PATH_MTU_TOO_SMALL, set(), {("dtn-c", "data1")}),
        (MoverReason.PEER_LOST, set(), {("dtn-c", "data1")}),
        (MoverReason.CHECKSUM_MISMATCH, set(), set()),
    ],
)
def test_what_an_attempt_failed_by_is_avoided_by_the_next(reason: str, nodes: set[str], interfaces: set[tuple[str, str]]) -> None:
    request = request_of(observe(status=failed(reason), spec=ANYWHERE), NOW)
    assert request is not None
    assert (request.attempt, request.avoid_nodes, request.avoid_interfaces) == (2, nodes, interfaces)


@pytest.mark.parametrize(
    ("case", "observed"),
    [
        ("suspended", observe(spec={"suspend": True})),
        ("of another controller", observe(spec={"managedBy": "other.io/controller"})),
        ("under way", under_way(receiver(node="dtn-d"))),
        ("in a pause", observe(status=failed(Reason.MOVER_DIED, ago=1.0))),
        ("not cleared", observe(sender(deleting=True), status=failed(Reason.MOVER_DIED))),
        ("without its claim", observe(claims={"raw": ClaimFacts(exists=False)})),
        ("on a node that is not ready", observe(nodes={"dtn-a": NodeFacts(exists=True, ready=False)})),
    ],
)
def test_a_job_that_could_not_start_asks_for_no_place(case: str, observed: Observed) -> None:
    assert request_of(observed, NOW) is None


def test_a_job_whose_volume_is_on_a_lost_node_waits_for_it_and_counts_no_failure() -> None:
    claims = {"raw": ClaimFacts(exists=True, bound=True, node="dtn-c")}
    lost = observe(spec=ANYWHERE, claims=claims, nodes={"dtn-c": NodeFacts(exists=False)}, placement=PLACED)
    plan = decide(lost, NOW)
    assert plan.creates == ()
    assert plan.status is not None
    scheduled = plan.status.condition(ConditionType.SCHEDULED)
    assert scheduled is not None
    assert scheduled.reason == Reason.NODE_NOT_READY
    assert "source.volume: claim raw lives on node dtn-c" in scheduled.message
    assert plan.status.failures is None


def test_a_job_that_waits_for_a_link_asks_without_taking_anything() -> None:
    waiting = JobShare(Admission.WAITING, reason=Reason.WAITING_FOR_LINK, message="full")
    request = request_of(observe(fairness=waiting), NOW)
    assert request is not None
    assert request.tentative


def test_a_job_whose_movers_are_refused_begins_nothing_and_leaves_its_place_to_others() -> None:
    refused = observe(placement=PLACED, spec=ANYWHERE, refusal="exceeded quota")
    plan, request = decide(refused, NOW), request_of(refused, NOW)
    assert plan.status is not None
    assert (plan.status.attempts, plan.status.attempt_start_time, plan.status.placement) == (None, None, None)
    body = refused.job.model_copy(update={"status": plan.status}).model_dump(mode="json", by_alias=True)
    assert holding_of(body) is None
    assert request is not None
    assert request.tentative
    again = request_of(replace(refused, refusal="", job=refused.job.model_copy(update={"status": plan.status})), NOW)
    assert again is not None
    assert (again.attempt, again.tentative) == (1, False)


def test_what_is_asked_for_follows_from_the_ends_and_their_claims() -> None:
    rules = ((LabelRule("zone", "In", ("b",)),),)
    claims = {"raw": ClaimFacts(exists=True, bound=True, node="dtn-c"), "scratch": ClaimFacts(exists=True, bound=True, affinity=rules)}
    request = request_of(observe(spec={**ANYWHERE, "bandwidth": {"limit": "1G"}, "priority": 7}, claims=claims), NOW)
    assert request is not None
    assert request.source == EndWish(node="dtn-c", site="north")
    assert request.destination == EndWish(labels=(("disk", "nvme"),), affinity=rules)
    assert (request.uid, request.rate_bps, request.priority, request.asked_at) == (UID, 1e9, 7, NOW.timestamp())


def test_where_a_claim_is_not_bound_and_nothing_is_asked_for_the_scheduler_chooses() -> None:
    ends = {end: {"volume": {"persistentVolumeClaim": {"claimName": end}}} for end in ("source", "destination")}
    request = request_of(observe(spec=ends, claims={"source": ClaimFacts(exists=True)}), NOW)
    assert request is not None
    assert request.source.scheduler_may_choose


def test_nodes_that_are_known_not_to_be_ready_are_left_out() -> None:
    request = request_of(observe(spec=ANYWHERE, nodes={"dtn-c": NodeFacts(exists=True, ready=False)}), NOW)
    assert request is not None
    assert request.unready_nodes == {"dtn-c"}


def test_a_slot_is_held_while_an_attempt_is_under_way() -> None:
    job = under_way().job
    body = {"metadata": {"namespace": "science", "uid": UID}, "spec": ANYWHERE, "status": job.status.to_object()}
    holding = holding_of(body)
    assert holding is not None
    assert holding.ends == (EndPlacement("dtn-c", ("data1",)), EndPlacement("dtn-d", ("data0",)))
    assert holding_of({**body, "status": {**body["status"], "attemptStartTime": None}}) is None


def places(*names: str) -> MoverEndpoint:
    """What a receiver reports that listens on these interfaces."""
    several = tuple(EndpointPlace(name, f"198.19.{number}.2", 24000) for number, name in enumerate(names))
    return MoverEndpoint(names[0], several[0].address, 24000, several=several if len(names) > 1 else ())


def wide(*pods: MoverPod, source: tuple[str, ...], destination: tuple[str, ...] = (), **facts: Any) -> Observed:
    """A job between dtn-c and dtn-d that names several interfaces."""
    ends = {"source": ("dtn-c", source), "destination": ("dtn-d", destination)}
    spec = {
        name: {**ANYWHERE[name], "node": node, **({"interfaces": list(names)} if names else {})} for name, (node, names) in ends.items()
    }
    for end in spec.values():
        end.pop("site", None)
        end.pop("nodeSelector", None)
    return observe(*pods, placement=None, spec=spec, **facts)


def pairs(found: Observed, attempt: int = 1) -> list[tuple[str | None, str | None]]:
    lanes = lanes_of(found, attempt)
    assert {(source.node, destination.node) for source, destination in lanes} <= {("dtn-c", "dtn-d")}
    return [(source.interface, destination.interface) for source, destination in lanes]


def test_an_end_with_several_interfaces_counts_on_the_links_of_each_path() -> None:
    both = ("data0", "data1")
    assert pairs(wide(source=both, destination=both)) == [("data0", "data0"), ("data1", "data1")]
    assert pairs(wide(source=both)) == [("data0", None), ("data1", None)], "before the receiver has chosen"
    assert pairs(wide(source=both, reports=Reports(receiver_endpoint=places("data7")))) == [("data0", "data7"), ("data1", "data7")]
    crossed = wide(source=both, destination=both, reports=Reports(receiver_endpoint=places("data1", "data0")))
    assert pairs(crossed) == [("data0", "data1"), ("data1", "data0")], "as the sender's arguments have it"
    assert [end.interface for end in ends_of(crossed, 1)] == [None, None]
    chosen = replace(wide(source=()), placement=Placement(EndPlacement("dtn-c", both), EndPlacement("dtn-d", ("data0",)), 1))
    assert pairs(chosen) == [("data0", "data0"), ("data1", "data0")]
    assert pairs(wide(source=(), destination=both)) == [], "a sender that chooses its interface has one path"


def test_a_job_whose_sender_knows_one_cap_alone_may_cross_any_link_of_its_nodes() -> None:
    both = ("data0", "data1")
    knows, does_not = (wide(sender(node="dtn-c", watches_paths=watches), source=both, destination=both) for watches in (True, False))
    assert (len(pairs(knows)), pairs(does_not)) == (2, [])
    assert [end.interface for end in ends_of(does_not, 1)] == [None, None]
    assert lanes_of(observe(spec={**ANYWHERE, "network": "Pod"}, reports=Reports(receiver_endpoint=places(*both))), 1) == ()


def test_a_chosen_interface_is_the_one_that_links_are_counted_for() -> None:
    before = observe(placement=PLACED, spec=ANYWHERE, transfer_nodes={"dtn-c": TransferNode("dtn-c")})
    assert [(end.node, end.interface) for end in ends_of(before, 0)] == [("dtn-c", "data1"), ("dtn-d", "data0")]
    after = replace(under_way(make_pod(Role.RECEIVER, node="dtn-d")), placement=None)
    assert [(end.node, end.interface) for end in ends_of(after, 1)] == [("dtn-c", "data1"), ("dtn-d", "data0")]
