from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import (
    Alternative,
    BufferLimits,
    Decision,
    DecisionReason,
    History,
    MeasuredGain,
    PathMeasurement,
    TransportLimits,
    TriedControl,
)
from fairlead_advisor.decide.rule import decide, instead
from fairlead_advisor.models.answer import CLASSES

MEASURED = PathMeasurement(rtt_s=0.06, rtt_minimum_s=0.0598, loss_ratio=0.005, samples=200)
SILENT = PathMeasurement(rtt_s=None, rtt_minimum_s=None, loss_ratio=1.0, samples=200)
UNTRIED = PathMeasurement(rtt_s=None, rtt_minimum_s=None, loss_ratio=None, samples=0)


@pytest.mark.parametrize(
    ("path", "limits", "congestion_control", "streams", "reason"),
    [
        pytest.param(MEASURED, TransportLimits(), "cubic", 4, DecisionReason.NO_MODEL, id="no model"),
        pytest.param(SILENT, TransportLimits(), "cubic", 4, DecisionReason.PROBE_FAILED, id="no echo"),
        pytest.param(UNTRIED, TransportLimits(), "cubic", 4, DecisionReason.PROBE_FAILED, id="no probe"),
        pytest.param(MEASURED, TransportLimits(1, 2), "cubic", 2, DecisionReason.NO_MODEL, id="fewer streams allowed"),
        pytest.param(MEASURED, TransportLimits(8, 16), "cubic", 8, DecisionReason.NO_MODEL, id="more streams demanded"),
        pytest.param(MEASURED, TransportLimits(1, 1), "cubic", 1, DecisionReason.NO_MODEL, id="one stream"),
        pytest.param(MEASURED, TransportLimits(congestion_control="bbr"), "bbr", 4, DecisionReason.USER_CHOICE, id="the user's choice"),
        pytest.param(
            SILENT, TransportLimits(congestion_control="bbr"), "bbr", 4, DecisionReason.USER_CHOICE, id="the user's choice without an echo"
        ),
        pytest.param(
            MEASURED, TransportLimits(congestion_control="cubic"), "cubic", 4, DecisionReason.USER_CHOICE, id="the user chooses the default"
        ),
        pytest.param(
            MEASURED, TransportLimits(available=frozenset({"reno", "bbr"})), "reno", 4, DecisionReason.NO_MODEL, id="no cubic in the kernel"
        ),
        pytest.param(
            MEASURED, TransportLimits(available=frozenset({"reno", "cubic"})), "cubic", 4, DecisionReason.NO_MODEL, id="cubic in the kernel"
        ),
        pytest.param(MEASURED, TransportLimits(available=frozenset()), "reno", 4, DecisionReason.NO_MODEL, id="every kernel has reno"),
    ],
)
def test_the_choice(path: PathMeasurement, limits: TransportLimits, congestion_control: str, streams: int, reason: DecisionReason) -> None:
    decision = decide(path, limits)
    assert (decision.protocol, decision.congestion_control, decision.streams) == ("TCP", congestion_control, streams)
    assert decision.reason is reason
    assert decision.abstained == (reason is not DecisionReason.USER_CHOICE)


@pytest.mark.parametrize(
    ("path", "limits", "message"),
    [
        (
            MEASURED,
            TransportLimits(),
            "The path has an RTT of 60.0 ms and lost 0.5% of 200 requests; cubic with 4 streams: "
            "no classifier tells the background traffic, so that the safe default stands",
        ),
        (
            SILENT,
            TransportLimits(1, 1),
            "The echo service answered none of 200 requests; cubic with 1 stream: "
            "nothing is known about the path, so that the safe default stands; the job sets the stream count",
        ),
        (UNTRIED, TransportLimits(congestion_control="bbr"), "The path could not be probed; bbr with 4 streams: the job asks for bbr"),
    ],
)
def test_the_message_tells_the_measurement_the_choice_and_the_ground(path: PathMeasurement, limits: TransportLimits, message: str) -> None:
    assert decide(path, limits).message == message


@given(st.integers(1, 256), st.integers(0, 255), st.none() | st.just("bbr"))
def test_the_streams_stay_within_the_limits(minimum: int, extra: int, chosen: str | None) -> None:
    assert minimum <= decide(MEASURED, TransportLimits(minimum, minimum + extra, chosen)).streams <= minimum + extra


def background(confidence: float = 0.9, abstained: bool = False, **probabilities: float) -> Background:
    """A classification by class names without their hyphens; what is left goes to B0-C0."""
    given = {name: probabilities.get(name.replace("-", ""), 0.0) for name in CLASSES}
    given["B0-C0"] += 1 - sum(given.values())
    any_bbr = given["B1-C0"] + given["B1-C1"] + given["B1-B1"]
    return Background(given, any_bbr, confidence, abstained, model="test-1")


EVEN = {"B0C1": 0.40, "B1C0": 0.20, "B1C1": 0.20, "B1B1": 0.10, "C1C1": 0.05}


@pytest.mark.parametrize(
    ("seen", "limits", "congestion_control", "reason"),
    [
        pytest.param(background(B1C0=1), TransportLimits(), "bbr", DecisionReason.CLASSIFIED, id="B1-C0"),
        pytest.param(background(B1C1=1), TransportLimits(), "bbr", DecisionReason.CLASSIFIED, id="B1-C1"),
        pytest.param(background(B1B1=1), TransportLimits(), "bbr", DecisionReason.CLASSIFIED, id="B1-B1"),
        pytest.param(background(B0C0=1), TransportLimits(), "cubic", DecisionReason.CLASSIFIED, id="B0-C0"),
        pytest.param(background(B0C1=1), TransportLimits(), "cubic", DecisionReason.CLASSIFIED, id="B0-C1"),
        pytest.param(background(C1C1=1), TransportLimits(), "cubic", DecisionReason.CLASSIFIED, id="C1-C1"),
        pytest.param(background(**EVEN), TransportLimits(), "bbr", DecisionReason.CLASSIFIED, id="the cost rule, equal weights"),
        pytest.param(
            background(**EVEN), TransportLimits(others_weight=2), "cubic", DecisionReason.CLASSIFIED, id="the cost rule, others count twice"
        ),
        pytest.param(background(B1C0=1, abstained=True), TransportLimits(), "cubic", DecisionReason.UNSURE, id="the classifier abstains"),
        pytest.param(background(B1C0=1, confidence=0.49), TransportLimits(), "cubic", DecisionReason.UNSURE, id="low confidence"),
        pytest.param(
            background(B1C0=1), TransportLimits(congestion_control="cubic"), "cubic", DecisionReason.USER_CHOICE, id="the user wants CUBIC"
        ),
        pytest.param(
            background(B0C1=1), TransportLimits(congestion_control="htcp"), "htcp", DecisionReason.USER_CHOICE, id="the user wants another"
        ),
        pytest.param(
            background(B1C0=1),
            TransportLimits(available=frozenset({"reno", "cubic"})),
            "cubic",
            DecisionReason.CLASSIFIED,
            id="no BBR offered",
        ),
        pytest.param(
            background(B1C0=1),
            TransportLimits(available=frozenset({"reno", "bbr"})),
            "bbr",
            DecisionReason.CLASSIFIED,
            id="no CUBIC, BBR due",
        ),
        pytest.param(
            background(B0C1=1),
            TransportLimits(available=frozenset({"reno", "bbr"})),
            "reno",
            DecisionReason.CLASSIFIED,
            id="no CUBIC, safe",
        ),
    ],
)
def test_the_choice_by_background(seen: Background, limits: TransportLimits, congestion_control: str, reason: DecisionReason) -> None:
    decision = decide(MEASURED, limits, seen)
    assert (decision.congestion_control, decision.reason) == (congestion_control, reason)
    assert decision.abstained == (reason is DecisionReason.UNSURE)


def test_without_a_path_no_classification_counts() -> None:
    assert decide(SILENT, TransportLimits(), background(B1C0=1)).reason is DecisionReason.PROBE_FAILED


def test_a_classified_decision_tells_what_was_seen_and_what_was_rejected() -> None:
    decision = decide(MEASURED, TransportLimits(), background(B1C0=0.9))
    assert "the background looks like B1-C0 (90%), with BBR, any BBR 90%: beside it cubic would get too little" in decision.message
    (rejected,) = decision.rejected
    assert rejected.congestion_control == "cubic"
    assert rejected.utility == pytest.approx(-0.9 * 0.4082)
    assert decision.utility == pytest.approx(-0.1 * 0.3914)
    assert rejected.why_not == "expected utility -0.367 against -0.039 of bbr"


def test_what_the_kernel_does_not_offer_is_told_as_rejected() -> None:
    decision = decide(MEASURED, TransportLimits(available=frozenset({"cubic"})), background(B1C0=1))
    assert "bbr would suit it better, but the kernel does not offer it" in decision.message
    assert [(other.congestion_control, other.why_not) for other in decision.rejected] == [("bbr", "the kernel does not offer it")]


def test_what_quic_does_not_offer_is_told_as_its_own_lack() -> None:
    limits = TransportLimits(available=frozenset({"cubic", "reno"}), protocol="QUIC")
    decision = decide(MEASURED, limits, background(B1C0=1))
    assert (decision.protocol, decision.congestion_control) == ("QUIC", "cubic")
    assert "bbr would suit it better, but QUIC does not offer it" in decision.message
    assert [(other.congestion_control, other.why_not) for other in decision.rejected] == [("bbr", "QUIC does not offer it")]


QUIET = PathMeasurement(rtt_s=0.0601, rtt_minimum_s=0.06, loss_ratio=0.0, samples=200)
BESIDE_CUBIC, BESIDE_BBR = TriedControl("bbr", beside_bbr=False), TriedControl("bbr", beside_bbr=True)


@pytest.mark.parametrize(
    ("seen", "history", "congestion_control"),
    [
        pytest.param(background(B0C0=1), History(loses_alone=True), "bbr", id="lossy and quiet, and nobody to harm"),
        pytest.param(background(B0C0=1), History(), "cubic", id="the same without loss"),
        pytest.param(background(B0C0=0.85, B0C1=0.15), History(loses_alone=True), "cubic", id="somebody may be there"),
        pytest.param(background(B0C1=1), History(loses_alone=True), "cubic", id="somebody is there now"),
        pytest.param(
            background(B0C0=1),
            History(loses_alone=True, measured={BESIDE_CUBIC: MeasuredGain(3, 0.6)}),
            "cubic",
            id="it was measured otherwise",
        ),
        pytest.param(background(B1C0=0.45), History(), "cubic", id="BBR is less likely than not"),
        pytest.param(
            background(B1C0=0.45), History(measured={BESIDE_CUBIC: MeasuredGain(3, 2.0)}), "bbr", id="own measurements speak for it"
        ),
        pytest.param(
            background(B0C1=1), History(measured={BESIDE_BBR: MeasuredGain(3, 4.7)}), "cubic", id="what it brought beside BBR is over"
        ),
    ],
)
def test_the_prior_is_worth_a_few_measurements(seen: Background, history: History, congestion_control: str) -> None:
    assert decide(QUIET, TransportLimits(), seen, history).congestion_control == congestion_control


@pytest.mark.parametrize(
    ("seen", "is_told"),
    [
        pytest.param(background(B0C0=1), True, id="nobody"),
        pytest.param(background(B0C0=0.7, B0C1=0.3), False, id="perhaps nobody"),
        pytest.param(background(B0C1=1), False, id="one CUBIC flow"),
        pytest.param(replace(background(B0C0=1), abstained=True), False, id="unsure"),
    ],
)
def test_who_sees_nobody_says_that_others_may_have_a_queue_of_their_own(seen: Background, is_told: bool) -> None:
    assert ("any BBR 0%, unless the link keeps flows apart: " in decide(QUIET, TransportLimits(), seen).message) is is_told


@pytest.mark.parametrize(
    ("seen", "limits", "streams"),
    [
        pytest.param(background(B0C0=1), TransportLimits(), 9, id="nobody is there"),
        pytest.param(background(B0C1=1), TransportLimits(), 1, id="others are there"),
        pytest.param(background(B0C1=1), TransportLimits(shares=4), 4, id="others are there, and four shares are allowed"),
        pytest.param(background(B0C1=1), TransportLimits(others_weight=0), 9, id="others need not be spared"),
        pytest.param(background(B0C1=1), TransportLimits(cap_bps=500e6), 1, id="a limit is no share"),
        pytest.param(background(B0C1=1), TransportLimits(cap_bps=500e6, allocated=True), 6, id="the cap is the share"),
        pytest.param(background(B0C1=1), TransportLimits(streams_minimum=6), 6, id="the job's least"),
        pytest.param(None, TransportLimits(), 9, id="nobody can tell"),
    ],
)
def test_what_was_learnt_of_streams_takes_no_more_shares_from_others(
    seen: Background | None, limits: TransportLimits, streams: int
) -> None:
    known = History(capacity_bps=728.4e6, stream_coefficient=6.5e-8)
    path = PathMeasurement(rtt_s=0.191, rtt_minimum_s=0.191, loss_ratio=0.0, samples=200)
    decision = decide(path, limits, seen, known)
    assert decision.streams == streams
    assert ("would fit the path by what was learnt on it, but others are there" in decision.message) is (
        seen is not None and streams in (1, 4, 6) and not limits.allocated
    )


@pytest.mark.parametrize(
    ("path", "limits", "rejected"),
    [
        pytest.param(MEASURED, TransportLimits(), [("bbr", "no classifier tells the background traffic")], id="no model"),
        pytest.param(SILENT, TransportLimits(), [("bbr", "nothing is known about the path")], id="no echo"),
        pytest.param(MEASURED, TransportLimits(congestion_control="bbr"), [("cubic", "the job asks for bbr")], id="the user's choice"),
    ],
)
def test_what_was_not_weighed_is_told_with_the_reason(
    path: PathMeasurement, limits: TransportLimits, rejected: list[tuple[str, str]]
) -> None:
    assert [(other.congestion_control, other.why_not) for other in decide(path, limits).rejected] == rejected


def test_a_known_path_gives_streams_and_buffers() -> None:
    known = History(capacity_bps=728.4e6, stream_coefficient=6.5e-8)
    path = PathMeasurement(rtt_s=0.191, rtt_minimum_s=0.191, loss_ratio=0.0, samples=200)
    decision: Decision = decide(path, TransportLimits(), None, known)
    assert decision.streams == 9
    assert decision.socket_buffer_needed_bytes == pytest.approx(2 * 728.4e6 / 8 * 0.191 / 9, abs=1)
    assert decision.socket_buffer_bytes is None, "nothing is known of the host"
    wide = decide(path, TransportLimits(1, 1, buffers=BufferLimits(4 * 2**20, 64 * 2**20)), None, known)
    assert wide.socket_buffer_bytes == wide.socket_buffer_needed_bytes == pytest.approx(2 * 728.4e6 / 8 * 0.191, abs=1)
    assert "33.2 MiB of send buffer a stream, as the kernel stops at 4.0 MiB by itself" in wide.message
    assert "9 fit 728 Mb/s at this RTT" in decision.message
    assert decide(path, TransportLimits(cap_bps=100e6), None, known).streams == 1
    assert decide(path, TransportLimits(streams_maximum=6), None, known).streams == 6


@given(
    st.lists(st.floats(0, 1), min_size=6, max_size=6).filter(lambda weights: sum(weights) > 0.01),
    st.floats(0, 1),
    st.booleans(),
    st.sets(st.sampled_from(["reno", "cubic", "bbr"])),
    st.none() | st.sampled_from(["cubic", "bbr"]),
)
def test_never_what_is_not_offered_and_always_what_the_user_says(
    weights: list[float], confidence: float, abstained: bool, offered: set[str], chosen: str | None
) -> None:
    probabilities = {name: weight / sum(weights) for name, weight in zip(CLASSES, weights, strict=True)}
    any_bbr = probabilities["B1-C0"] + probabilities["B1-C1"] + probabilities["B1-B1"]
    seen = Background(probabilities, any_bbr, confidence, abstained, "test-1")
    decision = decide(MEASURED, TransportLimits(congestion_control=chosen, available=frozenset(offered)), seen)
    # Every kernel has reno.
    assert decision.congestion_control == (chosen or decision.congestion_control)
    assert chosen is not None or decision.congestion_control in offered | {"reno"}


@pytest.mark.parametrize(("abstained", "congestion_control"), [(False, "bbr"), (True, "cubic")])
def test_what_an_earlier_transfer_saw_counts_as_ones_own_and_is_told_as_what_it_is(abstained: bool, congestion_control: str) -> None:
    probabilities = {name: 1.0 if name == "B1-C0" else 0.0 for name in CLASSES}
    own = Background(probabilities, 0.97, 0.97, abstained=abstained, model="m")
    recalled = replace(own, measured_at=datetime(2026, 1, 1, 12, tzinfo=UTC))
    first, later = decide(MEASURED, TransportLimits(), own), decide(MEASURED, TransportLimits(), recalled)
    assert later.reason is DecisionReason.KNOWN
    assert "looked like B1-C0 (100%), with BBR, any BBR 97% to an earlier transfer at 12:00:00Z" in later.message
    assert replace(later, reason=first.reason, message=first.message, background=own) == first
    assert later.congestion_control == congestion_control
    chosen = decide(MEASURED, TransportLimits(congestion_control="bbr"), recalled)
    assert chosen.reason is DecisionReason.USER_CHOICE


def test_where_something_else_stands_the_choice_is_what_was_rejected_and_each_keeps_its_own_worth() -> None:
    probabilities = {name: 1.0 if name == "B1-C0" else 0.0 for name in CLASSES}
    chosen = decide(MEASURED, TransportLimits(), Background(probabilities, 0.97, 0.97, abstained=False, model="m"))
    assert chosen.congestion_control == "bbr" and chosen.utility is not None
    stands = instead(chosen, "cubic", "it was worse")
    assert stands.rejected == (Alternative("bbr", chosen.utility, "it was worse"),)
    assert (stands.congestion_control, stands.utility) == ("cubic", chosen.rejected[0].utility)
    again = instead(stands, "bbr", "it is worse still")
    assert (again.congestion_control, again.utility) == ("bbr", chosen.utility)
    assert again.rejected == (Alternative("cubic", stands.utility, "it is worse still"),)
    assert instead(chosen, "bbr", "never told") == chosen
    assert instead(chosen, "reno", "none of the two").utility is None
