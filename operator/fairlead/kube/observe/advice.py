"""Reads the advisor's decision: served while the sidecar runs, and its termination message afterwards."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fairlead.core.reports import Advice, DecisionReport, OutcomeReport, PathReport, Rejected, SwitchReport
from fairlead.kube.observe.forms import (
    LONGEST_TERMINATION_MESSAGE,
    MOST_STREAMS,
    Control,
    Count,
    Moment,
    MoverMessage,
    Ratio,
    ReportError,
    RttSeconds,
    StreamCount,
    Version,
    Word,
    encoded,
    parse_message,
    printable,
)

_ClassName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_\-+ ]{0,63}$")]
_Words = Annotated[str, Field(max_length=4096)]
_SWITCH = "congestion_control"
SMALLEST_COEFFICIENT = 1e-15
"""In 1/bit: a path that needs a stream for every petabit per second. Less is no measurement."""
_MODEL = r"^[A-Za-z0-9][A-Za-z0-9_.\-+:() ]{0,127}$"


class _PathAnswer(MoverMessage):
    rtt_seconds: RttSeconds | None = None
    rtt_minimum_seconds: RttSeconds | None = None
    loss_ratio: Ratio | None = None
    whole: bool | None = None


class _BackgroundAnswer(MoverMessage):
    class_: Annotated[_ClassName, Field(alias="class")]
    probability: Ratio
    abstained: bool = False
    measured_at: Moment | None = None


class _RejectedAnswer(MoverMessage):
    congestion_control: Control
    why_not: _Words = ""


class _ChoiceAnswer(MoverMessage):
    protocol: Word
    congestion_control: Control
    streams: StreamCount
    abstained: bool
    reason: Word
    message: _Words = ""
    decided_at: Moment
    background: _BackgroundAnswer | None = None
    confidence: Ratio | None = None
    model: Annotated[str, Field(pattern=_MODEL)] | None = None
    probabilities: Annotated[dict[_ClassName, Ratio], Field(max_length=16)] | None = None
    any_bbr: Ratio | None = None
    rejected: Annotated[tuple[_RejectedAnswer, ...], Field(max_length=16)] = ()


class _ChangeAnswer(MoverMessage):
    what: Annotated[str, Field(max_length=64)]
    at: Moment
    from_: Annotated[Control | Count | None, Field(alias="from")] = None
    to: Control | Count | None = None
    why: _Words = ""


class _OutcomeAnswer(MoverMessage):
    congestion_control: Control
    streams: Annotated[int, Field(ge=1, le=MOST_STREAMS)]
    stream_coefficient: Annotated[float, Field(ge=SMALLEST_COEFFICIENT, lt=1, allow_inf_nan=False)] | None = None
    receive_window_limited_ratio: Ratio | None = None
    source_limited_ratio: Ratio | None = None
    cap_limited_ratio: Ratio | None = None


class DecisionAnswer(MoverMessage):
    """The form of the message (docs/contracts.md, "Advisor")."""

    version: Version
    path: _PathAnswer
    decision: _ChoiceAnswer
    changes: Annotated[tuple[_ChangeAnswer, ...], Field(max_length=64)] = ()
    outcome: _OutcomeAnswer | None = None


def parse_advice(message: str) -> Advice | None:
    """The advice in a termination message; None unless it is well formed."""
    try:
        return read_advice(parse_message(DecisionAnswer, encoded(message), LONGEST_TERMINATION_MESSAGE))
    except ReportError:
        return None


def read_advice(answer: DecisionAnswer) -> Advice:
    """The message in the form that the decisions use."""
    path, choice, outcome = answer.path, answer.decision, answer.outcome
    return Advice(
        path=PathReport(path.rtt_seconds, path.rtt_minimum_seconds, path.loss_ratio, whole=path.whole),
        decision=DecisionReport(
            protocol=choice.protocol,
            congestion_control=choice.congestion_control,
            streams=choice.streams,
            abstained=choice.abstained,
            reason=choice.reason,
            message=printable(choice.message),
            decided_at=choice.decided_at,
            background=choice.background.class_ if choice.background else None,
            background_probability=choice.background.probability if choice.background else None,
            confidence=choice.confidence,
            model=choice.model,
            probabilities=choice.probabilities,
            any_bbr=choice.any_bbr,
            background_abstained=choice.background is not None and choice.background.abstained,
            recalled=choice.background is not None and choice.background.measured_at is not None,
            rejected=tuple(Rejected(other.congestion_control, printable(other.why_not)) for other in choice.rejected),
            switches=tuple(
                SwitchReport(change.at, str(change.from_), str(change.to), printable(change.why))
                for change in answer.changes
                if change.what == _SWITCH
            ),
        ),
        outcome=None if outcome is None else _outcome(outcome),
    )


def _outcome(answer: _OutcomeAnswer) -> OutcomeReport:
    return OutcomeReport(
        congestion_control=answer.congestion_control,
        streams=answer.streams,
        stream_coefficient=answer.stream_coefficient,
        receive_window_limited_ratio=answer.receive_window_limited_ratio or 0.0,
        source_limited_ratio=answer.source_limited_ratio or 0.0,
        cap_limited_ratio=answer.cap_limited_ratio or 0.0,
    )
