"""What the checks before the data come to, from the movers' reports and verdicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from job_builders import make_failure, make_progress, make_verdict, receiver, sender

from fairlead.api.reasons import ConditionType, MoverReason
from fairlead.api.shared.fields import Condition
from fairlead.api.transferjob import TransferJobStatus
from fairlead.core.lifecycle.outcome import Judgement
from fairlead.core.lifecycle.preflight import PAGE, checks_of, judge_preflight
from fairlead.core.observed import MoverPod
from fairlead.core.reports import PreflightCheck, Reports

FINE = PreflightCheck("Interface", "Passed", None, "data0 is up")
SLOW_CLOCK = PreflightCheck("Clocks", "Warning", "ClocksDiffer", "20 s behind")
FULL = PreflightCheck("Space", "Failed", "DestinationFull", "9 bytes are needed")
SMALL = PreflightCheck("PathMtu", "Failed", "PathMtuTooSmall", "packets of more than 1400 bytes do not get there")
PASSED = make_verdict(checks=(FINE,))


def running(*warnings: PreflightCheck) -> Reports:
    """A sender that runs and whose checks have passed."""
    return Reports(sender=replace(make_progress(1), preflight_warnings=warnings))


def judged(
    reports: Reports, of_sender: MoverPod | None = None, of_receiver: MoverPod | None = None, before: TransferJobStatus | None = None
) -> Judgement | None:
    return judge_preflight(before or TransferJobStatus(), reports, of_sender, of_receiver).get(ConditionType.PREFLIGHT_PASSED)


@pytest.mark.parametrize(
    ("reports", "of_sender", "of_receiver", "status", "reason", "said"),
    [
        (running(), sender(), receiver(), "True", "ChecksPassed", "both ends"),
        (running(SLOW_CLOCK), sender(), receiver(), "True", "PassedWithWarnings", "source: ClocksDiffer: 20 s behind"),
        (Reports(), None, receiver(verdict=PASSED), "True", "ChecksPassed", "both ends"),
        (
            Reports(),
            sender(verdict=make_verdict(checks=(FINE, SLOW_CLOCK))),
            receiver(verdict=PASSED),
            "True",
            "PassedWithWarnings",
            "#clocksdiffer",
        ),
        (
            Reports(),
            sender(verdict=make_failure("PeerFailed", retry=False)),
            receiver(verdict=replace(make_failure("DestinationFull", retry=False), checks=(FINE, FULL))),
            "False",
            "DestinationFull",
            f"destination: DestinationFull: 9 bytes are needed ({PAGE}#destinationfull)",
        ),
        (
            running(SLOW_CLOCK),
            sender(verdict=replace(make_failure("PathMtuTooSmall", retry=False), checks=(SLOW_CLOCK, SMALL))),
            receiver(),
            "False",
            "PathMtuTooSmall",
            "more than 1400 bytes",
        ),
    ],
)
def test_the_condition_follows_from_what_the_movers_say(
    reports: Reports, of_sender: MoverPod | None, of_receiver: MoverPod | None, status: str, reason: str, said: str
) -> None:
    judgement = judged(reports, of_sender, of_receiver)
    assert judgement is not None
    assert (judgement.status, judgement.reason) == (status, reason)
    assert said in judgement.message


def test_nothing_is_said_before_the_checks_are_done_and_a_later_failure_is_none_of_them() -> None:
    assert judged(Reports(), sender(), receiver()) is None
    assert judged(Reports(sender=make_progress(0, stage="Listing")), sender(), receiver()) is None
    lost = replace(make_failure("PeerLost", retry=True), checks=(FINE,))
    assert judged(Reports(), sender(verdict=lost), receiver(verdict=lost)) is None


def test_what_was_warned_of_while_the_movers_ran_stays_where_their_verdicts_tell_no_checks() -> None:
    warned = Condition.model_validate(
        {
            "type": "PreflightPassed",
            "status": "True",
            "reason": "PassedWithWarnings",
            "message": "",
            "lastTransitionTime": "2026-01-02T03:00:00Z",
        }
    )
    before = TransferJobStatus(conditions=(warned,))
    assert judged(Reports(), None, receiver(verdict=make_verdict()), before) is None


def test_a_job_that_only_checks_shows_every_check_of_both_ends_the_sources_first() -> None:
    found = checks_of(sender(verdict=make_verdict(checks=(FINE, SLOW_CLOCK))), receiver(verdict=make_verdict(checks=(FULL,))))
    shown = [(each.end, each.check, each.result, each.reason) for each in found["preflight"]]
    assert shown == [
        ("source", "Interface", "Passed", None),
        ("source", "Clocks", "Warning", "ClocksDiffer"),
        ("destination", "Space", "Failed", "DestinationFull"),
    ]
    assert checks_of(sender(), receiver()) == {}


LATER = {
    MoverReason.VERIFIED,
    MoverReason.CLEANED,
    MoverReason.PREFLIGHT_PASSED,
    MoverReason.SOURCE_CHANGED,
    MoverReason.PEER_LOST,
    MoverReason.PEER_FAILED,
    MoverReason.CHECKSUM_MISMATCH,
    MoverReason.PROTOCOL_UNAVAILABLE,
    MoverReason.STALLED,
    MoverReason.SUPERSEDED,
    MoverReason.RESEND_BUDGET_EXCEEDED,
    MoverReason.STOPPED_BY_SIGNAL,
    MoverReason.PROTOCOL_ERROR,
    MoverReason.INTERNAL_ERROR,
}
"""Reasons that come after the checks, or that no check has."""


@pytest.mark.parametrize("reason", sorted(set(MoverReason) - LATER))
def test_every_reason_of_a_check_has_its_place_on_the_page_that_conditions_name(reason: str) -> None:
    root = Path(__file__).parents[4]
    assert f"\n### {reason}\n" in (root / PAGE).read_text(encoding="utf-8")
    provoked = (root / "images/mover/tests/preflight.rs").read_text(encoding="utf-8")
    assert f'("{reason}", |bench|' in provoked, "the mover's tests provoke it"
