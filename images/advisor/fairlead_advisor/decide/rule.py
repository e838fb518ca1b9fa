"""The choice of protocol, congestion control and stream count: the highest expected utility, and when in doubt the safe side."""

from dataclasses import dataclass, replace

from fairlead_advisor.decide import buffers
from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import (
    DEFAULT_CONGESTION_CONTROL,
    LAST_RESORT_CONGESTION_CONTROL,
    Alternative,
    Decision,
    DecisionReason,
    History,
    PathMeasurement,
    TransportLimits,
)
from fairlead_advisor.decide.prior import goodput_advantage
from fairlead_advisor.decide.streams import NO_HISTORY, first_count, has_company
from fairlead_advisor.decide.utility import expected_utility
from fairlead_advisor.models.answer import BBR_CLASSES

LOWEST_CONFIDENCE = 0.5
CANDIDATES = (DEFAULT_CONGESTION_CONTROL, "bbr")


def decide(
    path: PathMeasurement,
    limits: TransportLimits,
    background: Background | None = None,
    history: History = NO_HISTORY,
    *,
    sets_buffers: bool = True,
) -> Decision:
    """The transport for a job within `limits` over `path`: the user's choice, the best expected utility, or the safe default.

    Without `sets_buffers` the decision has the send buffers that stand, whatever is needed: nobody asks for others with it.
    """
    streams, stream_ground = first_count(path, limits, history, company=has_company(background, history))
    choice = _choose(path, limits, background, history)
    buffer = buffers.choose(buffers.needed_before_data(path, limits, history, streams), limits.buffers)
    if not sets_buffers:
        buffer = buffers.as_it_stands(buffer, limits.buffers)
    choice_text = f"{_measured(path)}; {choice.congestion_control} with {counted(streams)}: {choice.ground}"
    return Decision(
        congestion_control=choice.congestion_control,
        streams=streams,
        abstained=choice.reason not in (DecisionReason.USER_CHOICE, DecisionReason.CLASSIFIED),
        reason=_reason(choice, background),
        protocol=limits.protocol,
        message="; ".join(part for part in (choice_text, stream_ground, buffer.message) if part),
        socket_buffer_bytes=buffer.in_force_bytes,
        socket_buffer_needed_bytes=buffer.needed_bytes,
        background=background,
        utility=choice.utility,
        rejected=choice.rejected,
    )


def _reason(choice: "_Choice", background: Background | None) -> DecisionReason:
    """The reason as it is published: what an earlier transfer measured must not be taken for a measurement of this one."""
    recalled = background is not None and background.measured_at is not None
    return DecisionReason.KNOWN if recalled and choice.reason in (DecisionReason.CLASSIFIED, DecisionReason.UNSURE) else choice.reason


def instead(decision: Decision, in_force: str, why_not: str) -> Decision:
    """`decision` with `in_force` in place of what it chose, which becomes a rejected alternative for the reason `why_not`."""
    if in_force == decision.congestion_control:
        return decision
    weighed = next((other.utility for other in decision.rejected if other.congestion_control == in_force), None)
    others = tuple(other for other in decision.rejected if other.congestion_control != in_force)
    refused = Alternative(decision.congestion_control, decision.utility, why_not)
    return replace(decision, congestion_control=in_force, utility=weighed, rejected=(refused, *others))


def counted(streams: int) -> str:
    """A stream count in words."""
    return "1 stream" if streams == 1 else f"{streams} streams"


@dataclass(frozen=True, slots=True)
class _Choice:
    congestion_control: str
    reason: DecisionReason
    ground: str
    utility: float | None = None
    rejected: tuple[Alternative, ...] = ()


def _choose(path: PathMeasurement, limits: TransportLimits, background: Background | None, history: History) -> _Choice:
    chosen = limits.congestion_control
    if chosen is not None:
        asked = f"the job asks for {chosen}"
        return _Choice(chosen, DecisionReason.USER_CHOICE, asked, rejected=_unweighed(chosen, asked))
    safe = _safe_congestion_control(limits.available)
    if path.rtt_s is None:
        why = "nothing is known about the path"
        return _Choice(safe, DecisionReason.PROBE_FAILED, f"{why}, so that the safe default stands", rejected=_unweighed(safe, why))
    if background is None:
        why = "no classifier tells the background traffic"
        return _Choice(safe, DecisionReason.NO_MODEL, f"{why}, so that the safe default stands", rejected=_unweighed(safe, why))
    if background.abstained or background.confidence < LOWEST_CONFIDENCE:
        unsure = _unweighed(safe, "the classifier is not sure enough to leave the safe default")
        return _Choice(
            safe, DecisionReason.UNSURE, f"{_seen(background)}, too unsure to act upon, so that the safe default stands", rejected=unsure
        )
    return _best(limits, background, history, safe)


def _unweighed(chosen: str, why_not: str) -> tuple[Alternative, ...]:
    return tuple(Alternative(name, None, why_not) for name in _rivals(chosen))


def _best(limits: TransportLimits, background: Background, history: History, safe: str) -> _Choice:
    is_lossy = history.loses_alone and background.is_nobody

    def utility(name: str) -> float:
        advantage = goodput_advantage(name, background, history.measured, is_lossy=is_lossy)
        return expected_utility(name, background, limits.others_weight, is_lossy=is_lossy) + advantage

    # The safe default comes first: it also wins a tie.
    names = (safe, *_rivals(safe))
    offered = [name for name in names if name == safe or limits.available is None or name in limits.available]
    best = max(offered, key=utility)

    def why_not(name: str) -> str:
        if name not in offered:
            return f"{limits.offerer} does not offer it"
        return f"expected utility {utility(name):.3f} against {utility(best):.3f} of {best}"

    rejected = tuple(Alternative(name, utility(name), why_not(name)) for name in names if name != best)
    missed = [name for name in names if name not in offered and utility(name) > utility(best)]
    if missed:
        ground = f"{missed[0]} would suit it better, but {limits.offerer} does not offer it"
    elif best == safe:
        ground = f"{best} shares it evenly, at the least expected cost to both sides"
    elif is_lossy:
        ground = f"packets are lost without a queue, which holds {safe} back"
    else:
        ground = f"beside it {safe} would get too little"
    return _Choice(best, DecisionReason.CLASSIFIED, f"{_seen(background)}: {ground}", utility=utility(best), rejected=rejected)


def _rivals(name: str) -> tuple[str, ...]:
    rivals = tuple(candidate for candidate in CANDIDATES if candidate != name)
    return rivals if name in CANDIDATES else tuple(candidate for candidate in rivals if candidate != DEFAULT_CONGESTION_CONTROL)


def _safe_congestion_control(available: frozenset[str] | None) -> str:
    if available is None or DEFAULT_CONGESTION_CONTROL in available:
        return DEFAULT_CONGESTION_CONTROL
    return LAST_RESORT_CONGESTION_CONTROL


def _seen(background: Background) -> str:
    name, probability = background.likeliest
    kind = "with BBR" if name in BBR_CLASSES else "without BBR"
    looks, when = "looks", ""
    if background.measured_at is not None:
        looks, when = "looked", f" to an earlier transfer at {background.measured_at:%H:%M:%SZ}"
    apart = ", unless the link keeps flows apart" if background.is_nobody else ""
    return f"the background {looks} like {name} ({probability:.0%}), {kind}, any BBR {background.any_bbr:.0%}{when}{apart}"


def _measured(path: PathMeasurement) -> str:
    if path.rtt_s is None:
        return f"The echo service answered none of {path.samples} requests" if path.samples else "The path could not be probed"
    return f"The path has an RTT of {path.rtt_s * 1000:.1f} ms and lost {path.loss_ratio or 0:.1%} of {path.samples} requests"
