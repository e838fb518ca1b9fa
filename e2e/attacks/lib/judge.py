"""What an attack concludes: held, or got through. Everything else that may happen to it is an error."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

Verdict = Literal["held", "got through", "error"]
OBSERVED_CHARS = 300
_PLACES = (
    (re.compile(r"/[^\s`\"']*?/build/bin/"), "build/bin/"),
    (re.compile(re.escape(tempfile.gettempdir()) + r"/pytest-of-[^\s`\"']*?/attack_[^/\s]*/"), "/…/"),
)
"""Where programs and scratch folders are on one machine, and what is written in its place: evidence is read elsewhere."""

F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attack ended, and what was observed, in one line."""

    verdict: Verdict
    observed: str


class Judge:
    """Takes the conclusions of one attack. One that got through outweighs all that held."""

    def __init__(self) -> None:
        self._outcome: Outcome | None = None

    def __call__(self, held: bool, observed: str) -> None:
        """Concludes that what was attacked held, or did not, from what was `observed`."""
        if self._outcome is None or self._outcome.verdict == "held":
            self._outcome = Outcome("held" if held else "got through", one_line(observed))

    def outcome(self, error: str | None) -> Outcome:
        """The attack's outcome. `error` is what it raised: then it could not be carried out, whatever it concluded before."""
        if error is not None:
            return Outcome("error", one_line(error))
        return self._outcome or Outcome("error", "it ended without a conclusion")


def gains(_what: str) -> Callable[[F], F]:
    """Says what the attacker would have of it. The catalogue reads the text from the source."""
    return lambda function: function


def one_line(text: str) -> str:
    """The text without line breaks and without this machine's folders, shortened."""
    words = " ".join(text.split())
    for place, instead in _PLACES:
        words = place.sub(instead, words)
    return words if len(words) <= OBSERVED_CHARS else words[: OBSERVED_CHARS - 1] + "…"
