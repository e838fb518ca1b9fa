"""The sidecar's classifier: loads a model if there is one to be had, and keeps what it does off the event loop."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead_advisor.decide.background import Background
from fairlead_advisor.errors import AdvisorError, ClassifierAnswerError, TraceError
from fairlead_advisor.features.series import GRID_HZ
from fairlead_advisor.models.answer import Abstention
from fairlead_advisor.probe.coverage import window_is_covered
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.steer.effects import BackgroundClassifier

if TYPE_CHECKING:
    from fairlead_advisor.models.model import Model

MODEL_RATE_HZ = GRID_HZ
"""More would add nothing to the features, and cost the path more."""

NONE = Path("none")
_COVERED_RATIO = 0.95

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedClassifier:
    """A classifier, or why there is none."""

    classifier: BackgroundClassifier | None
    why_not: str = ""


def load_classifier(path: Path | None) -> LoadedClassifier:
    """The classifier of the model in `path`, or of the newest installed one. Never fails: a transfer goes on without."""
    if path == NONE:
        return LoadedClassifier(None, "--model none")
    try:
        # The runtime and what the features need are some 60 MB resident: only with a model.
        from fairlead_advisor.models.location import newest_installed  # noqa: PLC0415

        file = newest_installed() if path is None else path
        from fairlead_advisor.models.store import find_model  # noqa: PLC0415

        model = find_model(file)
    except AdvisorError as error:
        return LoadedClassifier(None, str(error))
    except Exception as error:
        _log.exception("the model could not be loaded")
        return LoadedClassifier(None, f"the model could not be loaded: {error}")
    _log.info("classifying with %s", model.label)

    one = OneAtATime()

    async def classify(trace: Trace, window_s: float) -> Background:
        return await one.run(lambda: classify_window(model, trace, window_s))

    return LoadedClassifier(BackgroundClassifier(classify, model.metadata.window_s))


class OneAtATime:
    """Runs what may hang in a thread that nobody has to wait for, neither the event loop's other work nor the process's end."""

    def __init__(self) -> None:
        self._busy = False

    async def run(self, work: Callable[[], Background]) -> Background:
        """What `work` returns or raises; ClassifierAnswerError while an earlier one still runs."""
        if self._busy:
            raise ClassifierAnswerError("the classifier has not answered an earlier question yet")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Background] = loop.create_future()

        def settle(result: Background | None, error: BaseException | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            elif result is not None:
                answer.set_result(result)

        def target() -> None:
            result, failure = None, None
            try:
                result = work()
            except Exception as error:
                failure = error
            # Before the answer is handed over: whoever gets it may ask again while this thread still ends.
            self._busy = False
            # The loop is closed where nobody waits any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, result, failure)

        self._busy = True
        threading.Thread(target=target, name="classifier", daemon=True).start()
        return await answer


def classify_window(model: "Model", trace: Trace, window_s: float) -> Background:
    """The classification of the last `window_s` seconds of `trace` by `model`.

    Raises TraceError if they are not covered, ClassifierAnswerError whatever else goes wrong: the model is to blame.
    """
    from fairlead_advisor.features.series import last_window  # noqa: PLC0415 - loaded with the model
    from fairlead_advisor.models import classifier  # noqa: PLC0415

    if len(trace) < 2:
        raise TraceError(f"only {len(trace)} request(s) are known")
    window = last_window(trace, window_s)
    times_s = window.send_times_s
    if times_s[-1] - times_s[0] < _COVERED_RATIO * window_s or not window_is_covered(times_s.tolist(), window.rtts_ms.tolist()):
        raise TraceError(f"the last {window_s:g} s are not covered by answered requests")
    try:
        [found] = classifier.WindowClassifier(model).classify([window])
    except AdvisorError:
        raise
    except Exception as error:
        raise ClassifierAnswerError(f"{model.label} failed on a window of {window_s:g} s: {error}") from error
    return Background(
        probabilities=found.probabilities,
        any_bbr=found.any_bbr,
        confidence=found.confidence,
        abstained=found.abstention is not None,
        model=model.label,
        novel=found.abstention is Abstention.OUT_OF_DISTRIBUTION,
        sure_from=found.sure_from,
    )
