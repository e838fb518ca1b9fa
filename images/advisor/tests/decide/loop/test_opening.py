"""The first decision on its way into force, by what the mover answers."""

import pytest

from fairlead_advisor.decide.loop import opening
from fairlead_advisor.decide.loop.messages import Publish, SetTransport, TransportApplied, TransportFailed, TransportRefused
from fairlead_advisor.decide.loop.opening import AskOffered, Offered, Opening, OpeningAction, OpeningEvent
from fairlead_advisor.decide.model import BufferLimits, History, PathMeasurement, TransportLimits
from fairlead_advisor.decide.transfer import TransportSettings
from tests.support.model_mover import seen

PATH = PathMeasurement(rtt_s=0.06, rtt_minimum_s=0.06, loss_ratio=0.0, samples=200)
MIB = 2**20


def begun(limits: TransportLimits = TransportLimits(), story: str = "") -> tuple[Opening, tuple[OpeningAction, ...]]:  # noqa: B008 - frozen
    return opening.begin(PATH, seen("B1-C0"), limits, History(capacity_bps=1e9), story)


def after(*events: OpeningEvent, limits: TransportLimits = TransportLimits()) -> tuple[OpeningAction, ...]:  # noqa: B008 - frozen
    state, actions = begun(limits)
    for event in events:
        state, actions = opening.handle(state, event)
    return actions


def test_a_decision_is_published_before_it_is_applied_and_again_when_it_is_in_force() -> None:
    _, (publication, request) = begun()
    assert isinstance(publication, Publish) and not publication.applied
    assert request == SetTransport(TransportSettings("bbr", 1))
    (in_force,) = after(TransportApplied(TransportSettings("bbr", 1)))
    assert isinstance(in_force, Publish) and in_force.applied and "mover" not in in_force.decision.message


def test_what_else_is_in_force_is_published_and_said() -> None:
    (in_force,) = after(TransportApplied(TransportSettings("cubic", 2)))
    assert isinstance(in_force, Publish)
    assert (in_force.decision.congestion_control, in_force.decision.streams) == ("cubic", 2)
    assert in_force.decision.message.endswith("; the mover has cubic with 2 stream(s) in force")


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("streams", TransportSettings("bbr", None, 31_250_000 // 2)),
        ("socket_buffer_bytes", TransportSettings("bbr", 4, None)),
    ],
)
def test_a_refused_setting_beside_the_congestion_control_is_left_as_it_is(field: str, wanted: TransportSettings) -> None:
    limits = TransportLimits(buffers=BufferLimits(MIB, 64 * MIB))
    (request,) = after(TransportRefused(field, "OutOfRange", "no"), limits=limits)
    assert isinstance(request, SetTransport)
    assert (request.wanted.streams is None, request.wanted.socket_buffer_bytes is None) == (
        wanted.streams is None,
        wanted.socket_buffer_bytes is None,
    )


def test_a_refused_congestion_control_falls_back_to_one_that_is_offered() -> None:
    refused = TransportRefused("congestion_control", "Unavailable", "not here")
    assert after(refused) == (AskOffered(),)
    (request,) = after(refused, Offered(frozenset({"bbr", "cubic"})))
    assert request == SetTransport(TransportSettings("cubic", 1))
    (in_force,) = after(refused, Offered(frozenset({"bbr", "cubic"})), TransportApplied(TransportSettings("cubic", 1)))
    assert isinstance(in_force, Publish)
    assert "; the mover refused congestion_control (Unavailable: not here)" in in_force.decision.message


def test_when_everything_is_refused_nothing_is_in_force() -> None:
    refused = TransportRefused("congestion_control", "Unavailable", "not here")
    (publication,) = after(refused, Offered(frozenset()), refused, Offered(frozenset()))
    assert isinstance(publication, Publish) and not publication.applied


def test_an_answer_that_is_not_understood_ends_the_attempt() -> None:
    (publication,) = after(TransportFailed("streams is not an integer", retryable=False))
    assert isinstance(publication, Publish) and not publication.applied
    assert publication.decision.message.endswith("; the mover's answer was not understood (streams is not an integer)")
