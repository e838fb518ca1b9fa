"""What the status of a checked job tells a user, and how it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fairlead.api.reasons import MoverReason
from fairlead.api.transferjob import TransferJob
from fairlead.commands.preflight.findings import findings_of, of_job, refused
from fairlead.commands.preflight.text import render

ACCEPTED = ("Accepted", "True", "Valid", "may run")
SMALL = {"end": "source", "check": "PathMtu", "result": "Failed", "reason": "PathMtuTooSmall", "message": "more than 1400\x1b[31m bytes"}
CLOCKS = {"end": "source", "check": "Clocks", "result": "Warning", "reason": "ClocksDiffer", "message": "20 s behind"}
FINE = {"end": "destination", "check": "Space", "result": "Passed", "message": "fits"}


def job(*conditions: tuple[str, str, str, str], **status: Any) -> TransferJob:
    claim = {"volume": {"persistentVolumeClaim": {"claimName": "raw"}}}
    since = "2026-01-02T03:00:00Z"
    known = [dict(zip(("type", "status", "reason", "message"), each, strict=True)) | {"lastTransitionTime": since} for each in conditions]
    return TransferJob.from_object(
        {
            "metadata": {"name": "a-preflight-1", "namespace": "bio", "uid": "u", "creationTimestamp": since},
            "spec": {"source": claim, "destination": claim},
            "status": {"conditions": known, **status},
        }
    )


@pytest.mark.parametrize(
    ("checked", "failed"),
    [
        (job(ACCEPTED, ("Succeeded", "True", "PreflightPassed", "x"), preflight=[FINE]), None),
        (job(ACCEPTED, ("Succeeded", "True", "PreflightPassed", "x"), preflight=[CLOCKS, FINE]), None),
        (job(ACCEPTED, ("Failed", "True", "PathMtuTooSmall", "x"), preflight=[SMALL, FINE]), ("source", "PathMtu", "PathMtuTooSmall")),
        (
            job(("Accepted", "False", "ClaimNotFound", "no raw"), ("Failed", "True", "ClaimNotFound", "no raw")),
            ("job", "Accepted", "ClaimNotFound"),
        ),
        (job(ACCEPTED, ("Failed", "True", "MoverDied", "out of memory")), ("job", "Movers", "MoverDied")),
        (
            job(ACCEPTED, ("MoversReady", "False", "ReceiverNotReady", "ErrImagePull"), ("Failed", "True", "DeadlineExceeded", "late")),
            ("job", "MoversReady", "ReceiverNotReady"),
        ),
        (job(ACCEPTED, ("Scheduled", "False", "NoPortFree", "all taken")), ("job", "Scheduled", "NoPortFree")),
        (job(), ("job", "Movers", "DeadlineExceeded")),
    ],
)
def test_a_job_has_passed_only_if_it_says_so_and_otherwise_what_it_waits_for_is_told(
    checked: TransferJob, failed: tuple[str, str, str] | None
) -> None:
    findings = findings_of("bio", "run42", of_job(checked))
    failures = [(each.end, each.check, each.reason) for each in findings.checks if each.result == "Failed"]
    assert (findings.passed, failures) == (failed is None, [failed] if failed else [])


def test_the_text_has_a_line_for_each_check_the_remedies_and_nothing_that_a_terminal_obeys() -> None:
    text = render(findings_of("bio", "run42", of_job(job(ACCEPTED, preflight=[CLOCKS, SMALL, FINE]))))
    assert text.startswith("TransferJob bio/run42: 1 of 5 checks failed, 1 with a warning; nothing was moved")
    assert "\x1b" not in text
    lines = text.splitlines()
    assert any(line.split()[:4] == ["source", "PathMtu", "Failed", "PathMtuTooSmall"] for line in lines)
    assert "docs/how-to/preflight.md#pathmtutoosmall" in text.partition("What to do")[2]


PAGE = (Path(__file__).parents[4] / "docs/how-to/preflight.md").read_text(encoding="utf-8")
REASONS = sorted(re.findall(r"^### (\w+)$", PAGE, re.MULTILINE))
"""Of checks that can fail or warn: a test of the mover holds the page complete."""
INSTRUCTION = re.compile(
    r"(Bring|Check|Correct|Create|Free|Look|Name|Remove|Rename|Set|Use|Wait|An administrator (adds|lets|lowers|sets))\b"
)


@pytest.mark.parametrize("reason", REASONS)
def test_what_fails_a_check_has_a_remedy_that_says_what_to_do(reason: str) -> None:
    check = {"end": "source", "check": "Any", "result": "Failed", "reason": reason, "message": "what was found"}
    failed = next(each for each in of_job(job(ACCEPTED, preflight=[check])) if each.result == "Failed")
    assert failed.remedy is not None
    assert INSTRUCTION.match(failed.remedy), failed.remedy
    assert failed.remedy != MoverReason(reason).meaning
    assert failed.page == f"docs/how-to/preflight.md#{reason.lower()}"


def test_a_refusal_of_the_api_server_is_a_finding() -> None:
    findings = findings_of("bio", "run42", [refused("spec.source.path: remove the leading '/'")])
    assert not findings.passed
    assert "remove the leading '/'" in render(findings)
