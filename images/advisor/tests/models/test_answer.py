import math

import pytest

from fairlead_advisor.models.answer import LOWEST_SHARED_QUEUE_MS, Abstention, AnswerLimits, judge

LIMITS = AnswerLimits(minimum_confidence=0.8, maximum_novelty=2.0)
SHARED, APART = LOWEST_SHARED_QUEUE_MS, LOWEST_SHARED_QUEUE_MS - 0.1


@pytest.mark.parametrize(
    ("probabilities", "novelty", "class_name", "any_bbr", "confidence", "abstention"),
    [
        pytest.param((0.9, 0.1, 0, 0, 0, 0), 1.0, "B0-C0", 0.0, 1.0, None, id="idle"),
        pytest.param((0, 0, 0.4, 0.3, 0.3, 0), 1.0, "B1-C0", 1.0, 1.0, None, id="which BBR is unsure, that it is BBR is not"),
        pytest.param((0, 0.4, 0.2, 0.2, 0.1, 0.1), 1.0, "B0-C1", 0.5, 0.5, Abstention.LOW_CONFIDENCE, id="class and any BBR may differ"),
        pytest.param((0.05, 0.13, 0.2, 0.2, 0.4, 0.02), 1.0, "B1-B1", 0.8, 0.8, None, id="at the limit of confidence"),
        pytest.param((1, 0, 0, 0, 0, 0), 2.0, "B0-C0", 0.0, 1.0, None, id="at the limit of novelty"),
        pytest.param((1, 0, 0, 0, 0, 0), 2.1, "B0-C0", 0.0, 1.0, Abstention.OUT_OF_DISTRIBUTION, id="novel"),
        pytest.param((0.5, 0, 0.5, 0, 0, 0), 9.0, "B0-C0", 0.5, 0.5, Abstention.OUT_OF_DISTRIBUTION, id="novelty comes first"),
        pytest.param((1, 0, 0, 0, 0, 0), math.nan, "B0-C0", 0.0, 1.0, Abstention.OUT_OF_DISTRIBUTION, id="novelty not a number"),
    ],
)
def test_an_answer_says_what_may_be_relied_on(
    probabilities: tuple[float, ...], novelty: float, class_name: str, any_bbr: float, confidence: float, abstention: Abstention | None
) -> None:
    answer = judge(probabilities, novelty, SHARED, LIMITS)
    assert (answer.class_name, answer.abstention) == (class_name, abstention)
    assert answer.any_bbr == pytest.approx(any_bbr)
    assert answer.confidence == pytest.approx(confidence)


def test_novelty_is_told_in_units_of_its_limit() -> None:
    assert judge((1, 0, 0, 0, 0, 0), 1.0, SHARED, LIMITS).novelty == 0.5


@pytest.mark.parametrize(
    ("probabilities", "novelty", "queue_ms", "abstention"),
    [
        pytest.param((1, 0, 0, 0, 0, 0), 1.0, APART, None, id="nobody, and sure"),
        pytest.param((0, 0, 0.99, 0, 0.01, 0), 1.0, APART, None, id="BBR that keeps the queue short, and sure"),
        pytest.param((0.1, 0.87, 0.03, 0, 0, 0), 1.0, APART, Abstention.NO_SHARED_QUEUE, id="traffic, and not sure"),
        pytest.param((0.1, 0.87, 0.03, 0, 0, 0), 1.0, SHARED, None, id="traffic, and a queue"),
        pytest.param((0.1, 0.6, 0.3, 0, 0, 0), 1.0, APART, Abstention.LOW_CONFIDENCE, id="doubtful with any queue"),
        pytest.param((0.1, 0.87, 0.03, 0, 0, 0), 3.0, APART, Abstention.OUT_OF_DISTRIBUTION, id="novel"),
        pytest.param((0.1, 0.87, 0.03, 0, 0, 0), 1.0, math.nan, None, id="queue not a number"),
    ],
)
def test_without_a_shared_queue_only_what_is_all_but_certain_is_relied_on(
    probabilities: tuple[float, ...], novelty: float, queue_ms: float, abstention: Abstention | None
) -> None:
    answer = judge(probabilities, novelty, queue_ms, LIMITS)
    assert answer.abstention == abstention
    assert answer.shares_queue == (queue_ms != APART)
    assert answer.sure_from == (0.98 if queue_ms == APART else 0.8)
