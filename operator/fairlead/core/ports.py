"""Which block of host ports a mover pod gets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set

BLOCK = 4
"""Ports of one block: a pod uses the first three (docs/contracts.md, "Ports of a mover pod")."""

NOT_PLACED = ""
"""Key of the ports that belong to pods the scheduler has not placed yet."""


def taken_on(node: str | None, ports_in_use: Mapping[str, Set[int]]) -> frozenset[int]:
    """Port bases that a new pod on `node` must avoid; on any node if it is not known where the pod will run."""
    names = list(ports_in_use) if node is None else [node, NOT_PLACED]
    return frozenset().union(*(ports_in_use.get(name, frozenset()) for name in names))


def choose_port_base(seed: str, taken: Set[int], *, first: int, last: int) -> int | None:
    """The first port of a free block between `first` and `last`, None if all are taken.

    The search starts at a place that `seed` determines, so that a repeated pass chooses the same and two jobs seldom collide.
    """
    count = (last - first + 1) // BLOCK
    if count <= 0:
        return None
    start = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") % count
    for step in range(count):
        base = first + BLOCK * ((start + step) % count)
        if base not in taken:
            return base
    return None
