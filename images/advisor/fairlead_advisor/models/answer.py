"""The classes of background traffic, and the answer for one window from a model's numbers: a pure function."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

CLASSES: Final = ("B0-C0", "B0-C1", "B1-C0", "B1-C1", "B1-B1", "C1-C1")
"""The six kinds of background traffic of OPS [Anvari 2021, figure 10b]: how many BBR and CUBIC flows."""
BBR_CLASSES: Final = frozenset({"B1-C0", "B1-C1", "B1-B1"})
HAS_BBR: Final = tuple(name in BBR_CLASSES for name in CLASSES)

LOWEST_SHARED_QUEUE_MS: Final = 1.6
"""What the RTT varies by, from its 1st to its 95th percentile, where the probe waits behind others' packets.

Behind FQ-CoDel it is mostly less whatever is there, in a drop-tail queue with others' packets mostly more.
"""
_SURE_WITHOUT_QUEUE = 0.98


class Abstention(StrEnum):
    """Why no decision should rest on an answer; part of the contract of `classify`."""

    LOW_CONFIDENCE = "LowConfidence"
    NO_SHARED_QUEUE = "NoSharedQueue"
    OUT_OF_DISTRIBUTION = "OutOfDistribution"


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """The confidence below which, and the novelty above which, an answer is not to be relied on."""

    minimum_confidence: float
    maximum_novelty: float


@dataclass(frozen=True, slots=True)
class WindowAnswer:
    """The most probable class and the probabilities of all, of any BBR flow among them, and whether to rely on it.

    `confidence` is the probability that the answer to *is there BBR?* is right, 0.5 to 1: it is the question that the choice of a
    congestion control rests on. `novelty` is 1 at the limit of what the model was trained on.
    """

    class_name: str
    probabilities: dict[str, float]
    any_bbr: float
    confidence: float
    sure_from: float
    novelty: float
    shares_queue: bool
    abstention: Abstention | None


def judge(probabilities: Sequence[float], novelty: float, queue_ms: float, limits: AnswerLimits) -> WindowAnswer:
    """The answer for one window from its calibrated probabilities, in the order of CLASSES, its novelty, and how its queue varies.

    Without a shared queue only an answer that is all but certain is relied on: what is left is noise of the hosts and the link.
    """
    shares_queue = not queue_ms < LOWEST_SHARED_QUEUE_MS
    sure_from = limits.minimum_confidence if shares_queue else max(limits.minimum_confidence, _SURE_WITHOUT_QUEUE)
    any_bbr = min(1.0, sum(probability for probability, bbr in zip(probabilities, HAS_BBR, strict=True) if bbr))
    confidence = max(any_bbr, 1 - any_bbr)
    abstention = None
    # A path unlike any seen makes every probability worthless, so this reason comes first.
    if not novelty <= limits.maximum_novelty:
        abstention = Abstention.OUT_OF_DISTRIBUTION
    elif not confidence >= limits.minimum_confidence:
        abstention = Abstention.LOW_CONFIDENCE
    elif not confidence >= sure_from:
        abstention = Abstention.NO_SHARED_QUEUE
    best = max(range(len(CLASSES)), key=lambda index: probabilities[index])
    return WindowAnswer(
        class_name=CLASSES[best],
        probabilities=dict(zip(CLASSES, (float(probability) for probability in probabilities), strict=True)),
        any_bbr=any_bbr,
        confidence=confidence,
        sure_from=sure_from,
        novelty=novelty / limits.maximum_novelty if limits.maximum_novelty > 0 else novelty,
        shares_queue=shares_queue,
        abstention=abstention,
    )
