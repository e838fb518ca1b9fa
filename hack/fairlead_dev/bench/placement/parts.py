"""The parts of the bench, each from a module of its own, and their goals."""

from __future__ import annotations

from fairlead_dev.bench.placement import choice, multi, pinning

PARTS = (*choice.PARTS, *multi.PARTS, *pinning.PARTS)
GOALS = {**choice.GOALS, **multi.GOALS}
