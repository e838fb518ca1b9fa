"""A classification of the other traffic on a path."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from fairlead_advisor.errors import ClassifierAnswerError
from fairlead_advisor.models.answer import BBR_CLASSES, CLASSES

NOBODY = "B0-C0"
"""The class of a path without any background."""

_TOLERANCE = 0.01
_ALONE = 0.9
_EVEN = 0.5
# A model that rules a class out altogether must not outvote every other window.
_LEAST = 1e-4


@dataclass(frozen=True, slots=True)
class Background:
    """One classification: probabilities of the six classes, of any BBR, and of the answer being right.

    `abstained`: the classifier is not sure of its answer, `novel` if the path is unlike what it was trained on; `sure_from` is the
    confidence from which it does. `measured_at`: when an earlier transfer measured it; None for what this one measured itself. Raises
    ClassifierAnswerError for what is no distribution.
    """

    probabilities: Mapping[str, float]
    any_bbr: float
    confidence: float
    abstained: bool
    model: str
    novel: bool = False
    sure_from: float = 0.5
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
    def has_bbr(self) -> bool:
        """Whether BBR is likelier there than not."""
        return self.any_bbr >= _EVEN

    @property
    def is_nobody(self) -> bool:
        """Whether it is all but certain that nobody is there."""
        return not self.abstained and self.probabilities[NOBODY] >= _ALONE

    @property
    def likeliest(self) -> tuple[str, float]:
        """The class with the highest probability, and that probability; ties go to the order of CLASSES."""
        name = max(CLASSES, key=lambda candidate: self.probabilities[candidate])
        return name, self.probabilities[name]


def pool(answers: Sequence[Background]) -> Background:
    """One answer from several windows with the same background: the normalised geometric mean of their probabilities.

    Windows of one path share what is odd about it, so that two of them never make the answer surer than the surer one. An answer from
    anything novel abstains. Raises ValueError without any answer.
    """
    if not answers:
        raise ValueError("there is nothing to pool")
    if len(answers) == 1:
        return answers[0]
    means = {name: math.exp(math.fsum(_logarithm(answer, name) for answer in answers) / len(answers)) for name in CLASSES}
    total = math.fsum(means.values())
    probabilities = {name: mean / total for name, mean in means.items()}
    any_bbr = min(1.0, math.fsum(probabilities[name] for name in CLASSES if name in BBR_CLASSES))
    confidence = max(any_bbr, 1 - any_bbr)
    newest = answers[-1]
    novel = any(answer.novel for answer in answers)
    return replace(
        newest,
        probabilities=probabilities,
        any_bbr=any_bbr,
        confidence=confidence,
        novel=novel,
        abstained=novel or confidence < newest.sure_from,
    )


def _logarithm(answer: Background, name: str) -> float:
    return math.log(max(answer.probabilities[name], _LEAST))
