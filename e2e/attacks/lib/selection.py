"""Which attacks run: all, those that were named, or a quarter by seed."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from e2e.attacks.lib.catalogue import LAYERS, Attack, CatalogueError

QUARTER_MOST_S = {"processes": 8.0, "apiserver": 8.0, "cluster": 120.0}
"""Attacks that take longer run with all others only: a quarter of them is part of every test run. Those on the cluster move real data."""


def named(attacks: Sequence[Attack], patterns: Sequence[str]) -> list[Attack]:
    """The attacks whose id or layer fits one of the patterns (`tls/*`, `apiserver`); all without patterns. Raises CatalogueError."""
    for pattern in patterns:
        if pattern not in LAYERS and not any(_fits(attack, pattern) for attack in attacks):
            raise CatalogueError(f"{pattern} is neither an attack nor a layer; `--list` shows them")
    return [attack for attack in attacks if not patterns or any(_fits(attack, pattern) for pattern in patterns)]


def quarter(attacks: Sequence[Attack], seed: int, seconds: Mapping[str, float]) -> list[Attack]:
    """A quarter of each layer, rounded up. Others take the place of attacks that took long when their evidence was recorded."""
    chosen: set[str] = set()
    for layer in LAYERS:
        ids = sorted(attack.id for attack in attacks if attack.layer == layer)
        short = [each for each in ids if seconds.get(each, 0.0) <= QUARTER_MOST_S[layer]]
        count = min(math.ceil(len(ids) / 4), len(short))
        chosen.update(random.Random(f"{seed} {layer}").sample(short, count))
    return [attack for attack in attacks if attack.id in chosen]


def _fits(attack: Attack, pattern: str) -> bool:
    return attack.layer == pattern or fnmatchcase(attack.id, pattern)
