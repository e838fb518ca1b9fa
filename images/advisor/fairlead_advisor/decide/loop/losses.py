"""Tries BBR where the transfer is alone and loses packets without a queue: CUBIC yields to loss that is no congestion, BBR does not.

[Cardwell 2016, figure 8]. The echo's few hundred requests seldom show such losses, own packets do within seconds.
"""

from dataclasses import replace

from fairlead_advisor.decide import switching
from fairlead_advisor.decide.loop.messages import SetTransport, Tick
from fairlead_advisor.decide.loop.observe import SEGMENT_BYTES
from fairlead_advisor.decide.loop.state import AwaitsProof, LoopStage, LoopState, QuietLosses, Turn, is_alone
from fairlead_advisor.decide.model import DEFAULT_CONGESTION_CONTROL
from fairlead_advisor.decide.monitor.caps import leaves_room
from fairlead_advisor.decide.optimizer import REGROW_S
from fairlead_advisor.decide.transfer import TransportSettings

WINDOW_S = 4.0
LONGEST_WINDOW_S = 15.0
"""The fewer are lost, the longer they are counted."""
SETTLE_S = 3.0
SETTLE_RTTS = 20
"""After data began, the longer of the two: slow start loses what it sent too much."""
LEAST_LOSS_RATIO = 3e-4
LEAST_LOST = 8
"""Packets: fewer are chance."""
LEAST_SAMPLES = 3
"""With losses: a queue that overflows loses all at once."""
MOST_QUEUED_RATIO = 0.1
"""Of the RTT samples: where a queue stands, losses are its overflow."""
HOLDS_S = 20.0
"""Of data: for so long at most losses that may tell keep the stream count from being tried. BBR needs no more streams to bear them."""
AGAIN_S = 1800.0
"""After a switch was asked for, whatever became of it."""
_TRIED = "bbr"


def watch(state: LoopState, tick: Tick) -> Turn:
    """Counts losses, and begins a trial where they are no congestion; not while anything else is being tried."""
    if not _counts(state, tick):
        return Turn(replace(state, losses=QuietLosses(state.losses.opens_s)), (), LoopStage.STREAMS)
    losses = _with_sample(state.losses, tick)
    if not _is_quiet(losses) or (losses.seconds >= LONGEST_WINDOW_S and not _loses(losses)):
        return Turn(replace(state, losses=QuietLosses(losses.opens_s)), (), LoopStage.STREAMS)
    if losses.seconds < WINDOW_S or not _loses(losses):
        return Turn(replace(state, losses=losses), (), LoopStage.STREAMS)
    why = f"{losses.lost_bits / losses.bits:.2%} of the packets are lost without a queue while nobody else is there: {_TRIED} is tried"
    step = switching.try_out(state.monitor.switching, tick.seen.at_s, _TRIED, losses.bits / losses.seconds, why)
    state = replace(state, losses=QuietLosses(tick.seen.at_s + AGAIN_S), pending=AwaitsProof(tick, step, LoopStage.STREAMS))
    return Turn(state, (SetTransport(TransportSettings(_TRIED, None)),), LoopStage.WAITING)


def hold_search(state: LoopState) -> bool:
    """Whether no other stream count is tried for now: what is being counted may come to be a reason for a trial."""
    return state.losses.samples > 0 and state.totals.seconds < HOLDS_S


def _counts(state: LoopState, tick: Tick) -> bool:
    """Whether what is lost now may come to be a reason for a trial."""
    monitor, limits, seen = state.monitor, state.limits, tick.seen
    was_held_back = state.interrupted_s > seen.at_s - state.totals.seconds
    # What left at once after a pause is lost at once, and windows are grown again.
    settle_s = max(REGROW_S if was_held_back else SETTLE_S, SETTLE_RTTS * (state.floor_s or 0.0))
    return (
        monitor.in_force == DEFAULT_CONGESTION_CONTROL
        and limits.congestion_control is None
        and limits.available is not None
        and _TRIED in limits.available
        and is_alone(state.decision)
        and not (state.history.beside_own or tick.beside_own_bbr)
        and not tick.stats.has_several_paths
        and not monitor.on_trial
        and monitor.detector.change is None
        and monitor.budget.doubt is None
        and (state.search is None or state.search.trial is None)
        and monitor.switching.barred.get(_TRIED, 0.0) <= seen.at_s
        and seen.at_s - seen.seconds >= max(state.interrupted_s + settle_s, monitor.switching.stays_until_s, state.losses.opens_s)
        and state.totals.seconds - seen.seconds >= settle_s
        and seen.busy_ratio is not None
        # Else BBR could not show that it has more.
        and leaves_room(seen.goodput_bps, tick.stats.cap_bps)
        and not (tick.held is not None and tick.held.lacks_data)
    )


def _with_sample(losses: QuietLosses, tick: Tick) -> QuietLosses:
    seen = tick.seen
    bits = seen.goodput_bps * seen.seconds
    queued_ratio = 1.0 if seen.waits_apart else seen.busy_ratio or 0.0
    return QuietLosses(
        losses.opens_s,
        losses.seconds + seen.seconds,
        losses.bits + bits,
        losses.lost_bits + seen.loss_ratio * bits,
        losses.queued_s + queued_ratio * seen.seconds,
        losses.samples + (seen.loss_ratio > 0),
    )


def _is_quiet(losses: QuietLosses) -> bool:
    return losses.queued_s <= MOST_QUEUED_RATIO * max(losses.seconds, WINDOW_S)


def _loses(losses: QuietLosses) -> bool:
    least_bits = max(LEAST_LOSS_RATIO * losses.bits, LEAST_LOST * 8 * SEGMENT_BYTES)
    return losses.samples >= LEAST_SAMPLES and losses.lost_bits >= least_bits
