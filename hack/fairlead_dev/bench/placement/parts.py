"""The parts of the bench, each from a module of its own, and their goals."""

from __future__ import annotations

from fairlead_dev.bench.placement import choice

PARTS = (*choice.PARTS,)
GOALS = {**choice.GOALS}
