"""What to do next, for every place where a job may stand."""

from __future__ import annotations

from typing import Any

import pytest
from explain_jobs import NOW, TRANSFERRING, condition, explained, running

from fairlead.api.reasons import MoverReason, Reason
from fairlead.commands.explain.advice import meaning_of, next_steps

READY = condition("MoversReady", "True", "MoversRunning")


def pending(*conditions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"phase": "Pending", "conditions": list(conditions), **more}


def limited(**bandwidth: Any) -> dict[str, Any]:
    return {**TRANSFERRING, "bandwidth": {"enforcedBy": "Pacing", **bandwidth}}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (None, "whether Fairlead's operator runs"),
        ({"phase": "Succeeded", "conditions": [condition("Succeeded", "True", "Verified")]}, "Nothing: every byte arrived"),
        (
            {"phase": "Succeeded", "conditions": [condition("Succeeded", "True", "PreflightPassed")]},
            "Create the job without spec.preflightOnly",
        ),
        ({"phase": "Failed", "conditions": [condition("Failed", "True", "SourceMissing")]}, "Correct `source.path` in a new job"),
        (
            {
                "phase": "Failed",
                "conditions": [condition("Failed", "True", "BackoffLimitExceeded")],
                "lastFailure": {"attempt": 7, "reason": "DestinationFull", "message": "full", "time": "2026-01-02T03:02:00Z"},
            },
            "Free some or use another volume",
        ),
        (
            {"phase": "Suspended", "conditions": [condition("Suspended", "True", "Suspended")]},
            """kubectl -n bio patch tj run42 --type merge -p '{"spec":{"suspend":false}}'""",
        ),
        (pending(condition("Accepted", "False", "HostNetworkNotAllowed")), "`hostNetwork.namespaces`"),
        (pending(condition("Accepted", "False", "ClaimNotFound")), "The job waits for it"),
        (pending(condition("Scheduled", "False", "WaitingForLink")), "the message says which and the place in the queue"),
        (pending(condition("Scheduled", "False", "NoPortFree")), "taken by other jobs"),
        (pending(condition("MoversReady", "False", "ReceiverNotReady")), "The receiver is not up yet"),
        (
            pending(
                condition("MoversReady", "False", "BackingOff"),
                failures=2,
                lastFailure={"attempt": 2, "reason": "PeerUnreachable", "message": "refused", "time": "2026-01-02T03:02:00Z"},
            ),
            "2 failures of at most 6, and the next attempt starts by itself. The sender could not reach the receiver. Check routes",
        ),
        ({"phase": "Transferring", "conditions": [READY, condition("PathProbed", "False", "AdvisorSilent")]}, "Nothing has to be done"),
        ({**TRANSFERRING, "conditions": [READY, condition("CapEnforced", "False", "AboveCap")]}, "The measured rate exceeds the cap"),
        ({"phase": "Probing", "conditions": [READY]}, "goes on by itself"),
        (limited(), "Nothing caps the job"),
        (limited(allocated="100M", measured="20M", boundBy="Link"), "The cap is not what holds the job back"),
        (limited(allocated="100M", measured="99M", boundBy="JobLimit"), '"limit":"RATE"'),
        (
            limited(allocated="100M", measured="99M", boundBy="TenantLimit", bottleneck="uplink", tenant="bio"),
            "limit of tenant bio on link uplink",
        ),
        (limited(allocated="100M", measured="99M", boundBy="Link", bottleneck="uplink", tenant="bio"), "Link uplink is shared"),
        (limited(allocated="100M", measured="99M"), "runs at its cap"),
    ],
)
def test_what_to_do(status: dict[str, Any] | None, words: str) -> None:
    assert words in " ".join(next_steps(explained(status), NOW))


def test_a_new_job_is_waited_for() -> None:
    assert "Wait some seconds" in next_steps(explained(created="2026-01-02T03:09:50Z"), NOW)[0]


def test_a_job_of_another_controller_is_not_fairleads_to_explain() -> None:
    assert "example.org/other serves this job" in next_steps(explained(managedBy="example.org/other"), NOW)[0]


def test_a_job_that_is_being_deleted_is_waited_for_whatever_holds_else() -> None:
    (step,) = next_steps(
        explained({**TRANSFERRING, **pending(condition("Suspended", "True", "Suspended"))}, deleted="2026-01-02T03:09:00Z"), NOW
    )
    assert "being deleted" in step


def test_a_change_of_the_spec_that_is_not_answered_yet_comes_first() -> None:
    steps = next_steps(explained(pending(condition("Accepted", "False", "ClaimNotFound"), observedGeneration=1)), NOW)
    assert "has not answered the last change" in steps[0]
    assert len(steps) == 2


def test_waiting_for_a_node_is_not_told_twice() -> None:
    waiting = pending(condition("Scheduled", "False", "WaitingForLink"), condition("MoversReady", "False", "MoversStarting"))
    assert len(next_steps(explained(waiting), NOW)) == 1


def test_every_reason_has_a_meaning_and_a_foreign_one_breaks_nothing() -> None:
    assert all(meaning_of(reason.value) for reason in (*Reason, *MoverReason))
    assert meaning_of("Elsewhere") == ""
    assert next_steps(explained({"phase": "Failed", "conditions": [condition("Failed", "True", "Elsewhere")]}), NOW)[0]


def test_a_running_job_at_its_share_knows_who_could_give_it_more() -> None:
    (step,) = next_steps(running(), NOW)
    assert "is an administrator's to give" in step
