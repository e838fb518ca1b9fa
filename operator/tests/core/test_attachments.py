"""What a job is told of a pod that Multus could not attach.

The kubelet's messages were recorded with Multus 4.2.3 and the CNI plugins 1.9.1.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from job_builders import NOW, make_attached_job, make_job, observe, receiver, sender, with_plan_applied

from fairlead.api.reasons import ConditionType, EventReason, Reason
from fairlead.api.transferjob import TransferJob
from fairlead.core.attachments import attachment_failure, refuses_rate
from fairlead.core.fairness.model import Admission, JobShare
from fairlead.core.lifecycle import decide
from fairlead.core.observed import PodPhase

SANDBOX = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox"
ADDING = f'{SANDBOX} "991eced4": plugin type="multus" name="multus" failed (add): [physics/first-receiver-1/06eb320e:lab-b]: '
LOADING = (
    f'{SANDBOX} "f1553700": plugin type="multus" name="multus" failed (add): Multus: [physics/first-receiver-1/8dcb8afa]: error loading k8s'
    " delegates k8s args: TryLoadPodDelegates: error in getting k8s network for pod: GetNetworkDelegates: failed getting the delegate: "
)
MISSING = (
    "getKubernetesDelegate: cannot find a network-attachment-definition (lab-b) in namespace (physics):"
    ' network-attachment-definitions.k8s.cni.cncf.io "lab-b" not found'
)
TO_LAB_B = 'error adding container to network "lab-b": '
FULL = "failed to allocate for range 0: no IP addresses available in range set: 198.19.1.70-198.19.1.70"
WITHOUT_VETH = (
    'plugin type="bandwidth" failed (add): container interface data0 has no veth peer: interface "data0" was not a veth interface'
)


def begun(**spec: object) -> TransferJob:
    """An attached job whose receiver was created."""
    observed = observe(make_attached_job(finalizer=True, **spec))
    return with_plan_applied(observed, decide(observed, NOW)).job


UNATTACHED = receiver(ready=False, phase=PodPhase.PENDING, address=None)


def told_of(job: TransferJob, message: str) -> str | None:
    return attachment_failure(observe(job, UNATTACHED, network_failures={UNATTACHED.uid: message}), UNATTACHED)


@pytest.mark.parametrize(
    ("message", "words", "remedy"),
    [
        (LOADING + MISSING, "cannot find a network-attachment-definition (lab-b)", "create NetworkAttachmentDefinition lab-b in namespace"),
        (ADDING + TO_LAB_B + FULL, FULL, "widen the range in the ipam of lab-b"),
        (ADDING + TO_LAB_B + "Link not found", "Link not found", "the interface does not exist on node dtn-b"),
        (
            ADDING + TO_LAB_B + 'failed to find plugin "ovs" in path [/opt/cni/bin]',
            'failed to find plugin "ovs"',
            "installs that CNI plugin on node dtn-b",
        ),
        (ADDING + TO_LAB_B + WITHOUT_VETH, WITHOUT_VETH, "bandwidth plugin cannot hold a rate"),
        (ADDING + TO_LAB_B + "IPAM plugin returned missing IP config", "missing IP config", "the job names attachmentAddresses"),
        (
            LOADING + "GetCNIConfig: err in getCNIConfigFromSpec: failed to unmarshal Spec.Config: unexpected end of JSON input",
            "failed to unmarshal Spec.Config",
            "the config of NetworkAttachmentDefinition lab-b cannot be used",
        ),
        (ADDING + TO_LAB_B + "something new", "something new", "check the config of NetworkAttachmentDefinition lab-b"),
    ],
    ids=["no definition", "no address left", "no parent", "no plugin", "a rate behind macvlan", "no address", "no JSON", "anything else"],
)
def test_multus_words_are_shortened_and_followed_by_what_mends_it(message: str, words: str, remedy: str) -> None:
    told = told_of(make_attached_job(), message)
    assert told is not None
    assert told.startswith("Multus cannot attach destination.attachment lab-b: ")
    assert words in told
    assert remedy in told
    assert "rpc error" not in told
    assert "sandbox" not in told
    assert len(told) < 600


def test_of_a_long_message_the_end_is_kept_as_it_names_the_cause() -> None:
    told = told_of(make_attached_job(), ADDING + "x" * 3000 + ": Link not found")
    assert told is not None
    assert "x: Link not found; the interface does not exist" in told
    assert len(told) < 600


def test_of_several_attachments_the_one_that_failed_is_named() -> None:
    job = make_attached_job()
    several = job.spec.destination.model_copy(update={"attachment": None, "attachments": ("lab-a", "lab-b")})
    job = job.model_copy(update={"spec": job.spec.model_copy(update={"destination": several})})
    told = told_of(job, ADDING + TO_LAB_B + FULL)
    assert told is not None
    assert told.startswith("Multus cannot attach destination.attachments lab-b: ")


def test_nothing_is_told_without_a_message_or_on_another_network() -> None:
    assert told_of(make_attached_job(), "") is None
    assert told_of(make_job(network="Pod"), LOADING + MISSING) is None


def test_the_job_says_so_at_once_by_condition_and_event() -> None:
    job = begun()
    pod = replace(UNATTACHED, created_at=NOW - timedelta(seconds=2))
    plan = decide(observe(job, pod, network_failures={pod.uid: LOADING + MISSING}), NOW)
    ready = plan.status.condition(ConditionType.MOVERS_READY)
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", Reason.ATTACHMENT_FAILED)
    assert "create NetworkAttachmentDefinition lab-b" in ready.message
    assert [event.reason for event in plan.events if event.reason == EventReason.MOVERS_NOT_READY] == [EventReason.MOVERS_NOT_READY]


def test_an_attempt_whose_pod_stays_unattached_fails_with_that_reason_and_is_tried_again() -> None:
    job = begun()
    pod = replace(UNATTACHED, created_at=NOW)
    plan = decide(observe(job, pod, network_failures={pod.uid: LOADING + MISSING}), NOW + timedelta(minutes=3))
    assert plan.status.last_failure is not None
    assert plan.status.last_failure.reason == Reason.ATTACHMENT_FAILED
    assert plan.status.condition(ConditionType.FAILED) is None or not plan.status.is_true(ConditionType.FAILED)


HOLDS = {"type": "bandwidth", "capabilities": {"bandwidth": True}}


def chain(*plugins: object) -> str:
    return json.dumps({"cniVersion": "1.0.0", "name": "lab", "plugins": plugins})


@pytest.mark.parametrize(
    ("config", "plugin"),
    [
        *((chain({"type": kind}, HOLDS), kind) for kind in ("macvlan", "ipvlan", "vlan", "sriov", "host-device")),
        (chain({"type": "macvlan"}, {"type": "tuning"}, HOLDS), "macvlan"),
        (chain({"type": "bridge"}, HOLDS), None),
        (chain({"type": "ptp"}, HOLDS), None),
        (chain({"type": "ovs"}, HOLDS), None),
        (chain({"type": "macvlan"}), None),
        (chain({"type": "macvlan"}, {"type": "bandwidth"}), None),
        (chain({"type": "macvlan"}, {"type": "bandwidth", "capabilities": {"bandwidth": False}}), None),
        (chain({"type": "macvlan"}, {"type": "bandwidth", "capabilities": ["bandwidth"]}), None),
        (chain(HOLDS, {"type": "macvlan"}), None),
        (json.dumps({"type": "macvlan", "capabilities": {"bandwidth": True}}), None),
        (chain("macvlan", {"type": ["macvlan"]}, {"type": None}, HOLDS), None),
        (json.dumps({"plugins": {"type": "macvlan"}}), None),
        ("[]", None),
        ("{", None),
        ("", None),
        ("[" * 100_000, None),
    ],
)
def test_a_config_refuses_a_rate_where_its_bandwidth_plugin_has_no_veth_pair(config: str, plugin: str | None) -> None:
    assert refuses_rate(config) == plugin


SHARED = JobShare(Admission.ADMITTED, cap_bps=10**9, ceiling_bps=10**10)
LIMITED = {"bandwidth": {"limit": "20M"}}


@pytest.mark.parametrize(
    ("case", "refusing", "spec", "share", "end"),
    [
        ("a limit", {"lab-a": "macvlan"}, LIMITED, None, "source.attachment lab-a"),
        ("a share of a link", {"lab-a": "macvlan"}, {}, SHARED, "source.attachment lab-a"),
        ("a check of a job with a limit", {"lab-a": "macvlan"}, {**LIMITED, "preflightOnly": True}, None, "source.attachment lab-a"),
        ("a share of what the receiver gets", {"lab-b": "vlan"}, {}, replace(SHARED, at_receiver=True), "destination.attachment lab-b"),
        ("a limit, which is the sender's", {"lab-b": "macvlan"}, LIMITED, None, None),
        ("a share of what the sender sends", {"lab-b": "macvlan"}, {}, SHARED, None),
        ("no rate", {"lab-a": "macvlan", "lab-b": "macvlan"}, {}, None, None),
        ("no link", {"lab-a": "macvlan"}, {}, JobShare(Admission.ADMITTED), None),
        ("more than a bucket can count", {"lab-a": "macvlan"}, {"bandwidth": {"limit": "2T"}}, None, None),
        ("definitions that take a rate", {}, LIMITED, None, None),
    ],
)
def test_no_pod_is_made_that_asks_for_a_rate_which_its_attachment_refuses(
    case: str, refusing: dict[str, str], spec: dict[str, Any], share: JobShare | None, end: str | None
) -> None:
    plan = decide(observe(make_attached_job(**spec), attachments=refusing, fairness=share), NOW)
    accepted = plan.status.condition(ConditionType.ACCEPTED)
    assert accepted is not None
    if end is None:
        assert (accepted.status, len(plan.creates)) == ("True", 1)
        return
    assert (accepted.status, accepted.reason, plan.creates) == ("False", Reason.ATTACHMENT_REFUSES_RATE, ())
    assert accepted.message.startswith(f"{end}: ")
    assert refusing[end.split()[-1]] in accepted.message
    assert ("without bandwidth.limit" in accepted.message) is bool(spec)
    assert plan.status.is_true(ConditionType.FAILED) is spec.get("preflightOnly", False)
    assert plan.status.is_true(ConditionType.STALLED)


def test_a_job_whose_links_would_give_it_a_refused_rate_waits_without_asking_for_them_again() -> None:
    blocked = observe(make_attached_job(), attachments={"lab-a": "macvlan"}, fairness=SHARED)
    plan = decide(blocked, NOW)
    assert not plan.asks_for_links
    undecided = replace(with_plan_applied(blocked, plan), fairness=JobShare(Admission.UNDECIDED, hold=True))
    again = decide(undecided, NOW)
    assert (again.status, again.asks_for_links, again.creates) == (None, False, ())
    mended = decide(replace(undecided, attachments={}), NOW)
    assert mended.asks_for_links
    without_policy = decide(replace(undecided, fairness=None), NOW)
    assert len(without_policy.creates) == 1


def test_a_cap_of_an_attached_sender_goes_to_the_annotation_that_no_plugin_knows() -> None:
    job = begun(bandwidth={"limit": "20M"})
    for present, expected in (
        ({"pacing_cap": "40M"}, {"fairlead.io/egress-bandwidth": "20M"}),
        ({"pacing_cap": "20M"}, None),
        # An earlier version gave the cap to the annotation that plugins know, and its mover watches that.
        ({"egress_cap": "40M"}, {"kubernetes.io/egress-bandwidth": "20M"}),
    ):
        plan = decide(observe(job, receiver(), sender(**present)), NOW)
        assert [dict(change.annotations) for change in plan.annotations] == ([] if expected is None else [expected])
