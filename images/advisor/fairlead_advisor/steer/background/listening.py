"""Asks the classifier every few seconds what it makes of the path while data flow; costs some milliseconds, and no data wait."""

import logging
import math

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.looking import hearing
from fairlead_advisor.errors import AdvisorError
from fairlead_advisor.steer.background.survey import answer_within
from fairlead_advisor.steer.effects import Classifier, PathMonitor

# A classifier that hangs or fails must not keep the watch from its other work.
_AFTER_A_FAILURE_S = 60.0
# The newest requests are still under way.
_UNANSWERED_S = 1.0

_log = logging.getLogger(__name__)


class Listener:
    """Of one transfer whose streams have `congestion_control` in force."""

    def __init__(self, classifier: Classifier, monitor: PathMonitor, now_s: float, congestion_control: str) -> None:
        self._classifier = classifier
        self._monitor = monitor
        self._window_s = max((seconds for seconds in classifier.windows_s if seconds <= hearing.WINDOW_S), default=None)
        self.begin(now_s, congestion_control)

    def begin(self, now_s: float, congestion_control: str) -> None:
        """From now on the own streams have another transport."""
        self._hearing = hearing.Hearing(congestion_control)
        self._wait(now_s)

    def resume(self, now_s: float) -> None:
        """From now on data flow again, as before."""
        self._hearing = hearing.interrupted(self._hearing)
        self._wait(now_s)

    def _wait(self, now_s: float) -> None:
        self._next_s = math.inf if self._window_s is None else now_s + hearing.SETTLE_S + self._window_s + _UNANSWERED_S

    async def listen(self, now_s: float, streams: int, known: Background | None) -> str:
        """What is heard beside so many own `streams` against the `known` answer, in words; empty if nothing."""
        if streams > hearing.MOST_STREAMS:
            self.resume(now_s)
        if self._window_s is not None and now_s >= self._next_s:
            self._next_s = now_s + hearing.PERIOD_S
            trace = self._monitor.recent(self._window_s + _UNANSWERED_S)
            try:
                self._hearing = hearing.hear(self._hearing, await answer_within(self._classifier, trace, self._window_s))
            except AdvisorError as error:
                _log.info("nothing can be heard beside the data: %s", error)
                self._next_s = now_s + _AFTER_A_FAILURE_S
        return hearing.contradiction(self._hearing, known)
