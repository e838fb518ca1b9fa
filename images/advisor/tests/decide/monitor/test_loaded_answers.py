from collections.abc import Sequence

import pytest

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.monitor.loaded_answers import (
    LoadedAnswers,
    add_answer,
    contradiction,
    contradicts_change,
    hears_nobody,
    interrupted,
)
from fairlead_advisor.models.answer import CLASSES
from tests.support.model_mover import seen

WITH_BBR, WITHOUT = seen("B1-C0"), seen("B0-C1")


def answer(any_bbr: float, both: float = 0.0, *, abstained: bool = False) -> Background:
    probabilities = dict.fromkeys(CLASSES, 0.0) | {"B1-B1": both, "B1-C1": any_bbr - both, "B0-C1": 1 - any_bbr}
    return Background(probabilities, any_bbr, max(any_bbr, 1 - any_bbr), abstained, "test-1")


def told(control: str, answers: Sequence[Background], known: Background | None) -> str:
    state = LoadedAnswers(control)
    for one in answers:
        state = add_answer(state, one)
    return contradiction(state, known)


BBR, MAYBE, NONE = answer(0.97), answer(0.7), answer(0.02)


@pytest.mark.parametrize(
    ("answers", "known", "story"),
    [
        pytest.param([BBR, BBR], WITHOUT, "BBR is heard beside the data (97%)", id="twice"),
        pytest.param([NONE, NONE, BBR, BBR], WITHOUT, "BBR is heard beside the data (97%)", id="since the last two"),
        pytest.param([BBR, BBR], None, "BBR is heard beside the data (97%)", id="nothing is known"),
        pytest.param([BBR, BBR], seen("B1-C0", abstained=True), "BBR is heard beside the data (97%)", id="it was not sure"),
        pytest.param([BBR], WITHOUT, "", id="once"),
        pytest.param([BBR, MAYBE], WITHOUT, "", id="not surely"),
        pytest.param([BBR, BBR, NONE], WITHOUT, "", id="no longer"),
        pytest.param([BBR, answer(0.02, abstained=True), BBR], WITHOUT, "", id="one abstains"),
        pytest.param([BBR, BBR], WITH_BBR, "", id="it is what is known"),
        pytest.param([NONE] * 6, WITH_BBR, "", id="no BBR with own CUBIC: the choice is right already"),
    ],
)
def test_beside_own_cubic_bbr_is_somebody_elses(answers: Sequence[Background], known: Background | None, story: str) -> None:
    assert told("cubic", answers, known) == story


BOTH, OWN = answer(0.99, 0.8), answer(0.99, 0.03)


@pytest.mark.parametrize(
    ("answers", "known", "story"),
    [
        pytest.param([BOTH] * 4 + [OWN] * 4, WITH_BBR, "no other BBR is heard beside the data any more (3%)", id="it fell silent"),
        pytest.param([BOTH] * 4 + [OWN] * 3, WITH_BBR, "", id="not for long enough"),
        pytest.param([OWN] * 20, WITH_BBR, "", id="it never could be heard"),
        pytest.param([BOTH] * 2 + [OWN] * 8, WITH_BBR, "", id="it could hardly be heard"),
        pytest.param([BOTH] * 4 + [OWN] * 4, WITHOUT, "", id="it is what is known"),
        pytest.param([BOTH] * 8, WITHOUT, "", id="own BBR alone may look like that"),
    ],
)
def test_beside_own_bbr_it_is_bbr_of_both_sources_that_tells(answers: Sequence[Background], known: Background | None, story: str) -> None:
    assert told("bbr", answers, known) == story


@pytest.mark.parametrize(
    ("control", "answers", "nobody"),
    [
        pytest.param("bbr", [OWN] * 4, True, id="never"),
        pytest.param("bbr", [BOTH] * 2 + [OWN] * 8, True, id="hardly"),
        pytest.param("bbr", [OWN] * 3, False, id="not for long"),
        pytest.param("bbr", [BOTH] * 4 + [OWN] * 4, False, id="it fell silent, which says more"),
        pytest.param("bbr", [BOTH] * 8, False, id="it is heard"),
        pytest.param("cubic", [NONE] * 8, False, id="own CUBIC"),
    ],
)
def test_who_never_was_heard_is_told_from_who_fell_silent(control: str, answers: Sequence[Background], nobody: bool) -> None:
    state = LoadedAnswers(control)
    for one in answers:
        state = add_answer(state, one)
    assert hears_nobody(state) is nobody


def test_a_look_begins_the_windows_anew_but_what_could_be_heard_still_can() -> None:
    state = LoadedAnswers("bbr")
    for one in [BOTH] * 4 + [OWN] * 3:
        state = add_answer(state, one)
    state = interrupted(state)
    told_after = []
    for _ in range(4):
        state = add_answer(state, OWN)
        told_after.append(bool(contradiction(state, WITH_BBR)))
    assert told_after == [False, False, False, True]


@pytest.mark.parametrize(
    ("control", "streams", "heard", "denied"),
    [
        ("cubic", 4, NONE, True),
        ("cubic", 1, answer(0.5), False),
        ("cubic", 1, answer(0.02, abstained=True), False),
        ("bbr", 1, BOTH, True),
        ("bbr", 1, OWN, False),
        ("bbr", 2, BOTH, False),
    ],
)
def test_what_is_heard_now_speaks_against_a_change_that_would_alter_the_choice(
    control: str, streams: int, heard: Background, denied: bool
) -> None:
    assert contradicts_change(control, streams, heard) is denied
