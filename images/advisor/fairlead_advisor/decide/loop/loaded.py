"""When to classify the path while data flow, and what follows from the answers."""

import math
from dataclasses import dataclass, replace

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.monitor import loaded_answers

# A classifier that hangs or fails must not keep the loop from its other work.
_AFTER_A_FAILURE_S = 60.0


@dataclass(frozen=True, slots=True)
class LoadedClassification:
    """The answers so far, and from when on windows of `window_s` and `shortest_s` are classified.

    Of a change that has just been detected the shortest window has the least of what was before.
    """

    answers: loaded_answers.LoadedAnswers
    window_s: float
    shortest_s: float
    next_s: float
    denies_from_s: float


def begin(windows_s: tuple[float, ...], now_s: float, congestion_control: str) -> LoadedClassification:
    """At the start, for a classifier of windows of `windows_s`."""
    window_s = max((seconds for seconds in windows_s if seconds <= loaded_answers.WINDOW_S), default=math.inf)
    shortest_s = min(windows_s, default=math.inf)
    return _from(LoadedClassification(loaded_answers.LoadedAnswers(congestion_control), window_s, shortest_s, 0.0, 0.0), now_s)


def begin_anew(state: LoadedClassification, now_s: float, congestion_control: str) -> LoadedClassification:
    """From now on the own streams have another transport; BBR that was seen beside the same congestion control can still disappear."""
    if congestion_control == state.answers.congestion_control:
        return resume(state, now_s)
    return _from(replace(state, answers=loaded_answers.LoadedAnswers(congestion_control)), now_s)


def resume(state: LoadedClassification, now_s: float) -> LoadedClassification:
    """From now on data flow again, as before."""
    return _from(replace(state, answers=loaded_answers.interrupted(state.answers)), now_s)


def _from(state: LoadedClassification, now_s: float) -> LoadedClassification:
    opens_s = now_s + loaded_answers.SETTLE_S + loaded_answers.UNANSWERED_S
    return replace(state, next_s=opens_s + state.window_s, denies_from_s=opens_s + state.shortest_s)


def due(state: LoadedClassification, now_s: float, streams: int) -> tuple[LoadedClassification, bool]:
    """Whether to classify a window of `window_s` now, beside so many own `streams`."""
    if streams > loaded_answers.MOST_STREAMS:
        state = resume(state, now_s)
    if now_s < state.next_s:
        return state, False
    return replace(state, next_s=now_s + loaded_answers.PERIOD_S), True


def answered(state: LoadedClassification, now_s: float, answer: Background | None, *, failed: bool) -> LoadedClassification:
    """Takes the answer of a periodic window; None if there is none, and `failed` if the classifier is to blame."""
    state = _after(state, now_s, failed=failed)
    answers = loaded_answers.interrupted(state.answers) if answer is None else loaded_answers.add_answer(state.answers, answer)
    return replace(state, answers=answers)


def may_deny(state: LoadedClassification, now_s: float, streams: int) -> bool:
    """Whether a window of `shortest_s` can contradict a change now."""
    return now_s >= state.denies_from_s and streams <= loaded_answers.MOST_STREAMS


def denied(
    state: LoadedClassification, now_s: float, streams: int, answer: Background | None, *, failed: bool
) -> tuple[LoadedClassification, bool]:
    """Whether the answer of that window contradicts a change that would alter the choice."""
    state = _after(state, now_s, failed=failed)
    return state, answer is not None and loaded_answers.contradicts_change(state.answers.congestion_control, streams, answer)


def contradiction(state: LoadedClassification, known: Background | None) -> str:
    """What the answers contradict of the `known` background, in words; empty if nothing."""
    return loaded_answers.contradiction(state.answers, known)


def _after(state: LoadedClassification, now_s: float, *, failed: bool) -> LoadedClassification:
    if not failed:
        return state
    until_s = now_s + _AFTER_A_FAILURE_S
    return replace(state, next_s=max(state.next_s, until_s), denies_from_s=max(state.denies_from_s, until_s))
