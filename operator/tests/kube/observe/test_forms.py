"""What is accepted of movers and advisors, and that nothing they can say stops a pass over their job."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from absurd_values import ABSURD, DECISION, ENDPOINT, PROGRESS, VERDICT, absurd_bodies
from hypothesis import given
from hypothesis import strategies as st
from kube_objects import pod_body

from fairlead.api.networkpath import NetworkPathStatus
from fairlead.api.shared.fields import Condition
from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.core.cap_excess import excess_after
from fairlead.core.fairness.meter import Meter
from fairlead.core.fairness.participant import participant_of
from fairlead.core.lifecycle import decide
from fairlead.core.observed import MoverPod, Observed, PodPhase, Role
from fairlead.core.paths.evidence import evidence_of
from fairlead.core.paths.merge import merge
from fairlead.core.reports import Reports
from fairlead.core.settings import OperatorSettings
from fairlead.kube.observe.advice import DecisionAnswer, parse_advice, read_advice
from fairlead.kube.observe.answers import EndpointAnswer, ProgressAnswer, read_endpoint, read_progress
from fairlead.kube.observe.forms import LARGEST_BODY_BYTES, MOST_BYTES, MOST_FILES, MoverMessage, ReportError, parse_message
from fairlead.kube.observe.pods import parse_verdict, read_owned_pod

NOW = datetime(2026, 1, 1, 0, 2, tzinfo=UTC)
FORMS: dict[str, tuple[type[MoverMessage], dict[str, Any]]] = {
    "endpoint": (EndpointAnswer, ENDPOINT),
    "progress": (ProgressAnswer, PROGRESS),
    "decision": (DecisionAnswer, DECISION),
}
UNREAD = {
    "bandwidth.asked_bps",
    "bandwidth.in_force_bps",
    "bandwidth.measured_bps",
    "path.samples",
    "decision.rejected.0.utility",
    "applied",
    "outcome.goodput_bps",
    "outcome.seconds",
}
"""Fields that the operator does not read: their values are not looked at."""
NEVER_ACCEPTED = {"NaN", "Infinity", "minus Infinity", "5000 digits", "half of a character", "a deep list", "a field that comes twice"}
NO_NUMBER = {"1e999", "1.7e308", "minus one", "2^63", "2^4000", "a long string", "a number as text", "true", "an object", "a long list"}


@pytest.mark.parametrize("name", FORMS)
def test_a_message_as_it_should_be_is_accepted(name: str) -> None:
    form, message = FORMS[name]
    assert parse_message(form, json.dumps(message).encode())


@pytest.mark.parametrize("name", FORMS)
def test_every_field_with_every_absurd_value_is_refused_or_harmless(name: str) -> None:
    form, message = FORMS[name]
    cases = 0
    for field, what, body in absurd_bodies(message):
        cases += 1
        try:
            accepted = parse_message(form, body)
        except ReportError as error:
            assert len(str(error)) <= 200
            assert str(error).isprintable()
            continue
        assert what not in NEVER_ACCEPTED, (field, what)
        value = _value(message, field)
        if field not in UNREAD and isinstance(value, int | float) and not isinstance(value, bool):
            assert what not in NO_NUMBER, (field, what)
        _pass_over(_reports(accepted))
    assert cases > len(message) * len(ABSURD)


def test_every_field_of_a_verdict_with_every_absurd_value_is_refused_or_harmless() -> None:
    for field, what, body in absurd_bodies(VERDICT):
        verdict = parse_verdict(body.decode(), Role.RECEIVER)
        if verdict is None:
            continue
        assert what not in NEVER_ACCEPTED, (field, what)
        _pass_over(Reports(), replace(_mover("receiver"), verdict=verdict, phase=PodPhase.SUCCEEDED, ended_at=NOW))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rate_bytes_per_second": 1.7e308}, "rate_bytes_per_second"),
        ({"bytes_transferred": 2**63}, "bytes_transferred"),
        ({"bandwidth": {"wire_bytes": -1}}, "bandwidth.wire_bytes"),
        ({"streams": 10**6}, "streams"),
        ({"stage": "x" * 60_000}, "stage"),
    ],
)
def test_a_refusal_names_the_field_and_not_its_value(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ReportError, match=f"^{said}: ") as refused:
        parse_message(ProgressAnswer, json.dumps(PROGRESS | change).encode())
    assert "x" * 100 not in str(refused.value)


def test_a_mover_s_last_work_is_taken_in_and_older_movers_do_not_tell_it() -> None:
    older = {name: value for name, value in PROGRESS.items() if name != "seconds_since_progress"}
    for message, seconds in ((PROGRESS, 0.5), (older, None)):
        answer = parse_message(ProgressAnswer, json.dumps(message).encode())
        progress = read_progress(answer, NOW.timestamp(), "job-uid", 1, Role.RECEIVER)
        assert progress is not None
        assert progress.seconds_since_progress == seconds


def test_the_names_of_a_map_are_the_movers_own_text_and_bounded() -> None:
    choice = DECISION["decision"] | {"probabilities": {"\x1b[31m" * 1000: 2}}
    with pytest.raises(ReportError) as refused:
        parse_message(DecisionAnswer, json.dumps(DECISION | {"decision": choice}).encode())
    assert len(str(refused.value)) <= 200
    assert "\x1b" not in str(refused.value)


def test_a_body_that_is_too_long_is_not_parsed() -> None:
    body = json.dumps(ENDPOINT).encode()
    assert parse_message(EndpointAnswer, body + b" " * (LARGEST_BODY_BYTES - len(body)))
    with pytest.raises(ReportError, match="more than 65536 bytes"):
        parse_message(EndpointAnswer, body + b" " * LARGEST_BODY_BYTES)


@pytest.mark.parametrize(
    ("name", "is_taken"), [("cubic", True), ("ledbat++", True), ("dctcp-reno", True), ("a b", False), ("x" * 16, False)]
)
def test_a_congestion_control_is_taken_as_the_kernel_names_it(name: str, is_taken: bool) -> None:
    body = json.dumps(PROGRESS | {"congestion_control": name}).encode()
    if is_taken:
        assert parse_message(ProgressAnswer, body).congestion_control == name
        return
    with pytest.raises(ReportError, match="congestion_control"):
        parse_message(ProgressAnswer, body)


@pytest.mark.parametrize(
    ("cpus", "is_taken"),
    [
        (None, True),
        ("0", True),
        ("0-7,16-23", True),
        ("", False),
        ("0-", False),
        ("0,,1", False),
        ("0-3\n", False),
        ("1," * 2000 + "1", False),
    ],
)
def test_cpus_are_a_list_as_the_kernel_writes_it(cpus: str | None, is_taken: bool) -> None:
    body = json.dumps(ENDPOINT | {"cpus": cpus}).encode()
    if not is_taken:
        with pytest.raises(ReportError, match="cpus"):
            parse_message(EndpointAnswer, body)
        return
    endpoint = read_endpoint(parse_message(EndpointAnswer, body), Role.RECEIVER)
    assert endpoint is not None
    assert endpoint.cpus == cpus


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-01T00:00:00", 1.7e9, "yesterday"])
def test_a_moment_that_no_clock_shows_is_refused(at: Any) -> None:
    with pytest.raises(ReportError, match="decided_at"):
        parse_message(DecisionAnswer, json.dumps(DECISION | {"decision": DECISION["decision"] | {"decided_at": at}}).encode())


def test_a_clock_that_was_never_set_is_no_reason_to_refuse() -> None:
    choice = DECISION["decision"] | {"decided_at": "1970-01-01T00:00:09Z"}
    assert parse_message(DecisionAnswer, json.dumps(DECISION | {"decision": choice}).encode())


def test_minus_zero_is_printed_as_zero() -> None:
    answer = parse_message(DecisionAnswer, json.dumps(DECISION | {"path": {"rtt_seconds": -0.0, "loss_ratio": -0.0}}).encode())
    assert (str(answer.path.rtt_seconds), str(answer.path.loss_ratio)) == ("0.0", "0.0")


@given(st.binary(max_size=400))
def test_no_bytes_make_the_parser_raise_anything_else(body: bytes) -> None:
    for form, _ in FORMS.values():
        with pytest.raises(ReportError):
            parse_message(form, body)
    parse_verdict(body.decode(errors="surrogateescape"), Role.SENDER)
    parse_advice(body.decode(errors="surrogateescape"))


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
_JSON = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4))


@given(st.sampled_from(sorted(FORMS)), st.data())
def test_no_value_in_any_field_stops_a_pass(name: str, data: st.DataObject) -> None:
    form, message = FORMS[name]
    fields = data.draw(st.lists(st.sampled_from(sorted(message)), max_size=3))
    body = json.dumps(message | {field: data.draw(_JSON) for field in fields}).encode()
    try:
        accepted = parse_message(form, body)
    except ReportError:
        return
    _pass_over(_reports(accepted))


_COUNTS = st.integers(0, MOST_BYTES)
_FILES = st.integers(0, MOST_FILES)
_AMOUNTS = st.floats(0, 1e9)
_RATIOS = st.floats(0, 1)
_CONTROLS = st.sampled_from(["cubic", "bbr", ""])


@given(
    st.fixed_dictionaries(
        {
            "stage": st.sampled_from(["Waiting", "Listing", "AwaitingTransport", "Transferring", "Verifying", "Publishing", "Done"]),
            "bytes_total": st.none() | _COUNTS,
            "bytes_transferred": _COUNTS,
            "bytes_skipped": _COUNTS,
            "bytes_resumed": _COUNTS,
            "files_total": st.none() | _FILES,
            "files_transferred": _FILES,
            "files_skipped": _FILES,
            "rate_bytes_per_second": st.floats(0, 1e18),
            "seconds_since_progress": st.none() | _AMOUNTS,
            "quiet_seconds": _AMOUNTS,
            "streams": st.none() | st.integers(0, 1024),
            "protocol": st.sampled_from([None, "TCP", "QUIC", "UDT"]),
            "congestion_control": st.none() | _CONTROLS,
            "bandwidth": st.none() | st.fixed_dictionaries({"wire_bytes": _COUNTS}),
            "interface_bytes_sent": st.none() | _COUNTS,
            "interface_bytes_received": st.none() | _COUNTS,
        }
    ),
    st.fixed_dictionaries({"rtt_seconds": st.none() | st.floats(0, 3600), "loss_ratio": st.none() | _RATIOS}),
    st.fixed_dictionaries({"streams": st.integers(0, 1024), "any_bbr": st.none() | _RATIOS, "confidence": st.none() | _RATIOS}),
    st.fixed_dictionaries(
        {
            "bytes_total": _COUNTS,
            "bytes_transferred": _COUNTS,
            "bytes_resumed": _COUNTS,
            "seconds": _AMOUNTS,
            "bulk_seconds": _AMOUNTS | st.just(5e-324),
        }
    ),
)
def test_whatever_is_within_the_bounds_is_taken_in(
    progress: dict[str, Any], path: dict[str, Any], choice: dict[str, Any], verdict: dict[str, Any]
) -> None:
    moved = parse_message(ProgressAnswer, json.dumps(PROGRESS | progress).encode())
    decided = DECISION | {"path": path, "decision": DECISION["decision"] | choice}
    advice = parse_message(DecisionAnswer, json.dumps(decided).encode())
    reports = replace(_reports(moved), path=read_advice(advice).path, decision=read_advice(advice).decision)
    closing = parse_verdict(json.dumps(VERDICT | verdict), Role.RECEIVER)
    assert closing is not None
    _pass_over(reports)
    _pass_over(reports, replace(_mover("receiver"), verdict=closing, phase=PodPhase.SUCCEEDED, ended_at=NOW))


def test_a_closing_account_of_no_time_has_a_rate_that_can_be_read() -> None:
    for seconds in (5e-324, 1e-300, 0.0):
        verdict = parse_verdict(json.dumps(VERDICT | {"bulk_seconds": seconds, "bytes_transferred": MOST_BYTES}), Role.RECEIVER)
        assert verdict is not None
        _pass_over(Reports(), replace(_mover("receiver"), verdict=verdict, phase=PodPhase.SUCCEEDED, ended_at=NOW))


def _value(message: Any, field: str) -> Any:
    for name in field.split("."):
        message = message[int(name)] if isinstance(message, list) else message[name]
    return message


def _reports(message: MoverMessage) -> Reports:
    match message:
        case EndpointAnswer():
            return Reports(receiver_endpoint=read_endpoint(message, Role.RECEIVER))
        case ProgressAnswer():
            progress = read_progress(message, NOW.timestamp(), "job-uid", 1, Role.RECEIVER)
            return Reports(receiver=progress, sender=progress)
        case DecisionAnswer():
            advice = read_advice(message)
            return Reports(path=advice.path, decision=advice.decision, outcome=advice.outcome)
    raise AssertionError(message)


def _mover(role: str) -> MoverPod:
    owned = read_owned_pod(pod_body(role))
    assert owned is not None
    return replace(owned.pod, phase=PodPhase.RUNNING, ready=True, created_at=datetime(2026, 1, 1, tzinfo=UTC))


def _pass_over(reports: Reports, receiver: MoverPod | None = None) -> None:
    """Everything that a pass makes of what was reported, until it is an object for the API server."""
    ready = Condition(type="MoversReady", status="True", reason="MoversRunning", message="", last_transition_time=NOW)
    status = TransferJobStatus(attempts=1, attempt_start_time=NOW, start_time=NOW, conditions=(ready,))
    ends = {
        "source": {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}},
        "destination": {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}},
    }
    metadata = {"name": "run42", "namespace": "lab", "uid": "job-uid", "creationTimestamp": "2026-01-01T00:00:00Z"}
    for bandwidth in (None, {"limit": "1G"}):
        job = TransferJob.from_object({"metadata": metadata, "spec": ends | ({"bandwidth": bandwidth} if bandwidth else {})})
        observed = Observed(
            job=job.model_copy(update={"status": status}),
            pods=(receiver or _mover("receiver"), _mover("sender")),
            reports=reports,
            settings=OperatorSettings(host_network_namespaces=frozenset({"lab"})),
        )
        for excess in (None, *(excess_after(None, progress.arrived, 1e9) for progress in (reports.receiver,) if progress)):
            plan = decide(replace(observed, excess=excess), NOW)
            if plan.status is not None:
                json.dumps(plan.status.to_object(), allow_nan=False)
        participant = participant_of(observed, asks=False, now=NOW.timestamp())
        if participant is not None and participant.sent is not None:
            sent = participant.sent
            Meter().noted(sent.at - 3, 0).noted(sent.at, sent.count, sent.quiet_seconds).unhindered_bps(3)
        if participant is not None and participant.arrived is not None:
            excess_after(excess_after(None, participant.arrived, 1e9), replace(participant.arrived, at=participant.arrived.at + 3.0), 1e9)
        evidence = evidence_of(observed, plan, NOW)
        if evidence is not None and evidence.measurement is not None:
            json.dumps(merge(NetworkPathStatus(), evidence.measurement).to_object(), allow_nan=False)
