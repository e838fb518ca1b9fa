"""What other people's measurements suggest: worth a few of our own on the path, never a veto.

The one rule: prefer BBR on a lossy path without congestion, since it does not take loss as a sign of congestion [Cardwell 2016, figure 8].
Trust in it is low: the transfers over real paths in [AlMobayed 2018, chapter 4] did not control the loss.
"""

from collections.abc import Mapping

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import MeasuredGain, TriedControl

PRIOR_MEASUREMENTS = 2.5
"""How many measurements of our own the prior is worth."""

# BBR does not slow down for losses that are no congestion; trust in its size is low, hence the small gain.
_LOSSY_BBR_GAIN = 0.1
# A gain of goodput in units of share: half the path is an even split.
_SHARE = 0.5


def goodput_advantage(
    congestion_control: str, background: Background, measured: Mapping[TriedControl, MeasuredGain], *, is_lossy: bool = False
) -> float:
    """The advantage in share over the safe default: the prior, outweighed by own measurements beside such a background as they come.

    `is_lossy`: packets are lost on a path that nobody fills.
    """
    prior = _LOSSY_BBR_GAIN if congestion_control == "bbr" and is_lossy else 0.0
    own = measured.get(TriedControl(congestion_control, background.has_bbr))
    if own is None:
        return prior * _SHARE
    gain = (PRIOR_MEASUREMENTS * prior + own.count * (own.goodput_ratio - 1)) / (PRIOR_MEASUREMENTS + own.count)
    return gain * _SHARE
