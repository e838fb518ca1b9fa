"""What counts as the same state, and what does not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fairlead.api import names
from fuzz.state import difference, is_current, is_told, object_state, pod_state

UID, OTHER = "0a1b2c3d-0000-4000-8000-000000000001", "ffffffff-1111-4111-8111-111111111111"


def _job(uid: str = UID, attempt: int = 1, **status: Any) -> dict[str, Any]:
    moment = f"2026-01-02T03:04:0{attempt}Z"
    conditions = [{"type": "MoversReady", "status": "True", "reason": "MoversRunning", "message": moment, "lastTransitionTime": moment}]
    return {
        "metadata": {"name": "job", "uid": uid, "resourceVersion": str(attempt), "generation": 3, "creationTimestamp": moment},
        "spec": {"suspend": False},
        "status": {"attempts": attempt, "observedGeneration": 3, "startTime": moment, "conditions": conditions, **status},
    }


def _pod(uid: str = UID, attempt: int = 1, port: int = 24000, cap: str = "1G") -> dict[str, Any]:
    name = f"job-{uid[:8]}-sender-{attempt}"
    arguments = ["send", f"--job={uid}", f"--attempt={attempt}", f"--connect=198.19.0.2:{port}", "--streams=4"]
    secret = {"name": "tls", "secret": {"secretName": f"job-{uid[:8]}-credentials-{attempt}"}}
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "labels": {names.LABEL_ROLE: "sender", names.LABEL_JOB_UID: uid, names.LABEL_ATTEMPT: str(attempt)},
            "annotations": {names.ANNOTATION_EGRESS_BANDWIDTH: cap},
        },
        "spec": {"containers": [{"name": "mover", "args": arguments, "ports": [{"hostPort": port}]}], "volumes": [secret]},
        "status": {"phase": "Running"},
    }


def test_times_uids_versions_and_attempts_make_no_difference() -> None:
    assert object_state(_job()) == object_state(_job(OTHER, 2))
    assert pod_state(_pod()) == pod_state(_pod(OTHER, 2, 24008))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "suspend"), True),
        (("status", "bandwidth"), {"allocated": "1G"}),
        (("status", "phase"), "Failed"),
        (("metadata", "finalizers"), ["fairlead.io/partial-files"]),
        (("metadata", "annotations"), {"a": "b"}),
    ],
)
def test_what_else_an_object_has_makes_one(path: tuple[str, str], value: Any) -> None:
    changed = copy.deepcopy(_job())
    changed[path[0]][path[1]] = value
    assert object_state(changed) != object_state(_job())
    assert path[1] in difference(object_state(_job()), object_state(changed))


def test_a_cap_an_argument_and_a_reason_make_one() -> None:
    assert pod_state(_pod(cap="2G")) != pod_state(_pod())
    pod = _pod()
    pod["spec"]["containers"][0]["args"][-1] = "--streams=8"
    assert pod_state(pod) != pod_state(_pod())
    job = _job()
    job["status"]["conditions"][0]["reason"] = "BackingOff"
    assert object_state(job) != object_state(_job())


@pytest.mark.parametrize(
    ("conditions", "told"),
    [
        ([], False),
        ([("MoversReady", "True", "MoversRunning")], True),
        ([("MoversReady", "False", "MoversStarting")], False),
        ([("MoversReady", "False", "CreationRefused")], True),
        ([("Accepted", "False", "ClaimNotFound")], True),
        ([("Scheduled", "False", "WaitingForLink")], True),
        ([("Suspended", "True", "Suspended")], True),
    ],
)
def test_a_job_is_done_with_when_it_runs_or_says_why_not(conditions: list[tuple[str, str, str]], told: bool) -> None:
    listed = [{"type": kind, "status": status, "reason": reason} for kind, status, reason in conditions]
    assert is_told(_job() | {"status": {"conditions": listed}}, []) is told


def test_an_object_whose_present_version_was_not_seen_is_not_current() -> None:
    assert is_current(_job())
    assert not is_current(_job(observedGeneration=2))
