"""What an advisor saw on a path, without the other jobs of ours that flowed there: strangers' traffic alone is worth handing on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from fairlead.api.transferjob.spec import GIVING_WAY
from fairlead.core.paths.model import KnownBackground

_SOURCES = {"B0-C0": (0, 0), "B0-C1": (0, 1), "B1-C0": (1, 0), "B1-C1": (1, 1), "B1-B1": (2, 0), "C1-C1": (0, 2)}
"""Sources with BBR and with CUBIC that each class stands for."""
_CLASS_OF = {sources: name for name, sources in _SOURCES.items()}
_BBR = "bbr"
_NO_TRACE = GIVING_WAY
"""What gives way fills no queue that a class could be told by."""
_MOST_SOURCES = 2


def strangers(seen: KnownBackground) -> KnownBackground:
    """`seen` less `own`. Whatever yields to loss counts as CUBIC does.

    A class has two sources at most. Beside two jobs of ours with BBR nobody can tell whether a stranger has it too: then it abstains.
    """
    own = tuple(control for control in seen.own if control not in _NO_TRACE)
    if not own or not seen.probabilities.keys() <= _SOURCES.keys():
        return seen
    bbr = sum(control == _BBR for control in own)
    cubic = len(own) - bbr
    left = dict.fromkeys(seen.probabilities, 0.0)
    for name, probability in seen.probabilities.items():
        name_left = _less(name, bbr, cubic)
        left[name_left] = left.get(name_left, 0.0) + probability
    any_bbr = min(1.0, math.fsum(probability for name, probability in left.items() if _SOURCES[name][0]))
    likeliest = max(left, key=lambda name: (left[name], name))
    return replace(
        seen,
        class_name=likeliest,
        probability=left[likeliest],
        probabilities=left,
        any_bbr=any_bbr,
        confidence=max(any_bbr, 1 - any_bbr),
        abstained=seen.abstained or bbr > 1,
        own=(),
    )


def beside_any(seen: KnownBackground) -> Iterator[KnownBackground]:
    """What is left of `seen` beside each number of jobs of ours that makes a difference."""
    for bbr in range(_MOST_SOURCES + 1):
        for cubic in range(_MOST_SOURCES + 1):
            yield strangers(replace(seen, own=(_BBR,) * bbr + ("cubic",) * cubic))


def _less(name: str, bbr: int, cubic: int) -> str:
    sources: Mapping[str, tuple[int, int]] = _SOURCES
    return _CLASS_OF[max(0, sources[name][0] - bbr), max(0, sources[name][1] - cubic)]
