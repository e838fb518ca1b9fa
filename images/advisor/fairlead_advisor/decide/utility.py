"""What a congestion control is expected to cost us and others, given the class of the background [Anvari 2021, section 5.5]."""

from fairlead_advisor.decide.background import NOBODY, Background

# The minor share of two flows whose Jain index is 0.60 (CUBIC beside BBR) and 0.62 (BBR beside CUBIC), against an even half:
# the indices of the fixed choices in [Anvari 2021, section 6.7], solved for the shares by its eq. 1.
OWN_LOSS = 0.4082
OTHERS_LOSS = 0.3914


def expected_utility(congestion_control: str, background: Background, others_weight: float, *, is_lossy: bool = False) -> float:
    """Minus the expected loss of share, ours and `others_weight` times theirs; 0 is an even split for certain.

    Whatever yields to loss counts as CUBIC does. A path without background counts as one with CUBIC: somebody may come. Where `is_lossy` it
    does not, since the path itself holds back whoever yields to loss.
    """
    if congestion_control == "bbr":
        nobody = background.probabilities[NOBODY] if is_lossy else 0.0
        return -max(0.0, 1 - background.any_bbr - nobody) * OTHERS_LOSS * others_weight
    return -background.any_bbr * OWN_LOSS
