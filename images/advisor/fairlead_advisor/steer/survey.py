"""Samples an idle path until its background is classified, or the time for it is over: for the first probe and for paused probes."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import PathMeasurement
from fairlead_advisor.errors import AdvisorError, ClassifierAnswerError
from fairlead_advisor.probe.socket import ProbeResult
from fairlead_advisor.probe.summary import Summary
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.steer.effects import BackgroundClassifier, SidecarEffects
from fairlead_advisor.steer.mover import Peer

EARLY_CONFIDENCE = 0.95
"""A shorter window than the longest affordable one ends the survey from this confidence on."""

# For the replies to the last requests of a window: longer RTTs cost a little of the window's end.
_REPLIES_S = 0.25

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Survey:
    """What was sampled, and its classification: None without one, and then `failure` is the reason."""

    result: ProbeResult
    background: Background | None
    failure: str = ""


async def survey(effects: SidecarEffects, peer: Peer, budget_s: float) -> Survey:
    """Takes at most `budget_s` and the time for the last replies: the model's shortest window, and longer ones while in doubt.

    Raises AdvisorError if the path cannot be sampled at all.
    """
    classifier = effects.classifier
    if classifier is None:
        return Survey(await effects.probe(peer, budget_s, None), None, effects.no_classifier)
    windows_s = [seconds for seconds in sorted(classifier.windows_s) if seconds <= budget_s]
    if not windows_s:
        least_s = min(classifier.windows_s)
        why = f"the probe's {budget_s:g} s are too few for the classifier, which needs {least_s:g}: raise --seconds"
        return Survey(await effects.probe(peer, budget_s, None), None, why)
    *shorter_s, longest_s = windows_s
    found: list[Background] = []

    async def enough(so_far: Callable[[], Trace]) -> bool:
        waited_s = 0.0
        for seconds in shorter_s:
            await effects.sleep(seconds + _REPLIES_S - waited_s)
            waited_s = seconds + _REPLIES_S
            if not so_far().answered_rtts_ms():
                # As where UDP is blocked: more of it would say nothing, and the data wait.
                return True
            try:
                background = await answer_within(classifier, so_far(), seconds)
            except AdvisorError as error:
                _log.info("no answer from the first %g s: %s", seconds, error)
                continue
            if not background.abstained and background.confidence >= EARLY_CONFIDENCE:
                found.append(background)
                return True
        return False

    result = await effects.probe(peer, longest_s, enough if shorter_s else None)
    if found:
        return Survey(result, found[0])
    if not result.trace.answered_rtts_ms():
        return Survey(result, None, "the echo answered no request")
    try:
        return Survey(result, await answer_within(classifier, result.trace, longest_s))
    except AdvisorError as error:
        return Survey(result, None, f"the classifier failed: {error}")


async def answer_within(classifier: BackgroundClassifier, trace: Trace, window_s: float) -> Background:
    """The classifier's, or ClassifierAnswerError: one that hangs must stop neither the transfer's start nor the loop."""
    try:
        async with asyncio.timeout(classifier.answers_within_s):
            return await classifier.classify(trace, window_s)
    except TimeoutError:
        raise ClassifierAnswerError(f"no answer within {classifier.answers_within_s:g} s") from None


def measurement(summary: Summary) -> PathMeasurement:
    """What a decision needs of a probe's summary, in seconds."""
    return PathMeasurement(
        rtt_s=None if summary.rtt_median_ms is None else summary.rtt_median_ms / 1000,
        rtt_minimum_s=None if summary.rtt_minimum_ms is None else summary.rtt_minimum_ms / 1000,
        loss_ratio=summary.loss_ratio,
        samples=summary.samples,
    )
