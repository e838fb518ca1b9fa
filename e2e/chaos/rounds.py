"""Which rounds a run has, by seed alone: what is disturbed in each, when, and for how long."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SHORTEST_S, LONGEST_S = 0.5, 12.0
"""How long a disturbance lasts: a node counts as lost after 16 s, and nothing here is to outlast that."""
EARLIEST_SHARE, LATEST_SHARE = 0.02, 0.9
"""Of the data, when it begins."""


@dataclass(frozen=True, slots=True)
class Round:
    """One transfer and its disturbance."""

    number: int
    disturbance: str
    begins_at_share: float
    """Of the data, by what the kernel of the source node has sent."""
    seconds: float

    def __str__(self) -> str:
        return f"{self.number}-{self.disturbance}"


def drawn(seed: int, count: int, disturbances: Sequence[str], again: Mapping[str, int] | None = None) -> list[Round]:
    """`count` rounds in which each disturbance comes as often as any other, give or take one, in a drawn order.

    `again`: how often a round, by its name, has been missed so far; when it begins and how long it lasts is drawn anew.
    """
    order = random.Random(f"chaos {seed}")
    names: list[str] = []
    while len(names) < count:
        names += order.sample(sorted(disturbances), len(disturbances))
    draws = again or {}
    return [_round(seed, number, name, draws.get(f"{number}-{name}", 0)) for number, name in enumerate(names[:count])]


def _round(seed: int, number: int, disturbance: str, draw: int) -> Round:
    # Of its own, so that a longer run has the rounds of a shorter one first.
    source = random.Random(f"chaos {seed} {number} {disturbance}" + (f" {draw}" if draw else ""))
    share = source.uniform(EARLIEST_SHARE, LATEST_SHARE)
    return Round(number, disturbance, round(share, 3), round(source.uniform(SHORTEST_S, LONGEST_S), 2))
