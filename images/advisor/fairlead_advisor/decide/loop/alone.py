"""What shows without a probe that nobody else is there: half of the own streams that at once have as much of a full path as all had.

Beside others the streams that leave take their windows' part along, and those that stay need longer than a trial's first seconds to
grow to twice theirs. Later they may: what BBR leaves to CUBIC hardly depends on how many flows CUBIC has [Ware 2019]. So while the
transfer has what it had then, a BBR flow that is heard beside its data is its own noise.
"""

import math

from fairlead_advisor.decide.monitor.caps import at_cap
from fairlead_advisor.decide.optimizer import STILL_FULL_BUSY_RATIO, CountTrial

AS_MUCH_RATIO = 0.97
HELD_RATIO = 0.9
"""Whoever comes with BBR takes more than the rest."""


def shown_bps(trial: CountTrial, cap_bps: float | None) -> float | None:
    """What the transfer has of the path alone, if the `trial` shows that it is alone; a cap would hold any count to the same."""
    tried, base = trial.tried, trial.base
    is_full = all(score.busy_ratio is not None and score.busy_ratio >= STILL_FULL_BUSY_RATIO for score in (tried, base))
    half = trial.at_once and trial.kept == tried.streams <= base.streams / 2
    has_as_much = tried.goodput_bps >= AS_MUCH_RATIO * base.goodput_bps
    return tried.goodput_bps if half and is_full and has_as_much and not at_cap(tried.goodput_bps, cap_bps) else None


def is_held(alone_bps: float, goodput_bps: float) -> bool:
    """Whether a transfer that had `alone_bps` then still has it. Much more is another path, of which nothing has been shown."""
    return alone_bps > 0 and math.isclose(goodput_bps, alone_bps, rel_tol=1 - HELD_RATIO)
