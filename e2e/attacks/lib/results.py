"""The rows that a run of attacks leaves for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from e2e.attacks.lib.catalogue import Attack
from e2e.attacks.lib.judge import Outcome
from fairlead_dev.bench.rows import Goal, Row

GOAL_ATTACKS = 60


@dataclass(frozen=True, slots=True)
class Result:
    """One attack that was run."""

    attack: Attack
    outcome: Outcome
    seconds: float


def rows(results: Sequence[Result], seconds: float) -> list[Row]:
    """How many were carried out, how many of them got through, the run's seconds, and a row for each: 0 held, 1 got through."""
    verdicts = [result.outcome.verdict for result in results]
    return [
        Row("attacks", len(verdicts) - verdicts.count("error"), "count", goal=Goal("at_least", GOAL_ATTACKS, of="value")),
        Row("got_through", verdicts.count("got through"), "count", goal=Goal("at_most", 0, of="value")),
        Row("seconds", round(seconds, 1), "s"),
        *map(_row, results),
    ]


def _row(result: Result) -> Row:
    value = {"held": 0, "got through": 1, "error": None}[result.outcome.verdict]
    note = f"error: {result.outcome.observed}" if value is None else result.outcome.observed
    more = {
        "layer": result.attack.layer,
        "title": result.attack.title,
        "gains": result.attack.gains,
        "seconds": round(result.seconds, 1),
    }
    return Row(result.attack.id, value, "", note=note, more=more)
