"""When to change the congestion control of a running transfer: hysteresis, a minimum dwell, and a look whether it was for the better."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fairlead_advisor.decide.model import DEFAULT_CONGESTION_CONTROL

AGREEING = 3
WINDOWS = 5
DWELL_S = 60.0
TRIAL_SETTLE_S = 5.0
TRIAL_S = 20.0
BARRED_S = 300.0

# A switch towards more goodput must not cost any; the sawtooth alone makes some 15 %.
_TOLERATED_FOR_OURSELVES = 0.85
# A switch for the others' sake gives share away: from 0.89 to 0.5 if it was right (0.56), from 0.5 to 0.09 if it was wrong (0.18),
# by the shares of ops.md 3. The geometric mean tells the two apart.
_TOLERATED_FOR_OTHERS = 0.32


@dataclass(frozen=True, slots=True)
class Glance:
    """One look at the path, up to `at_s` on a monotonic clock: the congestion control it speaks for and the goodput meanwhile."""

    at_s: float
    wanted: str
    goodput_bps: float


@dataclass(frozen=True, slots=True)
class Switch:
    """A congestion control to set on the live sockets; `undo` if it takes a switch back."""

    to: str
    undo: bool
    why: str


@dataclass(frozen=True, slots=True)
class Trial:
    """A switch that still has to prove itself."""

    before: str
    before_bps: float
    since_s: float
    seen_bps: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a switch turned out: the goodput after it relative to before."""

    congestion_control: str
    before: str
    goodput_ratio: float
    kept: bool


@dataclass(frozen=True, slots=True)
class SwitchState:
    """What is in force and since when, the latest votes, and what is barred until when because it made things worse."""

    in_force: str
    since_s: float
    votes: tuple[str, ...] = ()
    goodputs_bps: tuple[float, ...] = ()
    trial: Trial | None = None
    barred: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SwitchStep:
    """What follows from a glance."""

    state: SwitchState
    switch: Switch | None = None
    verdict: Verdict | None = None


def look(state: SwitchState, glance: Glance) -> SwitchStep:
    """Takes a glance in. At most one switch follows; while one is on trial no other begins."""
    state = replace(
        state,
        votes=(*state.votes, glance.wanted)[-WINDOWS:],
        goodputs_bps=(*state.goodputs_bps, glance.goodput_bps)[-WINDOWS:],
    )
    if state.trial is not None:
        return _prove(state, state.trial, glance)
    wanted = glance.wanted
    agreeing = state.votes.count(wanted)
    if wanted == state.in_force or agreeing < AGREEING or glance.at_s - state.since_s < DWELL_S:
        return SwitchStep(state)
    if state.barred.get(wanted, 0.0) > glance.at_s:
        return SwitchStep(state)
    before_bps = statistics.fmean(state.goodputs_bps)
    switched = replace(
        state, in_force=wanted, since_s=glance.at_s, votes=(), goodputs_bps=(), trial=Trial(state.in_force, before_bps, glance.at_s)
    )
    why = f"{agreeing} of the last {len(state.votes)} looks at the path spoke for {wanted}"
    return SwitchStep(switched, Switch(wanted, undo=False, why=why))


def _prove(state: SwitchState, trial: Trial, glance: Glance) -> SwitchStep:
    if glance.at_s - trial.since_s < TRIAL_SETTLE_S:
        return SwitchStep(state)
    trial = replace(trial, seen_bps=(*trial.seen_bps, glance.goodput_bps))
    if glance.at_s - trial.since_s < TRIAL_S:
        return SwitchStep(replace(state, trial=trial))
    ratio = statistics.fmean(trial.seen_bps) / trial.before_bps if trial.before_bps > 0 else 1.0
    for_others = state.in_force == DEFAULT_CONGESTION_CONTROL
    kept = ratio >= (_TOLERATED_FOR_OTHERS if for_others else _TOLERATED_FOR_OURSELVES)
    verdict = Verdict(state.in_force, trial.before, ratio, kept)
    if kept:
        return SwitchStep(replace(state, trial=None), verdict=verdict)
    undone = SwitchState(trial.before, glance.at_s, barred={**state.barred, state.in_force: glance.at_s + BARRED_S})
    why = f"{state.in_force} brought {ratio:.0%} of the goodput before it"
    return SwitchStep(undone, Switch(trial.before, undo=True, why=why), verdict)
