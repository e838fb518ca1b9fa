"""From windows of a trace to answers: the one call for commands and for the sidecar."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairlead_advisor.features.series import Window
from fairlead_advisor.features.vector import extract, queue_range_ms
from fairlead_advisor.models.answer import AnswerLimits, WindowAnswer, judge
from fairlead_advisor.models.model import Model


@dataclass(frozen=True, slots=True)
class WindowClassifier:
    """A model together with the limits it came with."""

    model: Model

    def classify(self, windows: Sequence[Window]) -> list[WindowAnswer]:
        """One answer for each window. Raises TraceError if a window has too few answered requests."""
        if not windows:
            return []
        return answers_of(self.model, np.stack([extract(window) for window in windows]))


def answers_of(model: Model, features: npt.NDArray[np.float32]) -> list[WindowAnswer]:
    """What `model` answers for each row of `features`, of shape (n, len(NAMES)), with its own limits."""
    limits = AnswerLimits(model.metadata.minimum_confidence, model.metadata.maximum_novelty)
    probabilities, novelty = model.predict(features)
    rows = zip(probabilities, novelty, queue_range_ms(features), strict=True)
    return [judge(row.tolist(), float(far), float(queue_ms), limits) for row, far, queue_ms in rows]
