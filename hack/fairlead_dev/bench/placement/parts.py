"""The parts of the bench, each from a module of its own, and their goals."""

from __future__ import annotations

from fairlead_dev.bench.placement import choice, pinning

PARTS = (*choice.PARTS, *pinning.PARTS)
GOALS = {**choice.GOALS}
