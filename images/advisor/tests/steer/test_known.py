"""What an earlier transfer knew of the path: read strictly, and used only while it is still that path."""

import json
from typing import Any

import pytest

from fairlead_advisor.decide.model import PathMeasurement
from fairlead_advisor.errors import UsageError
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.steer.known import LONGEST_TEXT, KnownPath, parse_known_path, still_holds, without_own_queue

PROBABILITIES = {name: 0.9 if name == "B1-C0" else 0.02 for name in CLASSES}
BACKGROUND: dict[str, Any] = {
    "probabilities": PROBABILITIES,
    "any_bbr": 0.94,
    "confidence": 0.94,
    "abstained": False,
    "model": "background-1.0.0 (sha256:0123456789ab)",
    "measured_at": "2026-01-01T00:00:00Z",
}
WHOLE: dict[str, Any] = {"version": 1, "rtt_minimum_seconds": 0.06, "background": BACKGROUND}


def test_reads_what_the_operator_writes() -> None:
    known = parse_known_path(json.dumps(WHOLE))
    assert known.rtt_minimum_s == 0.06
    assert known.background is not None
    assert known.background.likeliest == ("B1-C0", 0.9)
    assert known.background.measured_at is not None
    assert known.background.measured_at.isoformat() == "2026-01-01T00:00:00+00:00"
    assert [known.beside_own, parse_known_path(json.dumps(WHOLE | {"beside_own": True})).beside_own] == [False, True]


def test_a_path_of_which_only_the_rtt_is_known_has_no_background() -> None:
    assert parse_known_path('{"version":1,"rtt_minimum_seconds":null,"background":null}') == KnownPath(None, None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not JSON"),
        ("[]", "version must be 1"),
        (json.dumps(WHOLE | {"version": 2}), "version must be 1"),
        (json.dumps(WHOLE | {"rtt_minimum_seconds": "60ms"}), "rtt_minimum_seconds must be a number"),
        (json.dumps(WHOLE | {"rtt_minimum_seconds": 0}), "between 0 and 60"),
        (json.dumps(WHOLE | {"rtt_minimum_seconds": float("nan")}), "between 0 and 60"),
        (json.dumps(WHOLE | {"background": "B1-C0"}), "background must be an object"),
        (json.dumps(WHOLE | {"beside_own": "yes"}), "beside_own must be true or false"),
        (json.dumps(WHOLE | {"beside_own": None}), "beside_own must be true or false"),
        (json.dumps(WHOLE | {"background": BACKGROUND | {"probabilities": None}}), "background.probabilities"),
        (json.dumps(WHOLE | {"background": BACKGROUND | {"probabilities": {"B1-C0": 1}}}), "the classes are"),
        (json.dumps(WHOLE | {"background": BACKGROUND | {"any_bbr": 7}}), "any_bbr is 7"),
        (json.dumps(WHOLE | {"background": BACKGROUND | {"confidence": True}}), "confidence must be a number"),
        (json.dumps(WHOLE | {"background": BACKGROUND | {"abstained": "no"}}), "background.abstained"),
        (json.dumps(WHOLE | {"background": BACKGROUND | {"model": None}}), "background.model"),
        (json.dumps(WHOLE | {"background": BACKGROUND | {"measured_at": "2026-01-01T00:00:00"}}), "background.measured_at"),
        (json.dumps(WHOLE | {"background": BACKGROUND | {"measured_at": None}}), "background.measured_at"),
        ("[" * LONGEST_TEXT, "is not JSON"),
        (" " * (LONGEST_TEXT + 1), "at most"),
    ],
)
def test_anything_else_is_refused_with_the_field(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_known_path(text)


@pytest.mark.parametrize(
    ("known_s", "seen_s", "holds"),
    [
        (0.06, 0.06, True),
        (0.06, 0.08, True),
        (0.06, 0.12, False),
        (0.06, 0.03, False),
        (0.0005, 0.002, True),
        (None, 0.06, True),
        (0.06, None, False),
        (None, None, False),
    ],
)
def test_the_path_is_the_one_that_was_known_while_its_least_rtt_is_near(known_s: float | None, seen_s: float | None, holds: bool) -> None:
    assert still_holds(KnownPath(known_s, None), PathMeasurement(seen_s, seen_s, 0.0, 20)) is holds


@pytest.mark.parametrize(
    ("known", "least_s"),
    [
        (KnownPath(0.06, None, beside_own=True), 0.06),
        (KnownPath(0.2, None, beside_own=True), 0.12),
        (KnownPath(None, None, beside_own=True), 0.12),
        (KnownPath(0.06, None), 0.12),
    ],
    ids=["known", "known to be longer", "not known", "alone"],
)
def test_the_least_rtt_under_our_own_queue_is_the_known_one(known: KnownPath, least_s: float) -> None:
    assert without_own_queue(known, PathMeasurement(0.13, 0.12, 0.0, 20)).rtt_minimum_s == least_s


@pytest.mark.parametrize(
    ("seen_s", "holds"),
    [(0.06, True), (0.12, True), (0.6, True), (0.03, False), (None, False)],
    ids=["same", "full", "fuller", "less", "none"],
)
def test_beside_our_own_transfers_a_higher_rtt_is_their_queue_and_no_other_path(seen_s: float | None, holds: bool) -> None:
    assert still_holds(KnownPath(0.06, None, beside_own=True), PathMeasurement(seen_s, seen_s, 0.0, 20)) is holds
