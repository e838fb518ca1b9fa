"""The six classes of background and what they consist of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BackgroundClass(StrEnum):
    """Named after the greedy TCP flows of two sources, each BBR (B) or CUBIC (C) [Anvari 2021, figure 10b]."""

    NONE = "B0-C0"
    CUBIC = "B0-C1"
    BBR = "B1-C0"
    BBR_AND_CUBIC = "B1-C1"
    BBR_AND_BBR = "B1-B1"
    CUBIC_AND_CUBIC = "C1-C1"


@dataclass(frozen=True, slots=True)
class Sides:
    """The congestion control of each source. One source is always one flow; of two, each may have several."""

    controls: tuple[str, ...]


SIDES = {
    BackgroundClass.NONE: Sides(()),
    BackgroundClass.CUBIC: Sides(("cubic",)),
    BackgroundClass.BBR: Sides(("bbr",)),
    BackgroundClass.BBR_AND_CUBIC: Sides(("bbr", "cubic")),
    BackgroundClass.BBR_AND_BBR: Sides(("bbr", "bbr")),
    BackgroundClass.CUBIC_AND_CUBIC: Sides(("cubic", "cubic")),
}


class TrafficKind(StrEnum):
    """In which manner the class appears; only STEADY is trained on."""

    STEADY = "steady"
    ON_OFF = "on_off"
    UDP_BURSTS = "udp_bursts"
    MANY_FLOWS = "many_flows"
    LOSS = "loss"
    ACTIVE = "active"
    """STEADY while the paper's active profile sends: CUBIC 5 s, BBR 5 s, CUBIC 5 s, none 5 s."""
    BURSTS = "bursts"
    """STEADY while the probe itself sends short bursts of large requests at times: see bursts.py."""


class Split(StrEnum):
    """What a run is for. No path or run is in two of them, but test_seeds and test_kinds have paths of train too."""

    TRAIN = "train"
    TEST_SEEDS = "test_seeds"
    TEST_PATHS = "test_paths"
    TEST_KINDS = "test_kinds"
    ACTIVE = "active"
    """Runs of kind ACTIVE: for comparing active with passive probing, by cross-validation."""
    BURSTS = "bursts"
    """Runs of kind BURSTS, for the same comparison."""
