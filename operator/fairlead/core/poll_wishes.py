"""When the movers of a job are asked again, and who comes first where there are more jobs than can be asked.

The pod of a mover that ends says so by itself, and news of a cap need no poll. So a poll of a transfer that has run for hours shows little
that is new, and its job waits for those that change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from fairlead.core.observed import MoverPod, running_movers
from fairlead.core.reports import Reports

MOST_POLLS_A_SECOND = 100.0
"""Jobs that are polled in a second, apart from those whose movers have just come up: with the passes that follow, a third of a core."""
MOST_NEWS_A_SECOND = 400.0
"""Jobs that are polled in a second as their movers have just come up, or as their transfer begins with the answer: more than an API server
makes pods for, and few enough where a network that was cut is back."""
DECIDING_SECONDS = 1.0
"""How often a job is polled until its advisor has decided: a small transfer ends soon after it."""
NEWS_SECONDS = 60.0
"""For how long movers count as just come up: after a change of the leader all movers are new to the operator, and few are."""
UNHEARD_SECONDS = 30.0
"""For how long it is news that a mover or an advisor does not answer: by then it is concluded what that means."""
_PATIENCE_PART = 0.1
"""The part of its age that a job may wait longer than one whose movers have just come up."""
_SHARING_PATIENCE_SECONDS = 15.0
"""The most for a job whose rate decides what others on its links get."""
_LONGEST_PATIENCE_SECONDS = 180.0
"""The most for any. Alerts take a transfer for stalled when nothing was seen of it for five minutes."""


@dataclass(frozen=True, slots=True)
class PollFacts:
    """What is known of a job whose movers run. Nothing that a mover says of its end counts: it could say so for ever."""

    age_seconds: float
    """Since the youngest of its movers became ready."""
    awaits_decision: bool = False
    """It has a sender whose advisor has not decided."""
    competes: bool = False
    """Its share of a link bounds it, so that its rate decides what others get."""
    unheard_seconds: float | None = None
    """For how long the mover or advisor has been asked in vain that fell silent last; None while all answer."""
    awaits_endpoint: bool = False
    """It has no sender yet, and does not know where that one would find the receiver."""


@dataclass(frozen=True, slots=True)
class PollWish:
    """A job is to be polled every `interval_seconds`. Where not all can be, it waits up to `patience_seconds` longer than those without."""

    interval_seconds: float
    patience_seconds: float
    is_start: bool = False
    """It comes before all that transfer: its own transfer begins with the answer."""


def wish_of(facts: PollFacts, usual_seconds: float) -> PollWish:
    """How often a job wants to be polled, with `usual_seconds` for most, and how long it may wait beyond that."""
    interval_seconds = min(usual_seconds, DECIDING_SECONDS) if facts.awaits_decision else usual_seconds
    is_news = facts.unheard_seconds is not None and facts.unheard_seconds < UNHEARD_SECONDS
    if facts.awaits_endpoint and (facts.unheard_seconds is None or is_news):
        return PollWish(interval_seconds, 0.0, is_start=True)
    if is_news:
        return PollWish(interval_seconds, 0.0)
    most_seconds = _SHARING_PATIENCE_SECONDS if facts.competes else _LONGEST_PATIENCE_SECONDS
    return PollWish(interval_seconds, min(_PATIENCE_PART * facts.age_seconds, most_seconds))


def facts_of(pods: Iterable[MoverPod], reports: Reports, now: datetime, *, competes: bool) -> PollFacts:
    """What polls of a job go by; some of its `pods` run."""
    receiver, sender = running_movers(pods)
    ages = [(now - _up_since(pod, now)).total_seconds() for pod in (receiver, sender) if pod is not None]
    return PollFacts(
        age_seconds=max(0.0, min(ages, default=0.0)),
        awaits_decision=sender is not None and reports.decision is None,
        competes=competes,
        unheard_seconds=reports.unheard_seconds,
        awaits_endpoint=sender is None and reports.receiver_endpoint is None,
    )


def _up_since(pod: MoverPod, now: datetime) -> datetime:
    # A node whose clock is ahead must not keep its movers young.
    return pod.ready_since if pod.ready_since is not None and pod.ready_since <= now else pod.created_at
