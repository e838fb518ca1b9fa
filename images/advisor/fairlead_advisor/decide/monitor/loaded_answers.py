"""Whether loaded classification (while our own data flow) contradicts the classification of the path without them.

Its answer is no ground for a choice then, but own streams do not hide what matters: with CUBIC they resemble one more CUBIC flow, which
leaves the probability of BBR as it is; with BBR they resemble the BBR of one source, so that BBR of both is a sign of somebody else's.
"""

import math
from dataclasses import dataclass, replace

from fairlead_advisor.decide.background import Background

WINDOW_S = 10.0
"""The longest that an answer is taken from."""
PERIOD_S = 5.0
"""Between two answers: successive windows overlap."""
MOST_STREAMS = 4
"""Own streams. Sixteen with CUBIC fill a path of tens of Mb/s with a noise that resembles BBR, four do not (measured on three)."""
SETTLE_S = 3.0
"""After data began or resumed, or the transport was changed: no window begins before."""
UNANSWERED_S = 1.0
"""The newest requests are still under way."""

# Measured with own CUBIC on six paths, 360 windows a side: at most 0.35 without BBR, from the second window on at least 0.84 beside it.
_SOMEBODYS = 0.9
_SURE_WINDOWS = 2
# In windows of 5 s: 99 % of those without BBR are below, 1 % beside it, and mostly none from four seconds after it has come.
_ABSENT = 0.3
# With own BBR: 0.00 to 0.12 over four windows beside nobody and CUBIC, from 0.2 beside BBR. Where CUBIC drowns the other BBR it is low all
# along: only BBR that has been detected can disappear.
_NOBODYS = 0.1
_LASTING_WINDOWS = 4
_PRESENT = 0.5


@dataclass(frozen=True, slots=True)
class LoadedAnswers:
    """The probabilities of somebody else's BBR in the latest windows beside own streams with `congestion_control`.

    `seen_bbr`: whether there once was some, since that is in force.
    """

    congestion_control: str
    levels: tuple[float, ...] = ()
    seen_bbr: bool = False


def add_answer(answers: LoadedAnswers, answer: Background) -> LoadedAnswers:
    """Takes the answer of one window in; one of which the classifier is not sure ends the succession."""
    if answer.abstained:
        return interrupted(answers)
    levels = (*answers.levels, _level(answers.congestion_control, answer))[-_LASTING_WINDOWS:]
    return replace(answers, levels=levels, seen_bbr=answers.seen_bbr or _mean(levels, _LASTING_WINDOWS) >= _PRESENT)


def interrupted(answers: LoadedAnswers) -> LoadedAnswers:
    """After windows without an answer, or without own data: those before do not count, but that BBR could be detected does."""
    return replace(answers, levels=())


def contradiction(answers: LoadedAnswers, known: Background | None) -> str:
    """What contradicts the `known` answer, in words; empty if nothing does."""
    bbr_is_known = known is not None and not known.abstained and known.has_bbr
    if answers.congestion_control != "bbr":
        level = _mean(answers.levels, _SURE_WINDOWS)
        return f"BBR is heard beside the data ({level:.0%})" if level >= _SOMEBODYS and not bbr_is_known else ""
    level = _mean(answers.levels, _LASTING_WINDOWS)
    silent = answers.seen_bbr and level <= _NOBODYS and bbr_is_known
    return f"no other BBR is heard beside the data any more ({level:.0%})" if silent else ""


def hears_nobody(answers: LoadedAnswers) -> bool:
    """Whether own BBR has heard no other since it is in force. That proves nothing, as CUBIC may drown it."""
    return answers.congestion_control == "bbr" and not answers.seen_bbr and _mean(answers.levels, _LASTING_WINDOWS) <= _NOBODYS


def contradicts_change(congestion_control: str, streams: int, answer: Background) -> bool:
    """Whether a window that ends now contradicts what alone would alter the choice: BBR that came, or with own BBR that left."""
    if answer.abstained:
        return False
    level = _level(congestion_control, answer)
    # Several own streams with BBR may resemble the BBR of both sources.
    return level >= _PRESENT and streams == 1 if congestion_control == "bbr" else level <= _ABSENT


def _level(congestion_control: str, answer: Background) -> float:
    return answer.probabilities["B1-B1"] if congestion_control == "bbr" else answer.any_bbr


def _mean(levels: tuple[float, ...], count: int) -> float:
    """Of the last `count`; NaN while there are fewer, which compares as neither high nor low."""
    return math.fsum(levels[-count:]) / count if len(levels) >= count else math.nan
