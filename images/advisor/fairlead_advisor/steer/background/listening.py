"""Asks the classifier what it makes of the path while data flow; costs a millisecond or two, and no data wait."""

import logging
import math

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.looking import hearing
from fairlead_advisor.errors import AdvisorError, TraceError
from fairlead_advisor.steer.background.survey import answer_within
from fairlead_advisor.steer.effects import Classifier, PathMonitor

# A classifier that hangs or fails must not keep the watch from its other work.
_AFTER_A_FAILURE_S = 60.0

_log = logging.getLogger(__name__)


class Listener:
    """Of one transfer whose streams have `congestion_control` in force."""

    def __init__(self, classifier: Classifier, monitor: PathMonitor, now_s: float, congestion_control: str) -> None:
        self._classifier = classifier
        self._monitor = monitor
        self._window_s = max((seconds for seconds in classifier.windows_s if seconds <= hearing.WINDOW_S), default=math.inf)
        # Of a change that has just been seen, the shortest has the least of what was before.
        self._shortest_s = min(classifier.windows_s, default=math.inf)
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
        opens_s = now_s + hearing.SETTLE_S + hearing.UNANSWERED_S
        self._next_s, self._denies_from_s = opens_s + self._window_s, opens_s + self._shortest_s

    async def listen(self, now_s: float, streams: int, known: Background | None) -> str:
        """What is heard beside so many own `streams` against the `known` answer, in words; empty if nothing."""
        if streams > hearing.MOST_STREAMS:
            self.resume(now_s)
        if now_s >= self._next_s:
            self._next_s = now_s + hearing.PERIOD_S
            answer = await self._ask(now_s, self._window_s)
            self._hearing = hearing.interrupted(self._hearing) if answer is None else hearing.hear(self._hearing, answer)
        return hearing.contradiction(self._hearing, known)

    async def denies(self, now_s: float, streams: int) -> bool:
        """Whether what is heard now speaks against a change that would alter the choice."""
        if now_s < self._denies_from_s or streams > hearing.MOST_STREAMS:
            return False
        answer = await self._ask(now_s, self._shortest_s)
        return answer is not None and hearing.denies(self._hearing.congestion_control, streams, answer)

    async def _ask(self, now_s: float, window_s: float) -> Background | None:
        try:
            return await answer_within(self._classifier, self._monitor.recent(window_s + hearing.UNANSWERED_S), window_s)
        except TraceError:
            # Too few of the latest requests were answered: the next window may be whole again.
            return None
        except AdvisorError as error:
            _log.info("nothing can be heard beside the data: %s", error)
            self._next_s = max(self._next_s, now_s + _AFTER_A_FAILURE_S)
            self._denies_from_s = max(self._denies_from_s, now_s + _AFTER_A_FAILURE_S)
            return None
