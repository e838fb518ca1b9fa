"""What is read from verdicts and statuses, and the line of JSON at the end."""

from __future__ import annotations

import json

import pytest

from fairlead_dev.clients.kubectl import Object
from fairlead_dev.demo.outcome import (
    DemoError,
    ReceiverVerdict,
    conditions_table,
    goodput_mbps,
    is_true,
    job_seconds,
    receiver_verdict,
    result_line,
)

MESSAGE = {
    "version": 1,
    "role": "receiver",
    "verdict": "Succeeded",
    "reason": "Verified",
    "message": "all there",
    "bytes_total": 600_000_000,
    "files_total": 2400,
    "bulk_seconds": 25.0,
}
VERDICT = ReceiverVerdict("Succeeded", "Verified", "all there", 600_000_000, 2400, 25.0)


def pod(role: str, message: str | None) -> Object:
    state = {"running": {}} if message is None else {"terminated": {"message": message}}
    return {"metadata": {"labels": {"fairlead.io/role": role}}, "status": {"containerStatuses": [{"name": "mover", "state": state}]}}


def test_the_receivers_verdict_is_read_from_its_termination_message() -> None:
    versions = [pod("receiver", None), pod("sender", json.dumps(MESSAGE | {"bytes_total": 1})), pod("receiver", json.dumps(MESSAGE))]
    assert receiver_verdict(versions) == VERDICT


def test_the_last_attempts_verdict_counts() -> None:
    lost = json.dumps(MESSAGE | {"verdict": "Failed", "reason": "PeerLost"})
    assert receiver_verdict([pod("receiver", lost), pod("receiver", json.dumps(MESSAGE))]) == VERDICT


@pytest.mark.parametrize("message", [None, "", "not JSON", "{}", "[]", '{"verdict": "Succeeded"}'])
def test_what_is_not_a_verdict_is_none(message: str | None) -> None:
    assert receiver_verdict([pod("receiver", message)]) is None


def test_a_pod_without_a_status_has_no_verdict() -> None:
    assert receiver_verdict([{"metadata": {"labels": {"fairlead.io/role": "receiver"}}}]) is None


def test_goodput_is_payload_bits_over_the_bulk_phase() -> None:
    assert goodput_mbps(VERDICT) == 192.0


def test_goodput_of_nothing_is_refused() -> None:
    with pytest.raises(DemoError, match="no bulk phase"):
        goodput_mbps(ReceiverVerdict("Succeeded", "Verified", "", 0, 0, 0.0))


def test_the_last_line_is_the_documented_json() -> None:
    line = result_line(VERDICT, 48.26, 200, verified=True)
    assert line == (
        '{"demo": "first-transfer", "bytes": 600000000, "files": 2400, "seconds": 48.3, '
        '"goodput_mbps": 192.0, "link_mbps": 200, "verified": true}'
    )


def test_a_jobs_seconds_run_from_its_start_to_its_completion() -> None:
    assert job_seconds({"status": {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:02Z"}}) == 62.0


@pytest.mark.parametrize(("status", "expected"), [("True", True), ("False", False), ("Unknown", False)])
def test_only_true_is_true(status: str, expected: bool) -> None:
    assert is_true({"status": {"conditions": [{"type": "Succeeded", "status": status}]}}, "Succeeded") is expected


def test_an_absent_condition_is_not_true() -> None:
    assert not is_true({}, "Succeeded")


def test_conditions_are_a_table() -> None:
    conditions = [
        {"type": "Accepted", "status": "True", "reason": "Valid", "message": "it can run"},
        {"type": "Failed", "status": "True", "reason": "SourceMissing", "message": "no such directory"},
    ]
    assert conditions_table({"status": {"conditions": conditions}}).splitlines() == [
        "Conditions:",
        "  Type      Status  Reason         Message",
        "  Accepted  True    Valid          it can run",
        "  Failed    True    SourceMissing  no such directory",
    ]
