import numpy as np
import pytest

from fairlead_advisor.assess.metrics import Scores, any_bbr_at_coverage, calibration_error, confusion, macro_f1, report
from fairlead_advisor.models.answer import CLASSES


def scores(answers: list[tuple[int, int, float]], relied_on: list[bool] | None = None) -> Scores:
    """(true class, answered class, its probability); the rest goes to the class after it."""
    probabilities = np.zeros((len(answers), len(CLASSES)))
    for row, (_, answered, probability) in enumerate(answers):
        probabilities[row, answered] = probability
        probabilities[row, (answered + 1) % len(CLASSES)] += 1 - probability
    truth = np.array([true for true, _, _ in answers], dtype=np.intp)
    return Scores(probabilities, truth, np.array([True] * len(answers) if relied_on is None else relied_on, dtype=np.bool_))


def test_perfect_answers_score_one() -> None:
    told = report(scores([(number, number, 1.0) for number in range(6)]))
    assert [told[name] for name in ("accuracy", "macro_f1", "any_bbr_accuracy", "coverage", "accuracy_when_confident")] == [1] * 5
    assert told["expected_calibration_error"] == 0


def test_macro_f1_is_the_mean_over_the_classes_that_occur() -> None:
    # B0-C0: 2 of 3 found, nothing else taken for it: F1 0.8. B0-C1: 1 of 1 found, one more taken for it: F1 2/3. Others do not occur.
    found = confusion(scores([(0, 0, 1.0), (0, 0, 1.0), (0, 1, 1.0), (1, 1, 1.0)]))
    assert found[0].tolist() == [2, 1, 0, 0, 0, 0]
    assert macro_f1(found) == pytest.approx((0.8 + 2 / 3) / 2)


def test_confusing_kinds_of_bbr_leaves_any_bbr_right() -> None:
    told = report(scores([(2, 3, 0.9), (3, 4, 0.9), (4, 2, 0.9)]))
    assert (told["accuracy"], told["any_bbr_accuracy"]) == (0, 1)


def test_figures_of_the_confident_leave_out_the_others() -> None:
    told = report(scores([(0, 0, 0.9), (0, 3, 0.9), (1, 3, 0.9), (5, 5, 0.9)], [True, False, False, True]))
    assert (told["coverage"], told["accuracy"], told["accuracy_when_confident"]) == (0.5, 0.5, 1.0)


def test_without_any_confident_answer_its_figures_are_null() -> None:
    told = report(scores([(0, 0, 0.9)], [False]))
    assert (told["coverage"], told["accuracy_when_confident"], told["any_bbr_accuracy_when_confident"]) == (0, None, None)
    assert told["per_class"]["B1-B1"] == {"precision": None, "recall": None, "f1": None, "support": 0}


def test_coverage_keeps_the_surest() -> None:
    found = scores([(0, 0, 1.0), (0, 0, 1.0), (0, 0, 1.0), (0, 0, 1.0), (0, 3, 0.6)])
    assert any_bbr_at_coverage(found, 0.8) == 1.0
    assert any_bbr_at_coverage(found, 1.0) == 0.8


@pytest.mark.parametrize(
    ("confidence", "right", "error"),
    [
        ([], [], None),
        ([0.95, 0.95], [1, 1], 0.05),
        ([0.95, 0.95], [1, 0], 0.45),
        ([1.0, 0.55], [1, 0], (0.0 + 0.55) / 2),
        # Within one bin the errors of single answers cancel.
        ([0.75, 0.75, 0.75, 0.75], [1, 1, 1, 0], 0.0),
    ],
)
def test_calibration_error(confidence: list[float], right: list[int], error: float | None) -> None:
    found = calibration_error(np.array(confidence), np.array(right, dtype=np.bool_))
    assert found == (None if error is None else pytest.approx(error))
