"""When to change the congestion control of a running transfer: on a sure answer, with a dwell, and on trial."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fairlead_advisor.decide.model import DEFAULT_CONGESTION_CONTROL

DWELL_S = 30.0
LONGEST_DWELL_S = 480.0
FLAPPING_S = 300.0
"""A switch back within this time doubles the dwell: a background that comes and goes is not followed for ever."""
TRIAL_SETTLE_S = 5.0
TRIAL_S = 20.0
BARRED_S = 300.0
PROVEN_S = 1800.0
"""For so long a proof holds."""

# A switch towards more goodput must not cost any; the sawtooth alone makes some 15 %.
_TOLERATED_FOR_OURSELVES = 0.85
# A switch for the others' sake gives share away: from 0.89 to 0.5 if it was right (0.56), from 0.5 to 0.09 if it was wrong (0.18),
# by the Jain indices of [Anvari 2021, section 6.7]. The threshold is the geometric mean of the two.
_TOLERATED_FOR_OTHERS = 0.32
# What no answer chose must pay for what it does to whoever comes.
_LEAST_GAIN = 1.1


@dataclass(frozen=True, slots=True)
class ControlSwitch:
    """A congestion control to set on the live sockets; `undo` if it takes a switch back."""

    to: str
    undo: bool
    why: str


@dataclass(frozen=True, slots=True)
class SwitchTrial:
    """A switch that still has to prove itself; `taken_back` if it takes one back itself. `is_proof`: it puts what was `before` to the
    proof, which is barred for long if the switch is kept.

    `expected_bits`: what there was before, and no more than the cap let through, for as long as `bits` took. `least_ratio`: what it must
    have of that to be kept, None: what its kind must have.
    """

    before: str
    before_bps: float
    taken_back: bool = False
    is_proof: bool = False
    bits: float = 0.0
    seconds: float = 0.0
    expected_bits: float = 0.0
    least_ratio: float | None = None

    @property
    def is_try_out(self) -> bool:
        """Whether no answer chose what is in force for it."""
        return self.least_ratio is not None


@dataclass(frozen=True, slots=True)
class SwitchVerdict:
    """How a switch turned out: the goodput after it relative to before."""

    congestion_control: str
    before: str
    goodput_ratio: float
    kept: bool


@dataclass(frozen=True, slots=True)
class SwitchState:
    """What is in force; since when and for how long it stays, after a switch; what is barred until when for having been worse."""

    in_force: str
    since_s: float | None = None
    dwell_s: float = DWELL_S
    trial: SwitchTrial | None = None
    barred: Mapping[str, float] = field(default_factory=dict)

    @property
    def stays_until_s(self) -> float:
        """No switch before this time."""
        return float("-inf") if self.since_s is None else self.since_s + self.dwell_s


@dataclass(frozen=True, slots=True)
class SwitchStep:
    """What follows from an answer, or from a stretch of a trial."""

    state: SwitchState
    switch: ControlSwitch | None = None
    verdict: SwitchVerdict | None = None


def answer(state: SwitchState, at_s: float, wanted: str, goodput_bps: float, why: str) -> SwitchStep:
    """Takes a sure answer for `wanted`; `goodput_bps` is what the transfer had just before.

    While a switch is on trial, and before its dwell is over, no other begins.
    """
    if wanted == state.in_force or state.trial is not None or at_s < state.stays_until_s or state.barred.get(wanted, 0.0) > at_s:
        return SwitchStep(state)
    flaps = state.since_s is not None and at_s - state.since_s < FLAPPING_S
    dwell_s = min(2 * state.dwell_s, LONGEST_DWELL_S) if flaps else DWELL_S
    switched = replace(state, in_force=wanted, since_s=at_s, dwell_s=dwell_s, trial=SwitchTrial(state.in_force, goodput_bps))
    return SwitchStep(switched, ControlSwitch(wanted, undo=False, why=why))


def put_to_proof(state: SwitchState, at_s: float, goodput_bps: float, why: str) -> SwitchStep:
    """Switches to the safe default to see what it gets where the other one has `goodput_bps`."""
    trial = SwitchTrial(state.in_force, goodput_bps, is_proof=True)
    switched = replace(state, in_force=DEFAULT_CONGESTION_CONTROL, since_s=at_s, trial=trial)
    return SwitchStep(switched, ControlSwitch(DEFAULT_CONGESTION_CONTROL, undo=False, why=why))


def try_out(state: SwitchState, at_s: float, wanted: str, goodput_bps: float, why: str) -> SwitchStep:
    """Switches to `wanted`, which no answer chose, to see whether it has more than `goodput_bps`."""
    trial = SwitchTrial(state.in_force, goodput_bps, least_ratio=_LEAST_GAIN)
    switched = replace(state, in_force=wanted, since_s=at_s, dwell_s=DWELL_S, trial=trial)
    return SwitchStep(switched, ControlSwitch(wanted, undo=False, why=why))


def prove(state: SwitchState, at_s: float, seconds: float, goodput_bps: float, reachable_bps: float = math.inf) -> SwitchStep:
    """Takes a stretch of `seconds` up to `at_s` in; when the trial is over, the switch is kept or taken back.

    `reachable_bps` is what a cap lets through for certain: a switch is not to blame for what that took away.
    """
    trial = state.trial
    if trial is None or state.since_s is None or at_s - seconds < state.since_s + TRIAL_SETTLE_S:
        return SwitchStep(state)
    trial = replace(
        trial,
        bits=trial.bits + goodput_bps * seconds,
        seconds=trial.seconds + seconds,
        expected_bits=trial.expected_bits + min(trial.before_bps, reachable_bps) * seconds,
    )
    if at_s - state.since_s < TRIAL_S:
        return SwitchStep(replace(state, trial=trial))
    ratio = trial.bits / trial.expected_bits if trial.expected_bits > 0 else 1.0
    if trial.taken_back:
        return _compared(state, trial, at_s, ratio)
    for_others = state.in_force == DEFAULT_CONGESTION_CONTROL
    kept = ratio >= (trial.least_ratio or (_TOLERATED_FOR_OTHERS if for_others else _TOLERATED_FOR_OURSELVES))
    verdict = SwitchVerdict(state.in_force, trial.before, ratio, kept)
    if kept:
        refuted = {trial.before: at_s + PROVEN_S} if trial.is_proof else {}
        return SwitchStep(replace(state, trial=None, barred={**state.barred, **refuted}), verdict=verdict)
    # A proof that fails shows who is there, and they may leave at any time. What no answer chose the next one may choose.
    barred = state.barred if trial.is_proof or trial.is_try_out else {**state.barred, state.in_force: at_s + BARRED_S}
    # What there was before may have been from a time without the newcomer, and nothing brings it back: taken back for our own sake, the
    # switch is compared with what there is without it now.
    is_over = for_others or trial.is_try_out
    again = None if is_over else SwitchTrial(state.in_force, trial.bits / trial.seconds, taken_back=True)
    undone = SwitchState(trial.before, at_s, dwell_s=state.dwell_s, trial=again, barred=barred)
    why = f"{state.in_force} brought {ratio:.0%} of the goodput before it"
    return SwitchStep(undone, ControlSwitch(trial.before, undo=True, why=why), verdict)


def _compared(state: SwitchState, trial: SwitchTrial, at_s: float, ratio: float) -> SwitchStep:
    if ratio >= _TOLERATED_FOR_OURSELVES:
        return SwitchStep(replace(state, trial=None))
    barred = {control: until_s for control, until_s in state.barred.items() if control != trial.before}
    returned = SwitchState(trial.before, at_s, dwell_s=state.dwell_s, barred=barred)
    why = f"{state.in_force} has {ratio:.0%} of what {trial.before} had before it was taken back"
    return SwitchStep(
        returned, ControlSwitch(trial.before, undo=True, why=why), SwitchVerdict(state.in_force, trial.before, ratio, kept=False)
    )
