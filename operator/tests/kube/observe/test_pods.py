from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kube_objects import UID, pod_body

from fairlead.api import names
from fairlead.core.observed import MoverPod, PodPhase, Role
from fairlead.core.reports import OutcomeReport, SwitchReport
from fairlead.kube.observe.forms import printable
from fairlead.kube.observe.pods import parse_verdict, read_owned_pod

VERDICT: dict[str, Any] = {
    "version": 1,
    "role": "receiver",
    "job": UID,
    "attempt": 1,
    "verdict": "Succeeded",
    "reason": "Verified",
    "message": "all there",
    "retry": False,
    "bytes_total": 10,
    "bytes_transferred": 8,
    "bytes_skipped": 2,
    "files_total": 3,
    "files_transferred": 2,
    "files_skipped": 1,
    "root_digest": "blake3:00",
    "verified": ["Wire", "Block"],
    "seconds": 12.3,
    "bulk_seconds": 10.1,
}


def _read(**fields: Any) -> MoverPod:
    owned = read_owned_pod(pod_body(**fields))
    assert owned is not None
    return owned.pod


def _with_mover(state: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {"phase": "Running", "containerStatuses": [{"name": "mover", "state": state}], **status}


def _for_nodes(*nodes: str) -> dict[str, Any]:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(nodes)}]}]
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}


def test_reads_what_the_decisions_look_at() -> None:
    pod = _read(status={"phase": "Running", "podIP": "198.18.0.2", "containerStatuses": [{"name": "mover", "ready": True}]})
    assert (pod.role, pod.attempt, pod.phase, pod.ready, pod.deleting) == (Role.RECEIVER, 1, PodPhase.RUNNING, True, False)
    assert (pod.node, pod.address, pod.port_base) == ("dtn-b", "198.18.0.2", 24000)
    assert pod.created_at.isoformat() == "2026-01-01T00:00:00+00:00"
    assert pod.verdict is None


def test_a_brand_new_pod_is_pending() -> None:
    pod = _read(status={})
    assert (pod.phase, pod.ready, pod.address) == (PodPhase.PENDING, False, None)


def test_a_pod_under_deletion_says_so() -> None:
    assert _read(deletionTimestamp="2026-01-01T00:00:10Z").deleting


def test_the_port_base_of_a_sender_is_told_by_its_http_port() -> None:
    body = pod_body("sender")
    body["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": 24005}]
    owned = read_owned_pod(body)
    assert owned is not None
    assert owned.pod.port_base == 24004


@pytest.mark.parametrize("address", ["fairlead.io", "", "300.1.1.1", "198.18.0.2:80"])
def test_only_an_address_is_taken_for_an_address(address: str) -> None:
    assert _read(status={"phase": "Running", "podIP": address}).address is None


@pytest.mark.parametrize(("mover", "advisor", "ready"), [(True, False, True), (False, True, False), (True, True, True)])
def test_a_pod_is_ready_when_its_mover_is_whatever_its_sidecar_does(mover: bool, advisor: bool, ready: bool) -> None:
    containers = {
        "containerStatuses": [{"name": "mover", "ready": mover, "state": {"running": {}}}],
        "initContainerStatuses": [{"name": "advisor", "ready": advisor, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
    }
    condition = {"type": "Ready", "status": "True" if mover and advisor else "False"}
    assert _read(status={"phase": "Running", "conditions": [condition], **containers}).ready is ready


class TestOwnership:
    @pytest.mark.parametrize(
        ("what", "change"),
        [
            ("no owner", {"ownerReferences": []}),
            (
                "an owner that is not the controller",
                {"ownerReferences": [{"kind": "TransferJob", "apiVersion": "fairlead.io/v1alpha1", "uid": UID}]},
            ),
            (
                "a controller of another kind",
                {"ownerReferences": [{"kind": "Job", "apiVersion": "batch/v1", "name": "run42", "uid": UID, "controller": True}]},
            ),
            ("another name", {"name": "run42-receiver"}),
            ("the name of another attempt", {"name": "run42-0123abcd-receiver-2"}),
            ("a name that goes on", {"name": "run42-0123abcd-receiver-1-x"}),
            ("no labels", {"labels": {}}),
        ],
    )
    def test_a_pod_is_not_ours_with(self, what: str, change: dict[str, Any]) -> None:
        assert read_owned_pod(pod_body(**change)) is None, what

    @pytest.mark.parametrize(
        ("label", "value"),
        [
            ("fairlead.io/role", "admiral"),
            ("fairlead.io/attempt", "one"),
            ("fairlead.io/attempt", "²"),
            ("fairlead.io/transferjob-uid", "other"),
        ],
    )
    def test_a_pod_is_not_ours_with_a_wrong_label(self, label: str, value: str) -> None:
        body = pod_body()
        body["metadata"]["labels"][label] = value
        assert read_owned_pod(body) is None


def test_a_pod_that_lost_its_owner_is_told_by_what_it_was_made_with() -> None:
    orphan = pod_body(ownerReferences=[], annotations={"fairlead.io/transferjob": "run42"})
    owned = read_owned_pod(orphan)
    assert owned is not None
    assert (owned.job_name, owned.job_uid, owned.pod.attempt, owned.has_owner) == ("run42", UID, 1, False)
    del orphan["metadata"]["labels"]["fairlead.io/transferjob-uid"]
    assert read_owned_pod(orphan) is None


def test_a_pod_with_other_digits_in_its_name_may_be_the_jobs() -> None:
    assert _read(name="run42-0123abcd-receiver-1").name == "run42-0123abcd-receiver-1"


@pytest.mark.parametrize(
    ("what", "spec", "node"),
    [
        ("no affinity", {}, None),
        ("affinity of another kind", {"affinity": {"podAffinity": {}}}, None),
        ("the operator's own", _for_nodes("dtn-b"), "dtn-b"),
        ("several nodes", _for_nodes("dtn-a", "dtn-b"), None),
    ],
)
def test_the_node_that_a_pod_asks_for_is_read_from_its_affinity(what: str, spec: dict[str, Any], node: str | None) -> None:
    body = pod_body()
    body["spec"] |= spec
    owned = read_owned_pod(body)
    assert owned is not None
    assert owned.pod.wanted_node == node, what


def test_gates_and_the_network_of_a_pod_are_read() -> None:
    body = pod_body()
    body["spec"] |= {"schedulingGates": [{"name": "fairlead.io/recorded"}], "hostNetwork": False}
    owned = read_owned_pod(body)
    assert owned is not None
    assert (owned.pod.gates, owned.pod.on_host_network, _read().on_host_network) == (("fairlead.io/recorded",), False, True)


class TestVerdict:
    def test_is_read_from_the_movers_termination_message(self) -> None:
        pod = _read(status=_with_mover({"terminated": {"exitCode": 0, "message": json.dumps(VERDICT), "reason": "Completed"}}))
        assert pod.verdict is not None
        assert (pod.verdict.verdict, pod.verdict.reason, pod.verdict.bytes_skipped) == ("Succeeded", "Verified", 2)
        assert (pod.verdict.job, pod.verdict.attempt, pod.verdict.reason) == (UID, 1, VERDICT["reason"])
        assert pod.exit_code == 0

    def test_of_another_job_or_attempt_is_handed_on_for_comparison(self) -> None:
        verdict = parse_verdict(json.dumps(VERDICT | {"job": "other", "attempt": 7}), Role.RECEIVER)
        assert verdict is not None
        assert (verdict.job, verdict.attempt) == ("other", 7)

    @pytest.mark.parametrize(
        ("what", "change"),
        [
            ("another role's", {"role": "sender"}),
            ("of a later version", {"version": 2}),
            ("an unknown outcome", {"verdict": "Perhaps"}),
            ("a negative count", {"bytes_total": -1}),
            ("a count beyond 63 bits", {"bytes_total": 2**63}),
            ("a count as text", {"bytes_total": "10"}),
            ("no finite time", {"seconds": float("nan")}),
            ("a reason that is none", {"reason": "rm -rf"}),
        ],
    )
    def test_is_not_believed_if_it_is(self, what: str, change: dict[str, Any]) -> None:
        assert parse_verdict(json.dumps(VERDICT | change), Role.RECEIVER) is None, what

    @pytest.mark.parametrize("message", ["", "Succeeded", "{", "[]", "null", json.dumps(VERDICT | {"message": "x" * 5000})])
    def test_is_not_believed_if_malformed_or_too_long(self, message: str) -> None:
        assert parse_verdict(message, Role.RECEIVER) is None

    def test_ignores_fields_of_later_movers(self) -> None:
        assert parse_verdict(json.dumps(VERDICT | {"novelty": 1}), Role.RECEIVER) is not None

    def test_what_a_transfer_cost_is_read_where_the_mover_tells_it(self) -> None:
        told = parse_verdict(json.dumps(VERDICT | {"bytes_resent": 1, "retransmitted_bytes": 7, "cpu_seconds": 8.5}), Role.RECEIVER)
        silent = parse_verdict(json.dumps(VERDICT | {"retransmitted_bytes": None}), Role.RECEIVER)
        assert told is not None and silent is not None
        assert (told.bytes_resent, told.retransmitted_bytes, told.cpu_seconds) == (1, 7, 8.5)
        assert (silent.bytes_resent, silent.retransmitted_bytes, silent.cpu_seconds) == (0, None, None)

    def test_of_a_mover_that_proved_nothing_may_have_no_digest(self) -> None:
        verdict = parse_verdict(json.dumps(VERDICT | {"verdict": "Failed", "reason": "SourceMissing", "root_digest": None}), Role.RECEIVER)
        assert verdict is not None
        assert verdict.reason == "SourceMissing"

    def test_of_a_cleaner_needs_no_attempt(self) -> None:
        message = {"version": 1, "role": "cleaner", "job": UID, "verdict": "Succeeded", "reason": "Cleaned"}
        assert parse_verdict(json.dumps(message), Role.CLEANER) is not None

    @given(st.text(max_size=200))
    def test_no_text_makes_it_stumble(self, text: str) -> None:
        parse_verdict(text, Role.SENDER)


class TestWaiting:
    def test_an_image_that_cannot_be_had_is_named(self) -> None:
        pod = _read(status=_with_mover({"waiting": {"reason": "ErrImageNeverPull", "message": "not here"}}, phase="Pending"))
        assert (pod.waiting_reason, pod.waiting_message) == ("ErrImageNeverPull", "not here")

    def test_a_crashing_sidecar_is_named(self) -> None:
        sidecar = {"name": "advisor", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}
        pod = _read(status=_with_mover({"waiting": {"reason": "PodInitializing"}}, phase="Pending", initContainerStatuses=[sidecar]))
        assert pod.waiting_reason == "CrashLoopBackOff"

    @pytest.mark.parametrize(("reason", "expected"), [("OOMKilled", "OOMKilled"), ("Error", "")])
    def test_a_crashing_sidecar_is_not_what_ended_the_mover(self, reason: str, expected: str) -> None:
        sidecar = {"name": "advisor", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}
        ended = _with_mover({"terminated": {"exitCode": 137, "reason": reason}}, initContainerStatuses=[sidecar])
        assert _read(status=ended).waiting_reason == expected

    @pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
    def test_an_ordinary_start_is_no_reason(self, reason: str) -> None:
        assert _read(status=_with_mover({"waiting": {"reason": reason}}, phase="Pending")).waiting_reason == ""

    def test_a_pod_that_fits_nowhere_is_unschedulable(self) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
        pod = _read(status={"phase": "Pending", "conditions": [condition]})
        assert (pod.waiting_reason, pod.waiting_message) == ("Unschedulable", "0/3 nodes")

    def test_an_evicted_pod_says_why(self) -> None:
        pod = _read(status={"phase": "Failed", "reason": "Evicted", "message": "disk pressure"})
        assert (pod.waiting_reason, pod.waiting_message, pod.verdict) == ("Evicted", "disk pressure", None)

    def test_a_mover_that_ran_out_of_memory_says_why(self) -> None:
        pod = _read(status=_with_mover({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, phase="Failed"))
        assert (pod.waiting_reason, pod.exit_code) == ("OOMKilled", 137)


def test_printable_text_is_short_and_has_no_control_characters() -> None:
    assert printable("a\x1b[31mb\nc") == "a [31mb c"
    assert len(printable("x" * 5000)) == 1024
    assert printable("x" * 5000).endswith("…")


ADVICE: dict[str, Any] = {
    "version": 1,
    "path": {"rtt_seconds": 0.0604, "rtt_minimum_seconds": 0.06, "loss_ratio": 0.0, "samples": 200},
    "decision": {
        "protocol": "TCP",
        "congestion_control": "cubic",
        "streams": 4,
        "background": None,
        "confidence": None,
        "abstained": True,
        "model": None,
        "reason": "NoModel",
        "message": "no classifier is installed",
        "decided_at": "2026-01-01T00:00:00Z",
    },
    "applied": True,
}


def _with_advisor(message: str) -> MoverPod:
    ended = {"terminated": {"exitCode": 0, "message": message}}
    return _read(status={"phase": "Succeeded", "initContainerStatuses": [{"name": "advisor", "state": ended}]})


def test_reads_the_decision_that_an_ended_sidecar_left() -> None:
    advice = _with_advisor(json.dumps(ADVICE)).advice
    assert advice is not None
    assert (advice.path.rtt_seconds, advice.decision.congestion_control, advice.decision.reason) == (0.0604, "cubic", "NoModel")


LATER_ADVICE: dict[str, Any] = {
    "version": 1,
    "path": ADVICE["path"],
    "decision": {
        **ADVICE["decision"],
        "congestion_control": "bbr",
        "streams": 8,
        "socket_buffer_bytes": 3145728,
        "background": {"class": "B1-C0", "probability": 0.9},
        "probabilities": {"B0-C0": 0.05, "B0-C1": 0.0, "B1-C0": 0.9, "B1-C1": 0.05, "B1-B1": 0.0, "C1-C1": 0.0},
        "any_bbr": 0.95,
        "confidence": 0.9,
        "abstained": False,
        "model": "background-1.0.0 (sha256:0123456789ab)",
        "utility": -0.0196,
        "rejected": [{"congestion_control": "cubic", "utility": -0.3878, "why_not": "expected utility -0.388 against -0.020 of bbr"}],
        "reason": "Classified",
    },
    "applied": True,
    "changes": [{"at": "2026-01-01T00:01:00Z", "what": "streams", "from": 4, "to": 8, "why": "kept 8"}],
    "looks": {"count": 1, "quiet_seconds": 6.1, "last_at": "2026-01-01T00:02:00Z"},
}


def test_reads_a_decision_with_alternatives_and_changes() -> None:
    advice = _with_advisor(json.dumps(LATER_ADVICE)).advice
    assert advice is not None
    decision = advice.decision
    assert (decision.congestion_control, decision.streams, decision.reason) == ("bbr", 8, "Classified")
    assert (decision.background, decision.background_probability, decision.confidence) == ("B1-C0", 0.9, 0.9)
    assert decision.model == "background-1.0.0 (sha256:0123456789ab)"
    assert [other.congestion_control for other in decision.rejected] == ["cubic"]
    assert decision.switches == ()


@pytest.mark.parametrize(("told", "whole"), [({}, None), ({"whole": True}, True), ({"whole": False}, False)])
def test_reads_whether_the_path_was_probed_as_a_whole(told: dict[str, Any], whole: bool | None) -> None:
    advice = _with_advisor(json.dumps(ADVICE | {"path": ADVICE["path"] | told})).advice
    assert advice is not None
    assert advice.path.whole is whole


def test_reads_the_model_by_its_whole_name_with_probabilities_and_what_the_advisor_settled_on() -> None:
    named = LATER_ADVICE | {"decision": LATER_ADVICE["decision"] | {"model": "background-1.0.0 (sha256:0123456789ab)"}}
    outcome = {"congestion_control": "bbr", "streams": 8, "goodput_bps": 187e6, "seconds": 61.2, "stream_coefficient": 1.2e-6}
    limited = {"receive_window_limited_ratio": 0.1, "source_limited_ratio": None, "cap_limited_ratio": 0.3}
    advice = _with_advisor(json.dumps(named | {"outcome": outcome | limited})).advice
    assert advice is not None
    assert advice.decision.model == "background-1.0.0 (sha256:0123456789ab)"
    assert (advice.decision.any_bbr, len(advice.decision.probabilities or {})) == (0.95, 6)
    assert (advice.decision.recalled, advice.decision.switched) == (False, False)
    assert advice.outcome == OutcomeReport("bbr", 8, 1.2e-6, 0.1, 0.0, 0.3)


def test_tells_what_was_handed_on_and_what_was_seen_in_mid_transfer() -> None:
    recalled = {"class": "B1-C0", "probability": 0.9, "abstained": True, "measured_at": "2026-01-01T00:00:00Z"}
    switch = {"at": "2026-01-01T00:01:00Z", "what": "congestion_control", "from": "cubic", "to": "bbr", "why": "x"}
    later = LATER_ADVICE | {"decision": LATER_ADVICE["decision"] | {"background": recalled}, "changes": [switch], "outcome": None}
    advice = _with_advisor(json.dumps(later)).advice
    assert advice is not None
    assert (advice.decision.recalled, advice.decision.background_abstained) == (True, True)
    assert advice.decision.switches == (SwitchReport(datetime(2026, 1, 1, 0, 1, tzinfo=UTC), "cubic", "bbr", "x"),)
    assert advice.outcome is None


@pytest.mark.parametrize(
    "outcome",
    [
        {"congestion_control": "cubic", "streams": 0},
        {"congestion_control": "cubic", "streams": 4, "stream_coefficient": 1e9},
        {"congestion_control": "two words", "streams": 4},
    ],
)
def test_an_outcome_that_cannot_be_is_not_believed(outcome: dict[str, Any]) -> None:
    assert _with_advisor(json.dumps(ADVICE | {"outcome": outcome})).advice is None


def test_tells_what_its_annotations_let_it_send_and_receive() -> None:
    told = {names.ANNOTATION_EGRESS_BANDWIDTH: "40M", names.ANNOTATION_INGRESS_BANDWIDTH: "50M", names.ANNOTATION_PACING: "60M"}
    for pod, expected in ((_read(annotations=told), ("40M", "50M", "60M")), (_read(), (None, None, None))):
        assert (pod.egress_cap, pod.ingress_cap, pod.pacing_cap) == expected


def test_tells_since_when_it_has_its_node() -> None:
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}
    waiting = {**placed, "status": "False"}
    pod = _read(status={"phase": "Pending", "conditions": [placed]})
    assert pod.placed_at is not None
    assert pod.placed_at.second == 5
    assert _read(status={"phase": "Pending", "conditions": [waiting]}).placed_at is None


def test_tells_since_when_it_is_ready_and_whether_it_knows_its_path() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}
    pod = _read(status={"phase": "Running", "conditions": [ready]}, annotations={names.ANNOTATION_PATH: names.PATH_KNOWN})
    assert pod.ready_since is not None
    assert (pod.ready_since.second, pod.unready_since, pod.knows_path) == (5, None, True)
    assert (_read().ready_since, _read().knows_path) == (None, False)


def test_tells_since_when_it_is_not_ready() -> None:
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:05Z"}
    pod = _read(status={"phase": "Running", "conditions": [unready]})
    assert pod.unready_since is not None
    assert (pod.unready_since.second, pod.ready_since) == (5, None)


@pytest.mark.parametrize("message", ["", "killed", "{}", json.dumps(ADVICE) + " " * 4096], ids=["none", "text", "no fields", "too long"])
def test_a_sidecars_last_word_of_another_form_is_no_decision(message: str) -> None:
    assert _with_advisor(message).advice is None


def test_tells_when_the_mover_ended() -> None:
    ended = {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:09Z"}}
    moment = _read(status=_with_mover(ended)).ended_at
    assert moment is not None
    assert moment.isoformat() == "2026-01-01T00:00:09+00:00"


def test_tells_all_addresses_of_its_own_and_on_the_nodes_network_those_of_the_node() -> None:
    status = {"phase": "Running", "podIP": "198.18.0.2", "podIPs": [{"ip": "198.18.0.2"}, {"ip": "2001:DB8::2"}, {"ip": "nowhere"}]}
    status |= {"hostIP": "198.18.9.9", "hostIPs": [{"ip": "198.18.9.9"}]}
    body = pod_body(status=status)
    body["spec"]["hostNetwork"] = False
    assert _pod_of(body).addresses == {"198.18.0.2", "2001:db8::2"}
    body["spec"]["hostNetwork"] = True
    assert _pod_of(body).addresses == {"198.18.0.2", "2001:db8::2", "198.18.9.9"}


@pytest.mark.parametrize(
    ("told", "attached"),
    [
        (None, None),
        ("{", None),
        ("{}", None),
        ("[" * 100_000, None),
        ('[{"name": "cni0", "interface": "eth0", "ips": ["10.0.0.2"], "default": true}]', None),
        (
            '[{"interface": "eth0", "ips": ["10.0.0.2"]}, {"interface": "data0", "ips": ["198.19.0.2", "2001:DB8::2"]}]',
            {"198.19.0.2", "2001:db8::2"},
        ),
        ('[{"interface": "data0"}, 7, {"interface": "data0", "ips": 7}]', set()),
    ],
)
def test_tells_what_the_network_plugin_reports_of_its_attachment(told: str | None, attached: set[str] | None) -> None:
    annotations = {} if told is None else {names.ANNOTATION_NETWORK_STATUS: told}
    assert _read(annotations=annotations).attached == attached


def _pod_of(body: dict[str, Any]) -> MoverPod:
    owned = read_owned_pod(body)
    assert owned is not None
    return owned.pod
