"""The first decision, before the data: published, applied, taken anew when the mover refuses it. The form is the loop's.

`SetTransport` is followed by `TransportApplied`, `TransportRefused` or `TransportFailed`, `AskOffered` by `Offered`. The opening is over
when the last action is `Publish`.
"""

from dataclasses import dataclass, replace

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.loop.messages import (
    Publish,
    SetTransport,
    TransportAnswer,
    TransportApplied,
    TransportRefused,
)
from fairlead_advisor.decide.model import Decision, History, PathMeasurement, TransportLimits
from fairlead_advisor.decide.rule import decide
from fairlead_advisor.decide.transfer import TransportSettings

_MAY_BE_LEFT = frozenset({"streams", "socket_buffer_bytes"})


@dataclass(frozen=True, slots=True)
class AskOffered:
    """Request: which congestion controls the kernel offers to the mover."""


@dataclass(frozen=True, slots=True)
class Offered:
    """The congestion controls that the kernel offers; none if that is not known."""

    congestion_controls: frozenset[str]


OpeningEvent = TransportAnswer | Offered
OpeningAction = Publish | SetTransport | AskOffered
OpeningStep = tuple["Opening", tuple[OpeningAction, ...]]


@dataclass(frozen=True, slots=True)
class Opening:
    """A decision on its way into force: the congestion controls `refused`, the settings `left` as the mover has them, and the `story`
    of what went wrong."""

    path: PathMeasurement
    background: Background | None
    limits: TransportLimits
    history: History
    decision: Decision
    story: str
    refused: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()


def begin(path: PathMeasurement, background: Background | None, limits: TransportLimits, history: History, story: str = "") -> OpeningStep:
    """Decides; `story` is what went wrong while the path was probed."""
    decision = decide(path, limits, background, history)
    state = Opening(path, background, limits, history, decision, story)
    return state, (Publish(path, decision, applied=False), _set_transport(state))


def handle(state: Opening, event: OpeningEvent) -> OpeningStep:
    """The next state, and the actions in their order.

    A refused congestion control falls back to one that the kernel offers; any other refused setting is left as the mover has it.
    """
    match event:
        case TransportApplied(in_force):
            return state, (_in_force(state, in_force),)
        case TransportRefused(field, reason, message):
            state = replace(state, story=f"{state.story}; the mover refused {field} ({reason}: {message})")
            if field in _MAY_BE_LEFT - state.left:
                state = replace(state, left=state.left | {field})
                return state, (_set_transport(state),)
            return replace(state, refused=state.refused | {state.decision.congestion_control}), (AskOffered(),)
        case Offered(congestion_controls):
            # Without the user's choice, which is among the refused.
            limits = replace(state.limits, congestion_control=None, available=congestion_controls - state.refused)
            state = replace(state, decision=decide(state.path, limits, state.background, state.history))
            if state.decision.congestion_control in state.refused:
                return state, (_not_applied(state),)
            return state, (_set_transport(state),)
        case _:
            state = replace(state, story=f"{state.story}; the mover's answer was not understood ({event.message})")
            return state, (_not_applied(state),)


def _set_transport(state: Opening) -> SetTransport:
    host, asked = state.limits.buffers, state.decision.socket_buffer_bytes
    stands = host is None or asked == host.set_bytes or "socket_buffer_bytes" in state.left
    streams = None if "streams" in state.left else state.decision.streams
    return SetTransport(TransportSettings(state.decision.congestion_control, streams, None if stands else asked))


def _not_applied(state: Opening) -> Publish:
    return Publish(state.path, replace(state.decision, message=state.decision.message + state.story), applied=False)


def _in_force(state: Opening, in_force: TransportSettings) -> Publish:
    decision, story = state.decision, state.story
    control = in_force.congestion_control or decision.congestion_control
    streams = decision.streams if in_force.streams is None else in_force.streams
    if (control, streams) != (decision.congestion_control, decision.streams):
        story += f"; the mover has {control} with {streams} stream(s) in force"
    applied = replace(
        decision,
        congestion_control=control,
        streams=streams,
        socket_buffer_bytes=in_force.socket_buffer_bytes,
        message=decision.message + story,
    )
    return Publish(state.path, applied, applied=True)
