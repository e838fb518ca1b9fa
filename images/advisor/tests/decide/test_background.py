import math

import pytest

from fairlead_advisor.decide.background import Background, pool
from fairlead_advisor.decide.utility import expected_utility
from fairlead_advisor.errors import ClassifierAnswerError
from fairlead_advisor.models.answer import BBR_CLASSES, CLASSES

UNIFORM = dict.fromkeys(CLASSES, 1 / 6)


@pytest.mark.parametrize(
    ("probabilities", "any_bbr", "complaint"),
    [
        pytest.param({}, 0.5, "the classes are", id="nothing"),
        pytest.param({"B9-C9": 1.0}, 0.5, "the classes are", id="another class"),
        pytest.param(UNIFORM | {"B0-C0": math.nan}, 0.5, "B0-C0 is nan", id="not a number"),
        pytest.param(UNIFORM | {"B0-C0": -0.5}, 0.5, "B0-C0 is -0.5", id="negative"),
        pytest.param(UNIFORM | {"B0-C0": 1.0}, 0.5, "add up to 1.833", id="no distribution"),
        pytest.param(UNIFORM, 1.5, "any_bbr is 1.5", id="any BBR above 1"),
    ],
)
def test_what_is_no_classification_is_refused(probabilities: dict[str, float], any_bbr: float, complaint: str) -> None:
    with pytest.raises(ClassifierAnswerError, match=complaint):
        Background(probabilities, any_bbr, 0.9, False, "test-1")


def test_the_likeliest_class() -> None:
    assert Background(UNIFORM, 0.5, 0.9, False, "test-1").likeliest == ("B0-C0", pytest.approx(1 / 6))


@pytest.mark.parametrize(("others_weight", "threshold"), [(1, 0.4895), (2, 0.6573)])
def test_the_threshold_of_the_cost_rule(others_weight: float, threshold: float) -> None:
    for any_bbr, better in ((threshold - 5e-5, "cubic"), (threshold + 5e-5, "bbr")):
        seen = Background(UNIFORM, any_bbr, 0.9, False, "test-1")
        assert max(("cubic", "bbr"), key=lambda name: expected_utility(name, seen, others_weight)) == better


def told(name: str, probability: float, *, novel: bool = False) -> Background:
    rest = (1 - probability) / (len(CLASSES) - 1)
    probabilities = {other: probability if other == name else rest for other in CLASSES}
    any_bbr = sum(value for other, value in probabilities.items() if other in BBR_CLASSES)
    confidence = max(any_bbr, 1 - any_bbr)
    return Background(probabilities, any_bbr, confidence, novel or confidence < 0.8, "test-1", novel=novel, sure_from=0.8)


@pytest.mark.parametrize(
    ("answers", "likeliest", "abstained"),
    [
        pytest.param([told("B1-C0", 0.9)], "B1-C0", False, id="one stands as it is"),
        pytest.param([told("B1-C0", 0.5), told("B1-C0", 0.97)], "B1-C0", False, id="a surer second one"),
        pytest.param([told("B1-C0", 0.5), told("B1-C0", 0.5)], "B1-C0", True, id="two unsure ones are not sure"),
        pytest.param([told("B1-C0", 0.9), told("B0-C1", 0.9)], "B0-C1", True, id="two that disagree"),
        pytest.param([told("B1-C0", 0.99), told("B1-C0", 0.99, novel=True)], "B1-C0", True, id="one saw something novel"),
    ],
)
def test_windows_of_one_scene_are_pooled(answers: list[Background], likeliest: str, abstained: bool) -> None:
    pooled = pool(answers)
    assert pooled.abstained is abstained
    assert sum(pooled.probabilities.values()) == pytest.approx(1)
    assert pooled.probabilities[likeliest] == max(pooled.probabilities.values())
    assert pooled.confidence <= max(answer.confidence for answer in answers) + 1e-9


def test_a_model_that_rules_a_class_out_does_not_outvote_the_rest() -> None:
    certain = Background({name: float(name == "B0-C0") for name in CLASSES}, 0.0, 1.0, False, "test-1")
    assert pool([certain, told("B1-C0", 0.99), told("B1-C0", 0.99)]).any_bbr > 0.2
