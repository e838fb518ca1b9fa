"""What a FairnessPolicy means for one job, and that nothing is different without one."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from job_builders import (
    NOW,
    SETTINGS,
    make_attached_job,
    make_job,
    make_progress,
    make_reports,
    make_verdict,
    observe,
    receiver,
    seconds,
    sender,
    with_plan_applied,
)

from fairlead.api.names import (
    ANNOTATION_EGRESS_BANDWIDTH,
    ANNOTATION_INGRESS_BANDWIDTH,
    ANNOTATION_PACING,
    ANNOTATION_PATH_BANDWIDTH,
)
from fairlead.api.reasons import Reason
from fairlead.api.shared.quantity import format_rate, parse_rate
from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.api.transferjob.spec import Bandwidth
from fairlead.core.fairness.model import Admission, Bound, JobShare
from fairlead.core.lifecycle import decide
from fairlead.core.observed import MoverPod, Observed, PodPhase, ProgressWrites, Role
from fairlead.core.plan import AnnotatePod, Plan
from fairlead.core.reports import EndpointPlace, MoverEndpoint, Reports
from fairlead.core.settings import GUARDED_MOST_BPS

WAITING = JobShare(Admission.WAITING, message="link wan is full: among the first 10 in its queue")
IMPOSSIBLE = JobShare(Admission.WAITING, reason=Reason.GUARANTEE_TOO_LARGE, message="lower bandwidth.guarantee")
UNDECIDED = JobShare(Admission.UNDECIDED, hold=True)


def shared(bps: int | None, **more: Any) -> JobShare:
    return JobShare(Admission.ADMITTED, cap_bps=bps, **more)


def after(observed: Observed) -> TransferJob:
    return with_plan_applied(observed, decide(observed, NOW)).job


def running(share: JobShare | None = None, **spec: Any) -> TransferJob:
    """A job whose first attempt has both movers up."""
    job = after(observe(make_job(finalizer=True, **spec), receiver(), fairness=share))
    return after(observe(job, receiver(), sender(), reports=make_reports(decided=True), fairness=share))


def written(plan: Plan) -> TransferJobStatus:
    assert plan.status is not None
    return plan.status


def annotated(cap: str | None) -> tuple[AnnotatePod, ...]:
    return (AnnotatePod(sender().name, sender().uid, {ANNOTATION_EGRESS_BANDWIDTH: cap}),)


@pytest.mark.parametrize("spec", [{}, {"bandwidth": {"guarantee": "1G", "weight": 5}}, {"priority": 50}])
def test_without_a_policy_a_job_starts_at_once_and_has_no_cap(spec: dict[str, Any]) -> None:
    plan = decide(observe(make_job(**spec)), NOW)
    assert [create.role for create in plan.creates] == [Role.RECEIVER]
    job = running(**spec)
    plan = decide(observe(job, receiver(), sender(), reports=make_reports(make_progress(10), decided=True)), NOW)
    assert plan.annotations == ()
    assert job.status.bandwidth is not None
    assert (job.status.bandwidth.allocated, job.status.bandwidth.enforced_by) == (None, "None")
    assert job.status.condition("CapEnforced") is None


def test_a_job_about_which_nothing_is_decided_asks_and_writes_nothing() -> None:
    plan = decide(observe(make_job(), fairness=UNDECIDED), NOW)
    assert plan.asks_for_links
    assert (plan.creates, plan.finalizer, plan.events) == ((), None, ())


def test_a_job_without_room_waits_with_its_place_and_tells_it_once() -> None:
    observed = observe(make_job(), fairness=WAITING)
    plan = decide(observed, NOW)
    status = written(plan)
    scheduled = status.condition("Scheduled")
    assert scheduled is not None
    assert (scheduled.status, scheduled.reason, scheduled.message) == ("False", "WaitingForLink", WAITING.message)
    assert (status.phase, plan.creates, plan.asks_for_links) == ("Pending", (), True)
    assert [event.reason for event in plan.events] == ["WaitingForLink"]
    again = decide(with_plan_applied(observed, plan), NOW + seconds(10))
    assert (again.status, again.events) == (None, ())


def test_a_guarantee_that_never_fits_needs_a_person() -> None:
    status = written(decide(observe(make_job(), fairness=IMPOSSIBLE), NOW))
    assert status.is_true("Stalled")
    assert status.condition("Stalled") is not None


def test_a_job_that_waits_for_something_else_does_not_ask_for_a_link() -> None:
    outside = replace(SETTINGS, host_network_namespaces=frozenset())
    assert not decide(observe(make_job(), settings=outside, fairness=UNDECIDED), NOW).asks_for_links
    assert not decide(observe(make_job(suspend=True), fairness=UNDECIDED), NOW).asks_for_links


LINK = Bound("Link", "bio", "uplink")


@pytest.mark.parametrize(
    ("share", "spec", "expected"),
    [
        (None, {}, (None, None, None)),
        (None, {"bandwidth": {"limit": "50M"}}, ("JobLimit", None, None)),
        (shared(10**8, bound=LINK), {}, ("Link", "uplink", "bio")),
        (shared(10**8, bound=LINK), {"bandwidth": {"limit": "200M"}}, ("Link", "uplink", "bio")),
        (shared(10**8, bound=LINK), {"bandwidth": {"limit": "50M"}}, ("JobLimit", None, "bio")),
        (shared(10**8, bound=Bound("TenantLimit", "bio", "uplink")), {}, ("TenantLimit", "uplink", "bio")),
    ],
    ids=["no cap", "limit without a policy", "link", "limit above the share", "limit below the share", "limit of the tenant"],
)
def test_the_status_names_what_keeps_the_cap_from_being_higher(
    share: JobShare | None, spec: dict[str, Any], expected: tuple[str | None, str | None, str | None]
) -> None:
    bandwidth = running(share, **spec).status.bandwidth
    assert bandwidth is not None
    assert (bandwidth.bound_by, bandwidth.bottleneck, bandwidth.tenant) == expected


def test_what_bounds_the_cap_stays_while_nothing_is_known_that_would_change_it() -> None:
    job = running(shared(10**8, bound=LINK))
    job = after(observe(job, receiver(), sender(), reports=make_reports(decided=True), fairness=shared(None, hold=True)))
    assert job.status.bandwidth is not None
    assert (job.status.bandwidth.allocated, job.status.bandwidth.bottleneck) == ("100M", "uplink")


def test_the_cap_of_a_sender_that_has_ended_is_the_one_it_had_whoever_leaves_afterwards() -> None:
    job = running(shared(75 * 10**7, bound=LINK))
    ended = replace(sender(), phase=PodPhase.SUCCEEDED, exit_code=0)
    job = after(observe(job, receiver(), ended, reports=make_reports(decided=True), fairness=shared(10**9)))
    assert job.status.bandwidth is not None
    assert (job.status.bandwidth.allocated, job.status.bandwidth.bottleneck) == ("750M", "uplink")


def test_a_suspended_job_has_no_share_no_cap_and_no_place_any_more() -> None:
    job, reports = running(shared(10**8)), make_reports(make_progress(10, rate=10**6), decided=True)
    job = after(observe(job, receiver(), sender(), reports=reports, fairness=shared(10**8)))
    assert job.status.bandwidth is not None
    assert job.status.condition("CapEnforced") is not None
    suspended = observe(job.model_copy(update={"spec": make_job(suspend=True).spec}), fairness=shared(10**8))
    plan = decide(suspended, NOW)
    status = written(plan)
    assert (status.phase, status.bandwidth) == ("Suspended", None)
    assert (status.condition("CapEnforced"), status.condition("Scheduled")) == (None, None)
    assert decide(with_plan_applied(suspended, plan), NOW + seconds(60)).status is None


@pytest.mark.parametrize("reason", [Reason.GUARANTEE_NOT_RAISED, Reason.INTERFACE_NOT_LISTED])
def test_a_running_job_says_why_it_gets_less_than_it_asks_for_and_tells_it_once(reason: Reason) -> None:
    share = shared(10**8, reason=reason, message="bandwidth.guarantee 9G has no room on link out yet; meanwhile the job keeps 0")
    observed = observe(running(shared(10**8)), receiver(), sender(), reports=make_reports(decided=True), fairness=share)
    plan = decide(observed, NOW)
    accepted = written(plan).condition("Accepted")
    assert accepted is not None
    assert (accepted.status, accepted.reason, accepted.message) == ("True", reason, share.message)
    assert [(event.reason, event.message, event.warning) for event in plan.events] == [(reason, share.message, True)]
    later = with_plan_applied(observed, plan)
    assert decide(later, NOW + seconds(10)).events == ()
    accepted = written(decide(replace(later, fairness=shared(10**8)), NOW + seconds(20))).condition("Accepted")
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("True", "Valid")


def test_a_job_under_way_is_not_stopped_by_a_full_link() -> None:
    job = running(shared(10**8))
    plan = decide(observe(job, receiver(), sender(), reports=make_reports(decided=True), fairness=WAITING), NOW)
    assert plan.deletes == ()


@pytest.mark.parametrize(
    ("limit", "share_bps", "expected"),
    [(None, None, None), ("2G", None, 2 * 10**9), (None, 5 * 10**8, 5 * 10**8), ("2G", 5 * 10**8, 5 * 10**8), ("100M", 5 * 10**8, 10**8)],
)
def test_a_sender_begins_with_its_share_or_its_limit_whichever_is_less(
    limit: str | None, share_bps: int | None, expected: int | None
) -> None:
    job = make_job(finalizer=True, **({"bandwidth": {"limit": limit}} if limit else {}))
    job = after(observe(job, fairness=shared(share_bps)))
    plan = decide(observe(job, receiver(), reports=make_reports(), fairness=shared(share_bps)), NOW)
    assert [(create.role, create.cap_bps) for create in plan.creates] == [(Role.SENDER, expected)]


def test_a_changed_share_reaches_the_sender_once() -> None:
    changed = observe(running(shared(10**8)), receiver(), sender(egress_cap="100M"), fairness=shared(2 * 10**8))
    plan = decide(changed, NOW)
    assert plan.annotations == annotated("200M")
    assert written(plan).bandwidth is not None
    reached = replace(with_plan_applied(changed, plan), pods=(receiver(), sender(egress_cap="200M")))
    assert decide(reached, NOW).annotations == ()


def at_receiver(cap: str | None) -> AnnotatePod:
    return AnnotatePod(receiver().name, receiver().uid, {ANNOTATION_INGRESS_BANDWIDTH: cap})


def test_a_receiver_begins_with_the_share_only_where_its_own_interface_is_shared() -> None:
    for share, expected in ((shared(10**8), None), (shared(10**8, at_receiver=True), 10**8)):
        plan = decide(observe(make_job(), fairness=share), NOW)
        assert [(create.role, create.cap_bps) for create in plan.creates] == [(Role.RECEIVER, expected)]


@pytest.mark.parametrize(
    ("share", "present", "expected"),
    [
        (shared(10**8, at_receiver=True), "100M", ()),
        (shared(10**8, at_receiver=True), "50M", (at_receiver("100M"),)),
        (shared(10**8, at_receiver=True), None, (at_receiver("100M"),)),
        (shared(10**8), "100M", (at_receiver(None),)),
        (None, "100M", (at_receiver(None),)),
        (UNDECIDED, "50M", ()),
    ],
    ids=["as it is", "another share", "a link that is new", "the link is not shared any more", "no policy any more", "nothing is known"],
)
def test_the_receivers_pod_has_the_share_as_long_as_its_interface_is_shared(
    share: JobShare | None, present: str | None, expected: tuple[AnnotatePod, ...]
) -> None:
    job = running(shared(10**8))
    plan = decide(observe(job, receiver(ingress_cap=present), sender(), fairness=share), NOW)
    assert tuple(change for change in plan.annotations if change.name == receiver().name) == expected


def test_a_changed_share_reaches_both_pods_in_one_pass() -> None:
    pods = receiver(ingress_cap="100M"), sender(egress_cap="100M")
    share = shared(2 * 10**8, at_receiver=True)
    assert decide(observe(running(shared(10**8)), *pods, fairness=share), NOW).annotations == (*annotated("200M"), at_receiver("200M"))


ON_POD_NETWORK = make_job(finalizer=True, network="Pod")
CROWDED = shared(10**6, at_receiver=True, ceiling_bps=9 * 10**8)


@pytest.mark.parametrize(
    ("job", "share", "bucket_bps"),
    [
        (make_job(finalizer=True), CROWDED, None),
        (ON_POD_NETWORK, CROWDED, 9 * 10**8),
        (make_attached_job(finalizer=True), CROWDED, 9 * 10**8),
        (make_job(finalizer=True, network="Pod", bandwidth={"limit": "5M"}), CROWDED, 5 * 10**6),
        (ON_POD_NETWORK, shared(10**6, at_receiver=True), 10**6),
        (ON_POD_NETWORK, shared(None, at_receiver=True), None),
    ],
    ids=["host", "pod network", "attachment", "its own limit", "no ceiling is known", "no cap"],
)
def test_what_is_made_with_the_pod_lets_through_what_the_job_may_ever_get(
    job: TransferJob, share: JobShare, bucket_bps: int | None
) -> None:
    first = decide(observe(job, fairness=share), NOW)
    job = with_plan_applied(observe(job), first).job
    second = decide(observe(job, receiver(), reports=make_reports(), fairness=share), NOW)
    assert [(create.role, create.bucket_bps) for create in (*first.creates, *second.creates)] == [
        (Role.RECEIVER, bucket_bps),
        (Role.SENDER, bucket_bps),
    ]
    assert {create.cap_bps for create in (*first.creates, *second.creates)} == {share.cap_bps}


def test_on_the_pod_network_the_cap_reaches_the_mover_at_once_and_a_plugin_only_after_it_has_made_its_bucket() -> None:
    starting = {"ready": False, "phase": PodPhase.PENDING, "address": None}
    created = receiver(ingress_cap="900M", **starting), sender(egress_cap="900M", pacing_cap="1M", **starting)
    share = shared(2 * 10**6, at_receiver=True)
    plan = decide(observe(after(observe(ON_POD_NETWORK, receiver())), *created, fairness=share), NOW)
    assert plan.annotations == (AnnotatePod(sender().name, sender().uid, {ANNOTATION_PACING: "2M"}),)
    up = receiver(ingress_cap="900M"), sender(egress_cap="900M", pacing_cap="2M")
    observed = observe(after(observe(ON_POD_NETWORK, receiver())), *up, reports=make_reports(), fairness=share)
    assert decide(observed, NOW).annotations == (*annotated("2M"), at_receiver("2M"))


@pytest.mark.parametrize("job", [make_job(network="Pod"), make_attached_job()], ids=["Pod", "Attachment"])
def test_a_job_off_the_nodes_network_needs_no_right_to_it(job: TransferJob) -> None:
    outside = replace(SETTINGS, host_network_namespaces=frozenset())
    plan = decide(observe(job, settings=outside), NOW)
    assert [create.role for create in plan.creates] == [Role.RECEIVER]


def test_when_the_policy_goes_the_share_goes_and_the_limit_stays() -> None:
    pods = receiver(), sender(egress_cap="100M")
    assert decide(observe(running(shared(10**8)), *pods), NOW).annotations == annotated(None)
    limited = running(shared(10**8), bandwidth={"limit": "1G"})
    assert decide(observe(limited, *pods), NOW).annotations == annotated("1G")


def test_a_cap_is_left_as_it_is_while_nothing_is_known_but_a_lower_limit_holds_at_once() -> None:
    pods = receiver(), sender(egress_cap="100M")
    job = running(shared(10**8))
    assert decide(observe(job, *pods, fairness=UNDECIDED), NOW).annotations == ()
    lowered = job.model_copy(update={"spec": job.spec.model_copy(update={"bandwidth": Bandwidth(limit="50M")})})
    assert decide(observe(lowered, *pods, fairness=UNDECIDED), NOW).annotations == annotated("50M")


@pytest.mark.parametrize(("in_status", "at_pod"), [("500M", "200M"), ("200M", "500M")])
def test_after_a_crash_between_the_writes_of_a_cap_the_lower_one_is_kept(in_status: str, at_pod: str) -> None:
    job = running(shared(parse_rate(in_status)))
    plan = decide(observe(job, receiver(), sender(egress_cap=at_pod), fairness=UNDECIDED), NOW)
    assert plan.annotations == (() if at_pod == "200M" else annotated("200M"))


def test_a_cap_that_just_fell_is_judged_by_what_was_in_force_when_the_rate_was_measured() -> None:
    reports = make_reports(make_progress(10, rate=400e6 / 8), decided=True)
    observed = observe(running(shared(5 * 10**8)), receiver(), sender(), reports=reports, fairness=shared(10**8))
    judged = {}
    for asked in (None, 5e8, math.inf, 1e8):
        condition = written(decide(replace(observed, asked_bps=asked), NOW)).condition("CapEnforced")
        assert condition is not None
        judged[asked] = (condition.status, condition.reason)
    new, exceeded = ("Unknown", "CapNotMeasured"), ("False", "AboveCap")
    assert judged == {None: exceeded, 5e8: new, math.inf: new, 1e8: exceeded}


@pytest.mark.parametrize(
    ("network", "share_bps", "rate", "expected"),
    [
        ("Host", 10**8, 50e6, "TrafficControl"),
        ("Pod", 10**8, 50e6, "Pacing"),
        ("Host", 10**8, 400e6, "None"),
        ("Host", GUARDED_MOST_BPS, 50e6, "TrafficControl"),
        ("Host", GUARDED_MOST_BPS + 1, 50e6, "Pacing"),
    ],
    ids=["kept", "not on the node's network", "exceeded all the same", "the highest that it can hold", "more than it can hold"],
)
def test_where_a_guard_is_on_the_nodes_it_is_what_holds(network: str, share_bps: int, rate: float, expected: str) -> None:
    settings = replace(SETTINGS, node_guard=True)
    reports = make_reports(make_progress(500, rate=rate / 8), decided=True)
    job = running(shared(10**7), network=network)
    plan = decide(observe(job, receiver(), sender(), reports=reports, fairness=shared(share_bps), settings=settings), NOW)
    bandwidth = written(plan).bandwidth
    assert bandwidth is not None
    assert bandwidth.enforced_by == expected


@pytest.mark.parametrize(
    ("network", "cilium", "guard", "address", "rate", "expected"),
    [
        ("Pod", True, False, "10.0.0.1", 50e6, "Annotation"),
        ("Pod", True, True, "10.0.0.1", 50e6, "Annotation"),
        ("Pod", False, False, "10.0.0.1", 50e6, "Pacing"),
        ("Pod", True, False, None, 50e6, "Pacing"),
        ("Pod", True, False, "10.0.0.1", 400e6, "None"),
        ("Host", True, False, "198.18.1.1", 50e6, "Pacing"),
        ("Host", True, True, "198.18.1.1", 50e6, "TrafficControl"),
    ],
    ids=["on", "the guard sees the nodes' network alone", "off", "the pod starts with more", "exceeded", "skipped", "skipped, guarded"],
)
def test_where_ciliums_bandwidth_manager_is_on_the_annotation_holds_on_the_pod_network(
    network: str, cilium: bool, guard: bool, address: str | None, rate: float, expected: str
) -> None:
    reports = make_reports(make_progress(500, rate=rate / 8), decided=True)
    known = {"settings": replace(SETTINGS, node_guard=guard), "bandwidth_manager": cilium, "fairness": shared(10**8)}
    job = running(shared(10**7), network=network)
    plan = decide(observe(job, receiver(), sender(address=address), reports=reports, **known), NOW)
    bandwidth = written(plan).bandwidth
    assert bandwidth is not None
    assert bandwidth.enforced_by == expected


@pytest.mark.parametrize(
    ("network", "cilium", "guard", "told"),
    [
        ("Host", True, False, "Cilium's bandwidth manager skips pods on the nodes' network, its own mover's pacing holds this job"),
        ("Host", True, True, "Cilium's bandwidth manager skips pods on the nodes' network, the node guard holds this job"),
        ("Host", False, False, None),
        ("Pod", True, False, None),
    ],
)
def test_a_job_on_the_nodes_network_is_told_that_cilium_skips_it(network: str, cilium: bool, guard: bool, told: str | None) -> None:
    known = {"settings": replace(SETTINGS, node_guard=guard), "bandwidth_manager": cilium, "fairness": shared(10**8)}
    observed = observe(running(shared(10**7), network=network), receiver(), sender(), reports=KEPT, **known)
    plan = decide(observed, NOW)
    condition = written(plan).condition("CapEnforced")
    assert condition is not None
    message = "the receiver measures no more than 100M"
    assert condition.message == (message if told is None else f"{message}; {told}")
    again = decide(with_plan_applied(observed, plan), NOW + seconds(1))
    assert again.status is None, "it is told once"


def test_what_held_a_job_on_the_pod_network_stays_told_when_it_has_ended() -> None:
    known = {"bandwidth_manager": True, "fairness": shared(10**8)}
    job = after(observe(running(shared(10**8), network="Pod"), receiver(), sender(), reports=KEPT, **known))
    ended = {"receiver": receiver(verdict=make_verdict()), "sender": sender(verdict=make_verdict())}
    job = after(observe(job, *ended.values(), **known))
    assert job.status.finished
    assert job.status.bandwidth is not None
    assert job.status.bandwidth.enforced_by == "Annotation"


@pytest.mark.parametrize("cap", ["1", "999", "1500k", "100M", "2500M", "1G", "400G"])
def test_caps_are_quantities_that_cilium_reads_as_bits(cap: str) -> None:
    # It takes Kubernetes' decimal suffixes and divides by 8, so a cap must never be written with a binary one.
    assert re.fullmatch(r"[0-9]+[kMG]?", format_rate(parse_rate(cap)))


@pytest.mark.parametrize(("present", "expected"), [("100M", "100M"), ("much", None), (None, None)])
def test_a_cap_that_only_the_pod_has_stays_while_nothing_is_known(present: str | None, expected: str | None) -> None:
    plan = decide(observe(running(), receiver(), sender(egress_cap=present), fairness=UNDECIDED), NOW)
    assert plan.annotations == (() if present == expected else annotated(None))
    bandwidth = (plan.status or running().status).bandwidth
    assert (bandwidth.allocated if bandwidth else None) == expected


def judged(plan: Plan) -> tuple[str, str]:
    condition = written(plan).condition("CapEnforced")
    assert condition is not None
    return condition.status, condition.reason


def arriving(rate_bps: float, *, stage: str = "Transferring", done: int = 500) -> Reports:
    return make_reports(make_progress(done, rate=rate_bps / 8, stage=stage), decided=True)


KEPT = arriving(90e6)
READ_BACK = arriving(4e9, stage="Verifying", done=1000)


def pass_over(job: TransferJob, reports: Reports, share: JobShare, at: float, *pods: MoverPod) -> Plan:
    """A pass some seconds later, when a cap that has changed meanwhile does not excuse what is measured any more."""
    asked = float(share.cap_bps or 0)
    return decide(observe(job, *(pods or (receiver(), sender())), reports=reports, fairness=share, asked_bps=asked), NOW + seconds(at))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [(90e6, ("True", "WithinCap", "Pacing")), (400e6, ("False", "AboveCap", "None"))],
    ids=["kept", "exceeded"],
)
def test_how_fast_the_receiver_reads_its_disk_says_nothing_about_the_cap(sent: float, expected: tuple[str, str, str]) -> None:
    share = shared(10**8)
    job = after(observe(running(share), receiver(), sender(), reports=arriving(sent), fairness=share))
    verifying = pass_over(job, READ_BACK, share, 60)
    job = with_plan_applied(observe(job), verifying).job
    ended = pass_over(job, Reports(), share, 120, receiver(verdict=make_verdict()), sender(verdict=make_verdict()))
    for plan in (verifying, ended):
        bandwidth = written(plan).bandwidth
        assert bandwidth is not None
        assert (*judged(plan), bandwidth.enforced_by) == expected
        assert bandwidth.measured == ("90M" if sent == 90e6 else "400M")


def test_a_disk_that_is_read_before_anything_was_judged_leaves_the_cap_unjudged() -> None:
    assert judged(pass_over(running(), READ_BACK, shared(10**8), 60)) == ("Unknown", "CapNotMeasured")


def test_a_cap_that_falls_while_the_receiver_does_not_answer_is_not_judged_by_what_it_said_before() -> None:
    job = after(observe(running(shared(10**8)), receiver(), sender(), reports=KEPT, fairness=shared(10**8)))
    assert judged(pass_over(job, Reports(), shared(5 * 10**7), 60)) == ("Unknown", "CapNotMeasured")
    assert judged(pass_over(job, KEPT, shared(5 * 10**7), 60)) == ("False", "AboveCap")


@pytest.mark.parametrize("sent_bps", [90e6, 400e6], ids=["kept", "exceeded"])
def test_between_two_polls_that_are_minutes_apart_a_cap_stays_as_it_was_judged(sent_bps: float) -> None:
    share = shared(10**8)
    job = after(observe(running(share), receiver(), sender(), reports=arriving(sent_bps), fairness=share))
    old = replace(arriving(sent_bps), receiver_age_seconds=90.0)
    assert pass_over(job, old, share, 90).status is None
    in_vain = replace(old, receiver_unheard_seconds=2.0)
    assert judged(pass_over(job, in_vain, share, 90)) == ("Unknown", "CapNotMeasured")


def test_a_new_cap_is_judged_when_the_receiver_is_asked_again() -> None:
    job = after(observe(running(shared(10**8)), receiver(), sender(), reports=KEPT, fairness=shared(10**8)))
    plan = pass_over(job, replace(KEPT, receiver_age_seconds=90.0), shared(5 * 10**7), 90)
    assert judged(plan) == ("Unknown", "CapNotMeasured")
    assert judged(pass_over(job, KEPT, shared(5 * 10**7), 90)) == ("False", "AboveCap")


@pytest.mark.parametrize("stage", ["Listing", "AwaitingTransport"])
def test_an_attempt_is_not_judged_by_the_rate_of_the_one_before(stage: str) -> None:
    share = shared(10**8)
    job = after(observe(running(share), receiver(), sender(), reports=KEPT, fairness=share))
    again = receiver(attempt=2), sender(attempt=2)
    plan = pass_over(job, arriving(0, stage=stage, done=0), shared(5 * 10**7), 60, *again)
    bandwidth = written(plan).bandwidth
    assert bandwidth is not None
    assert (judged(plan), bandwidth.measured) == (("Unknown", "CapNotMeasured"), None)


def test_an_exceeded_cap_is_told_once_and_nothing_claims_to_enforce_it() -> None:
    reports = make_reports(make_progress(500, rate=400e6 / 8), decided=True)
    observed = observe(running(shared(10**8)), receiver(), sender(), reports=reports, fairness=shared(10**8))
    plan = decide(observed, NOW)
    status = written(plan)
    assert status.bandwidth is not None
    assert (status.bandwidth.allocated, status.bandwidth.enforced_by) == ("100M", "None")
    assert [event.reason for event in plan.events] == ["CapExceeded"]
    later = decide(with_plan_applied(observed, plan), NOW + seconds(60))
    assert later.events == ()


def test_an_exceeded_cap_is_told_at_once_as_it_may_be_over_before_progress_is_due() -> None:
    quiet = make_reports(make_progress(100, rate=50e6 / 8), decided=True)
    job = after(observe(running(shared(10**8)), receiver(), sender(), reports=quiet, fairness=shared(10**8)))
    loud = make_reports(make_progress(100, rate=400e6 / 8), decided=True)
    loudly = observe(job, receiver(), sender(), reports=loud, fairness=shared(10**8))
    plan = decide(loudly, NOW + seconds(1))
    assert judged(plan) == ("False", "AboveCap")
    assert [event.reason for event in plan.events] == ["CapExceeded"]
    calm = decide(replace(with_plan_applied(loudly, plan), reports=quiet), NOW + seconds(2))
    assert (calm.status, calm.events) == (None, ()), "that it is kept again can wait"


def test_progress_alone_waits_where_it_may_not_be_written_and_goes_with_other_news() -> None:
    job = running(shared(10**8))
    observed = observe(job, receiver(), sender(), reports=make_reports(make_progress(100), decided=True), fairness=shared(10**8))
    begun = with_plan_applied(observed, decide(observed, NOW + seconds(600)))
    more = replace(begun, reports=make_reports(make_progress(400), decided=True), progress_writes=ProgressWrites.NONE)
    soon, late = NOW + seconds(660), NOW + seconds(900)
    assert decide(more, soon).status is None
    free = decide(replace(more, progress_writes=ProgressWrites.ALL), soon)
    assert free.progress_alone
    assert written(free).progress != begun.job.status.progress
    for writes, expected in ((ProgressWrites.NONE, False), (ProgressWrites.OVERDUE, True)):
        assert decide(replace(more, progress_writes=writes), late).progress_alone is expected
    assert decide(replace(more, progress_writes=ProgressWrites.OVERDUE), soon).status is None
    capped = decide(replace(more, fairness=shared(10**7)), soon)
    assert not capped.progress_alone
    assert written(capped).progress == written(free).progress
    spec = more.job.spec.model_copy(update={"suspend": True})
    suspended = decide(replace(more, job=more.job.model_copy(update={"spec": spec})), soon)
    assert written(suspended).phase == "Suspended"
    progress = written(suspended).progress
    assert progress is not None
    assert progress.bytes_transferred == 400


def test_a_guarantee_above_the_limit_is_named() -> None:
    job = make_job(bandwidth={"limit": "1G", "guarantee": "2G"})
    accepted = written(decide(observe(job), NOW)).condition("Accepted")
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("False", "InvalidSpec")
    assert "lower guarantee or raise limit" in accepted.message


WIDE = {
    end: {"node": node, "volume": {"persistentVolumeClaim": {"claimName": end}}, "interfaces": ["data0", "data1"]}
    for end, node in (("source", "dtn-a"), ("destination", "dtn-b"))
}
PLACES = (EndpointPlace("data0", "198.18.0.2", 24000), EndpointPlace("data1", "198.19.0.2", 24000))


def wide_share(*caps: int | None, **more: Any) -> JobShare:
    known = [cap for cap in caps if cap is not None]
    return shared(sum(known) if len(known) == len(caps) else None, path_caps_bps=caps, **more)


def wide_running(share: JobShare | None, **fields: Any) -> tuple[TransferJob, Reports]:
    """A job with two paths whose first attempt has both movers up, and what these report."""
    own = (EndpointPlace("data0", "198.18.0.1", 0), EndpointPlace("data1", "198.19.0.1", 0))
    reports = replace(
        make_reports(decided=True),
        receiver_endpoint=MoverEndpoint("data0", "198.18.0.2", 24000, several=PLACES),
        sender_endpoint=MoverEndpoint("data0", "198.18.0.1", 0, several=own),
    )
    job = after(observe(make_job(finalizer=True, **WIDE, **fields), receiver(), fairness=share))
    return after(observe(job, receiver(), sender(watches_paths=True), reports=reports, fairness=share)), reports


def changes(plan: Plan) -> dict[str, str | None]:
    return {key: value for each in plan.annotations for key, value in each.annotations.items()}


def test_a_sender_with_several_paths_is_made_with_a_cap_for_each_and_their_sum() -> None:
    reports = replace(make_reports(), receiver_endpoint=MoverEndpoint("data0", "198.18.0.2", 24000, several=PLACES))
    share = wide_share(100 * 10**6, 300 * 10**6)
    job = after(observe(make_job(finalizer=True, **WIDE), fairness=share))
    (create,) = decide(observe(job, receiver(), reports=reports, fairness=share), NOW).creates
    assert (create.role, create.cap_bps, create.path_caps_bps) == (Role.SENDER, 400 * 10**6, (100 * 10**6, 300 * 10**6))


@pytest.mark.parametrize(
    ("share", "present", "expected"),
    [
        (wide_share(10**8, 2 * 10**8), ("300M", "100M,200M"), {}),
        (wide_share(2 * 10**8, 10**8), ("300M", "100M,200M"), {ANNOTATION_PATH_BANDWIDTH: "200M,100M"}),
        (
            wide_share(2 * 10**8, 2 * 10**8),
            ("300M", "100M,200M"),
            {ANNOTATION_EGRESS_BANDWIDTH: "400M", ANNOTATION_PATH_BANDWIDTH: "200M,200M"},
        ),
        (wide_share(10**8, None), ("300M", "100M,200M"), {ANNOTATION_EGRESS_BANDWIDTH: None, ANNOTATION_PATH_BANDWIDTH: "100M,"}),
        (None, ("300M", "100M,200M"), {ANNOTATION_EGRESS_BANDWIDTH: None, ANNOTATION_PATH_BANDWIDTH: None}),
        (UNDECIDED, ("300M", "100M,200M"), {}),
        # Paths that were decided for other interfaces: whichever carries the data, it has no more than the least.
        (wide_share(10**8, 10**8, 5 * 10**7), ("300M", "100M,200M"), {ANNOTATION_EGRESS_BANDWIDTH: "50M", ANNOTATION_PATH_BANDWIDTH: None}),
    ],
)
def test_the_caps_of_paths_follow_the_share_and_are_left_as_they_are_while_nothing_is_known(
    share: JobShare | None, present: tuple[str, str], expected: dict[str, str | None]
) -> None:
    job, reports = wide_running(wide_share(10**8, 2 * 10**8))
    up = sender(watches_paths=True, egress_cap=present[0], path_caps=present[1])
    assert changes(decide(observe(job, receiver(), up, reports=reports, fairness=share), NOW)) == expected


def test_a_sender_that_knows_one_cap_alone_has_the_least_of_its_paths() -> None:
    job, reports = wide_running(wide_share(10**8, 2 * 10**8))
    up = sender(egress_cap="300M")
    plan = decide(observe(job, receiver(), up, reports=reports, fairness=wide_share(10**8, 2 * 10**8)), NOW)
    assert changes(plan) == {ANNOTATION_EGRESS_BANDWIDTH: "100M"}


def test_the_status_has_what_each_interface_of_the_source_may_send() -> None:
    job, _ = wide_running(wide_share(10**8, 2 * 10**8))
    assert job.status.endpoints is not None
    assert job.status.endpoints.source is not None
    interfaces = job.status.endpoints.source.interfaces
    assert interfaces is not None
    assert [(each.name, each.allocated) for each in interfaces] == [("data0", "100M"), ("data1", "200M")]
    assert job.status.bandwidth is not None
    assert job.status.bandwidth.allocated == "300M"


def test_the_job_s_own_limit_bounds_the_sum_of_its_paths() -> None:
    job, _ = wide_running(wide_share(10**8, None), bandwidth={"limit": "150M"})
    assert job.status.bandwidth is not None
    assert job.status.bandwidth.allocated == "150M"
