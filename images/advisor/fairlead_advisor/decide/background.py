"""What a classifier says of the other traffic on a path."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from fairlead_advisor.errors import ClassifierAnswerError
from fairlead_advisor.models.classes import CLASSES

_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class Background:
    """One classification: probabilities of the six classes, of any BBR, and of the answer being right.

    `abstained`: the classifier does not stand by its answer. `measured_at`: when an earlier transfer measured it; None for what this
    one saw itself. Raises ClassifierAnswerError for what is no distribution.
    """

    probabilities: Mapping[str, float]
    any_bbr: float
    confidence: float
    abstained: bool
    model: str
    measured_at: datetime | None = None

    def __post_init__(self) -> None:
        if set(self.probabilities) != set(CLASSES):
            raise ClassifierAnswerError(f"the classes are {sorted(self.probabilities)}, they must be {sorted(CLASSES)}")
        named = {**self.probabilities, "any_bbr": self.any_bbr, "confidence": self.confidence}
        for name, value in named.items():
            if not (math.isfinite(value) and -_TOLERANCE <= value <= 1 + _TOLERANCE):
                raise ClassifierAnswerError(f"the probability of {name} is {value}, it must be from 0 to 1")
        total = math.fsum(self.probabilities.values())
        if abs(total - 1) > _TOLERANCE:
            raise ClassifierAnswerError(f"the probabilities of the classes add up to {total:.3f}, they must add up to 1")

    @property
    def likeliest(self) -> tuple[str, float]:
        """The class with the highest probability, and that probability; ties go to the order of CLASSES."""
        name = max(CLASSES, key=lambda candidate: self.probabilities[candidate])
        return name, self.probabilities[name]
