"""From windows of a trace to answers: the one call for commands and for the sidecar."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairlead_advisor.features.series import Window
from fairlead_advisor.features.vector import extract
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
        metadata = self.model.metadata
        limits = AnswerLimits(metadata.minimum_confidence, metadata.maximum_novelty)
        probabilities, novelty = self.model.predict(np.stack([extract(window) for window in windows]))
        return [judge(row.tolist(), float(score), limits) for row, score in zip(probabilities, novelty, strict=True)]
