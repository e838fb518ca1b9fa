import math

import pytest

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.utility import bbr_threshold, expected_utility
from fairlead_advisor.errors import ClassifierAnswerError
from fairlead_advisor.models.classes import CLASSES

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
    assert bbr_threshold(others_weight) == pytest.approx(threshold, abs=5e-5)
    for any_bbr, better in ((threshold - 0.001, "cubic"), (threshold + 0.001, "bbr")):
        seen = Background(UNIFORM, any_bbr, 0.9, False, "test-1")
        assert max(("cubic", "bbr"), key=lambda name: expected_utility(name, seen, others_weight)) == better
