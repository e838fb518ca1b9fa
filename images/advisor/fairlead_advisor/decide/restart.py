"""When to set a flow with BBR anew that has got next to nothing beside others for minutes.

BBR estimates what the path carries from what it gets. One that joins two others may never get enough to estimate more. Set to CUBIC and
back, the kernel's BBR forgets its estimate and starts up again.
"""

from dataclasses import dataclass, replace

STUCK_S = 120.0
"""For so long it must have had next to nothing: flows of a kind need a minute or more for their shares."""
STUCK_SHARE = 0.05
"""Of what the path is known to carry."""
LEAST_PACKETS = 12
"""A stream and round trip, where nobody knows what the path carries: three times the least window of BBR."""
PACKET_BITS = 1448 * 8
TRIAL_SETTLE_S = 5.0
TRIAL_S = 20.0
PAYS_RATIO = 1.5
FIRST_PAUSE_S = 240.0
LONGEST_PAUSE_S = 3840.0
"""Between two restarts; one that did not pay doubles the pause, for its start-up costs the others loss."""


@dataclass(frozen=True, slots=True)
class RestartTrial:
    """A restart that has still to show what it brought."""

    began_s: float
    before_bps: float
    bits: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class StuckFlow:
    """For how long, and with what, a transfer has had next to nothing; no restart before `not_before_s`."""

    stuck_s: float = 0.0
    bits: float = 0.0
    not_before_s: float = float("-inf")
    pause_s: float = FIRST_PAUSE_S
    trial: RestartTrial | None = None


@dataclass(frozen=True, slots=True)
class RestartStep:
    """What follows from a stretch of the transfer: `why` to set it anew, or '', and what the last restart brought once that is known."""

    state: StuckFlow
    why: str = ""
    goodput_ratio: float | None = None


def least_bps(capacity_bps: float | None, rtt_s: float | None, streams: int) -> float | None:
    """Below it a transfer has next to nothing; None where neither the path's capacity nor its RTT is known."""
    if capacity_bps is not None:
        return STUCK_SHARE * capacity_bps
    return None if not rtt_s else LEAST_PACKETS * PACKET_BITS * streams / rtt_s


def step(state: StuckFlow, at_s: float, seconds: float, goodput_bps: float, least: float | None) -> RestartStep:
    """Takes a stretch of `seconds` up to `at_s` in. `least` is None where little goodput would not be BBR's doing."""
    if state.trial is not None:
        return _on_trial(state, state.trial, at_s, seconds, goodput_bps)
    if least is None or goodput_bps >= least:
        return RestartStep(replace(state, stuck_s=0.0, bits=0.0))
    state = replace(state, stuck_s=state.stuck_s + seconds, bits=state.bits + goodput_bps * seconds)
    if state.stuck_s < STUCK_S or at_s < state.not_before_s:
        return RestartStep(state)
    why = f"it has had {state.bits / state.stuck_s / 1e6:.2g} Mb/s for {state.stuck_s:.0f} s beside others: BBR is set anew"
    return RestartStep(state, why)


def restarted(state: StuckFlow, at_s: float) -> StuckFlow:
    """After a restart: what it brings is compared with what there was."""
    before_bps = state.bits / state.stuck_s if state.stuck_s else 0.0
    return StuckFlow(not_before_s=at_s + state.pause_s, pause_s=state.pause_s, trial=RestartTrial(at_s, before_bps))


def failed(state: StuckFlow, at_s: float) -> StuckFlow:
    """The mover did not set it: not again before the pause is over."""
    return StuckFlow(not_before_s=at_s + state.pause_s, pause_s=min(2 * state.pause_s, LONGEST_PAUSE_S))


def _on_trial(state: StuckFlow, trial: RestartTrial, at_s: float, seconds: float, goodput_bps: float) -> RestartStep:
    if at_s - seconds >= trial.began_s + TRIAL_SETTLE_S:
        trial = replace(trial, bits=trial.bits + goodput_bps * seconds, seconds=trial.seconds + seconds)
    if at_s - trial.began_s < TRIAL_SETTLE_S + TRIAL_S or not trial.seconds:
        return RestartStep(replace(state, trial=trial))
    # Next to nothing before: a ratio to it says that it paid, and no more.
    ratio = trial.bits / trial.seconds / max(trial.before_bps, PACKET_BITS)
    paid = ratio >= PAYS_RATIO
    pause_s = FIRST_PAUSE_S if paid else min(2 * state.pause_s, LONGEST_PAUSE_S)
    return RestartStep(StuckFlow(not_before_s=trial.began_s + pause_s, pause_s=pause_s), goodput_ratio=ratio)
