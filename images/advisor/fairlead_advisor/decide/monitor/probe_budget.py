"""Whether a paused probe is worth its price: pure accounting.

The classifier knows paths without our own traffic, so that an answer in mid-transfer costs seconds in which no data flow. Probes that alter
the choice are worth it and free; those that do not are paid from SHARE of the transfer's time, and become rarer.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from fairlead_advisor.decide.model import DEFAULT_CONGESTION_CONTROL
from fairlead_advisor.decide.monitor.change_detector import ANY_STEP, PathChange, Step

SHARE = 0.02
"""Of the time that data flow: what probes that found nothing new may take together, the first one not counted."""
EXPECTED_S = 7.0
"""Of quiet: a short window is mostly enough, and the own queue drains before it."""
DWELL_S = 30.0
"""Between two paused probes at least: regrowing windows, and the trial of a switch."""
FIRST_PAUSE_S = 60.0
LONGEST_PAUSE_S = 960.0
OVERWHELMING = 2.0
"""A step of this strength need not wait for the pause, and may borrow the price of one probe."""
UNBELIEVED_S = 300.0
"""After a contradiction that a paused probe denied: what the classifier hears beside own data is wrong on this path."""

# Beside CUBIC only a BBR flow that comes alters the choice, and it takes; beside BBR only the last one that leaves, and it gives.
_AWAITED: dict[str, frozenset[Step]] = {
    DEFAULT_CONGESTION_CONTROL: frozenset({("goodput", "fell"), ("least RTT", "rose"), ("highest RTT", "rose"), ("loss", "rose")}),
    "bbr": frozenset({("goodput", "rose"), ("least RTT", "fell"), ("highest RTT", "fell")}),
}


def awaited(congestion_control: str, *, either_way: bool = False) -> frozenset[Step]:
    """The steps that may mean another choice than the one in force; the rest is a transfer that grows, or others who come and go.

    `either_way`: those who come and those who leave may.
    """
    steps = _AWAITED.get(congestion_control, ANY_STEP)
    return steps.union(*_AWAITED.values()) if either_way else steps


class ProbeReason(StrEnum):
    """The reason for a paused probe; part of the record."""

    UNKNOWN = "nothing is known of the background yet"
    OLD = "what is known of the background is old"
    CHANGED = "the path changed"
    CONTRADICTED = "what is heard beside the data contradicts the last answer"
    UNSURE = "the last answer was unsure"
    BARRED = "the last answer could not be followed"
    UNANSWERED = "what changed before is still not known"
    CALLED = "another job of ours has paused"


# An answer is known already, old or in doubt: another probe is not worth the free one, and is paid.
_EARNED = frozenset({ProbeReason.UNSURE, ProbeReason.BARRED, ProbeReason.UNANSWERED})
# Without an answer to one of these, what was known may hold no longer.
_NEWS = frozenset({ProbeReason.CHANGED, ProbeReason.CONTRADICTED, ProbeReason.CALLED})


@dataclass(frozen=True, slots=True)
class ProbeBudget:
    """`began_s` is when data began to flow; `free`: whether one probe costs nothing.

    `doubt` is why to probe though nothing changes: None after a sure answer that is followed. It waits until `doubts_from_s`.
    Loaded classification is a reason to probe from `believed_from_s` on.
    """

    began_s: float
    doubt: ProbeReason | None
    doubts_from_s: float = 0.0
    free: bool = True
    spent_s: float = 0.0
    rests_until_s: float = 0.0
    not_before_s: float = 0.0
    pause_s: float = FIRST_PAUSE_S
    believed_from_s: float = 0.0

    def saved_s(self, now_s: float) -> float:
        """What has been earned and not been spent; negative in debt."""
        return SHARE * (now_s - self.began_s) - self.spent_s


def due(
    account: ProbeBudget, now_s: float, change: PathChange | None, *, contradicted: bool = False, hidden: bool = False
) -> ProbeReason | None:
    """Whether to probe now, and why; `contradicted`: whether loaded classification contradicts the last answer.

    `hidden`: other jobs of ours hide who is there, so that a doubt is worth a probe on credit.
    """
    if now_s < account.rests_until_s:
        return None
    if change is not None and _is_worth_it(account, now_s, change):
        return ProbeReason.CHANGED
    if now_s < account.not_before_s:
        return None
    # It is seldom wrong, and may have no step to wait for: on credit, as a step that leaves no doubt.
    if contradicted and now_s >= account.believed_from_s and (account.free or account.saved_s(now_s) >= 0):
        return ProbeReason.CONTRADICTED
    if account.doubt is None or now_s < account.doubts_from_s:
        return None
    least_s = 0.0 if hidden else EXPECTED_S
    affordable = (account.free and account.doubt not in _EARNED) or account.saved_s(now_s) >= least_s
    return account.doubt if affordable else None


def joins(account: ProbeBudget, now_s: float, *, on_credit: bool) -> bool:
    """Whether to pause with another job, which waits for nothing but its price; `on_credit`, two pauses may be unpaid, or one be free."""
    return account.saved_s(now_s) >= 0.0 or (on_credit and (account.free or _has_credit(account, now_s)))


def _has_credit(account: ProbeBudget, now_s: float) -> bool:
    return account.saved_s(now_s) >= -EXPECTED_S


def _is_worth_it(account: ProbeBudget, now_s: float, change: PathChange) -> bool:
    overwhelming = change.strength >= OVERWHELMING
    if now_s < account.not_before_s and not overwhelming:
        return False
    credit_s = EXPECTED_S if overwhelming else 0.0
    return account.free or account.saved_s(now_s) + credit_s >= price_s(EXPECTED_S, change)


def price_s(quiet_s: float, change: PathChange | None) -> float:
    """The price of a pause of `quiet_s`, in seconds of the transfer as it was: one that was pushed aside loses little by waiting."""
    return quiet_s * (min(1.0, change.goodput_ratio) if change else 1.0)


def probed(
    account: ProbeBudget,
    why: ProbeReason,
    now_s: float,
    cost_s: float,
    *,
    news: bool,
    sure: bool | None,
    barred_until_s: float | None = None,
) -> ProbeBudget:
    """After a paused probe: `news` if it altered the choice. `sure` None: it gave no answer, and what it was for is asked again.

    `barred_until_s`: a sure answer that is not followed before then.
    """
    rested = replace(account, rests_until_s=now_s + DWELL_S)
    if sure is not None:
        doubt = ProbeReason.UNSURE if not sure else None if barred_until_s is None else ProbeReason.BARRED
        rested = replace(rested, doubt=doubt, doubts_from_s=barred_until_s or 0.0)
    elif why in _NEWS:
        rested = unanswered(rested)
    if news:
        return replace(rested, free=True, pause_s=FIRST_PAUSE_S, not_before_s=now_s, believed_from_s=now_s)
    if why is ProbeReason.CALLED:
        # What the other one had a reason for says nothing of the next step here, for which the free one is kept as long as there is credit.
        if account.free and not _has_credit(account, now_s):
            return replace(rested, free=False)
        return replace(rested, spent_s=account.spent_s + cost_s)
    if why is ProbeReason.CONTRADICTED and sure:
        rested = replace(rested, believed_from_s=now_s + UNBELIEVED_S)
    # The free probe is kept for a change: doubt can wait until it has been earned.
    takes_free = why not in _EARNED
    return replace(
        rested,
        free=account.free and not takes_free,
        spent_s=account.spent_s + (0.0 if account.free and takes_free else cost_s),
        not_before_s=now_s + account.pause_s,
        pause_s=min(2 * account.pause_s, LONGEST_PAUSE_S),
    )


def unanswered(account: ProbeBudget) -> ProbeBudget:
    """After a change that no probe explained, and that nothing may ever show again: it is asked for when that is earned."""
    return account if account.doubt is not None else replace(account, doubt=ProbeReason.UNANSWERED, doubts_from_s=0.0)
