"""Events from what changed between two statuses: a repeated pass sees no change and emits none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from fairlead.api.reasons import ConditionType, EventReason, Reason
from fairlead.api.transferjob import TransferJobStatus
from fairlead.core.plan import EmitEvent
from fairlead.core.status import MOVERS_IN_TROUBLE

LONGEST_EVENT: Final = 300
"""Characters of an event's message. Conditions and the status have the details."""

_SENTENCE_ENDS: Final = r"[.;!?] "
_WORD_ENDS: Final = r" "
_LEAST_KEPT: Final = LONGEST_EVENT // 2

_NO_PLACE = (Reason.NO_NODE_MATCHES, Reason.NO_SLOT_FREE, Reason.SLOT_SHARE_USED_UP, Reason.NO_INTERFACE_FITS)
_WARNINGS: tuple[tuple[ConditionType, tuple[Reason, ...], EventReason], ...] = (
    (ConditionType.MOVERS_READY, MOVERS_IN_TROUBLE, EventReason.MOVERS_NOT_READY),
    (ConditionType.SCHEDULED, (Reason.WAITING_FOR_LINK, Reason.GUARANTEE_TOO_LARGE), EventReason.WAITING_FOR_LINK),
    (ConditionType.SCHEDULED, _NO_PLACE, EventReason.WAITING_FOR_PLACE),
    (ConditionType.SCHEDULED, (Reason.DESTINATION_IN_USE,), EventReason.WAITING_FOR_DESTINATION),
    (ConditionType.REPORTS_BELIEVED, (), EventReason.REPORT_REFUSED),
    (ConditionType.CAP_ENFORCED, (Reason.ABOVE_CAP,), EventReason.CAP_EXCEEDED),
    (ConditionType.PATHS_UP, (), EventReason.PATH_LOST),
    (ConditionType.NODES_READY, (), EventReason.NODES_LOST),
    (ConditionType.PROTOCOL_KEPT, (), EventReason.PROTOCOL_REPLACED),
)
"""Conditions that give a warning as they become False, for these reasons or for any, with the event."""

_WARNINGS_WHILE_TRUE: tuple[tuple[ConditionType, Reason, EventReason], ...] = (
    (ConditionType.SUSPENDED, Reason.QUEUE_NEEDS_BANDWIDTH, EventReason.QUEUE_NEEDS_BANDWIDTH),
    (ConditionType.PREFLIGHT_PASSED, Reason.PASSED_WITH_WARNINGS, EventReason.PREFLIGHT_WARNING),
)
"""Conditions that give a warning as they come to have this reason."""

_GOOD_NEWS: tuple[tuple[ConditionType, EventReason], ...] = (
    (ConditionType.MOVERS_READY, EventReason.MOVERS_STARTED),
    (ConditionType.PATHS_UP, EventReason.PATH_RESTORED),
    (ConditionType.NODES_READY, EventReason.NODES_BACK),
)
"""Conditions whose becoming True in mid-transfer is an event."""

_LESS_THAN_ASKED: Mapping[str, EventReason] = {
    Reason.GUARANTEE_NOT_RAISED: EventReason.GUARANTEE_NOT_RAISED,
    Reason.INTERFACE_NOT_LISTED: EventReason.INTERFACE_NOT_LISTED,
}
"""Why an accepted job gets less than it asks for, and the event of the same name."""


_GROUNDS: Mapping[str, str] = {
    "Classified": "the best for the other traffic that was recognised on the path",
    "Known": "what an earlier transfer found on the path still counts",
    "UserChoice": "the job asks for it",
    "InForce": "it is in force and nothing speaks for a change",
    "Unsure": "the safe default, as the other traffic was not recognised surely enough",
    "NoModel": "the safe default, as no model recognises the other traffic",
    "ProbeFailed": "the safe default, as the probe failed",
}
"""The advisor's reasons, as an event says them."""


def event_of(reason: EventReason, message: str, *, warning: bool = False) -> EmitEvent:
    """An event with as much of `message` as people read of one."""
    return EmitEvent(reason.value, brief(message), warning=warning)


def brief(message: str) -> str:
    """`message` as one line of at most LONGEST_EVENT characters, cut behind a sentence, or else behind a word, with a mark there."""
    line = " ".join(message.split())
    if len(line) <= LONGEST_EVENT:
        return line
    kept = line[: LONGEST_EVENT - 1]
    for ends in (_SENTENCE_ENDS, _WORD_ENDS):
        places = [end.start() for end in re.finditer(ends, kept) if end.start() >= _LEAST_KEPT]
        if places:
            return f"{kept[: places[-1]]}…"
    return f"{kept}…"


def events_between(before: TransferJobStatus, after: TransferJobStatus) -> tuple[EmitEvent, ...]:
    """The events of the step from `before` to `after`."""
    events: list[EmitEvent] = []

    def emit(reason: EventReason, kind: ConditionType, *, warning: bool = False) -> None:
        condition = after.condition(kind)
        events.append(event_of(reason, condition.message if condition else "", warning=warning))

    def became(kind: ConditionType) -> bool:
        return after.is_true(kind) and not before.is_true(kind)

    if became(ConditionType.ACCEPTED) and before.condition(ConditionType.ACCEPTED) is not None:
        emit(EventReason.ACCEPTED, ConditionType.ACCEPTED)
    if _is_new_reason(before, after, ConditionType.ACCEPTED) and not after.is_true(ConditionType.FAILED):
        emit(EventReason.NOT_ACCEPTED, ConditionType.ACCEPTED, warning=True)
    less = _LESS_THAN_ASKED.get(_reason(after, ConditionType.ACCEPTED) or "")
    if less is not None and less.value != _reason(before, ConditionType.ACCEPTED):
        emit(less, ConditionType.ACCEPTED, warning=True)
    if before.is_true(ConditionType.SUSPENDED) != after.is_true(ConditionType.SUSPENDED):
        emit(EventReason.SUSPENDED if after.is_true(ConditionType.SUSPENDED) else EventReason.RESUMED, ConditionType.SUSPENDED)
    for kind, event in (news for news in _GOOD_NEWS if became(news[0])):
        emit(event, kind)
    for kind, reasons, event in _WARNINGS:
        if _is_new_reason(before, after, kind, *reasons):
            emit(event, kind, warning=True)
    for kind, why, event in _WARNINGS_WHILE_TRUE:
        if _reason(after, kind) == why != _reason(before, kind):
            emit(event, kind, warning=True)
    events.extend(_of_path(before, after))
    if became(ConditionType.SUCCEEDED):
        emit(EventReason.SUCCEEDED, ConditionType.SUCCEEDED)
    if became(ConditionType.FAILED):
        emit(EventReason.FAILED, ConditionType.FAILED, warning=True)
    elif (after.failures or 0) > (before.failures or 0):
        emit(EventReason.ATTEMPT_FAILED, ConditionType.MOVERS_READY, warning=True)
    return tuple(events)


def _news_of_path(before: TransferJobStatus, after: TransferJobStatus) -> EventReason | None:
    """The event of a new decision, or of an advisor that is silent. A stream count moves more often: it is in the condition's message."""
    earlier, now = before.condition(ConditionType.PATH_PROBED), after.condition(ConditionType.PATH_PROBED)
    if now is not None and now.reason == Reason.ADVISOR_SILENT:
        return EventReason.ADVISOR_SILENT if earlier is None or earlier.reason != now.reason else None
    if not after.is_true(ConditionType.PATH_PROBED):
        return None
    if not before.is_true(ConditionType.PATH_PROBED):
        return EventReason.PATH_PROBED
    if before.decision is None or after.decision is None:
        return None
    switched = before.decision.congestion_control != after.decision.congestion_control
    return EventReason.TRANSPORT_SWITCHED if switched else None


def _of_path(before: TransferJobStatus, after: TransferJobStatus) -> tuple[EmitEvent, ...]:
    news = _news_of_path(before, after)
    if news is None:
        return ()
    if news is not EventReason.ADVISOR_SILENT:
        return (event_of(news, _choice(after)),)
    condition = after.condition(ConditionType.PATH_PROBED)
    return (event_of(news, condition.message if condition else "", warning=True),)


def _choice(status: TransferJobStatus) -> str:
    """What was decided, in one sentence; why in detail is in `status.decision`."""
    decision, path = status.decision, status.path
    if decision is None:
        return "the path was probed"
    streams = "1 stream" if decision.streams == 1 else f"{decision.streams} streams"
    rtt = f" at an RTT of {path.rtt}" if path is not None and path.rtt else ""
    why = _GROUNDS.get(decision.reason, f"the reason is {decision.reason}")
    return f"{decision.congestion_control} over {streams}{rtt}: {why}; status.decision has the details"


def _reason(status: TransferJobStatus, kind: ConditionType) -> str | None:
    condition = status.condition(kind)
    return None if condition is None else condition.reason


def _is_new_reason(before: TransferJobStatus, after: TransferJobStatus, kind: ConditionType, *only: Reason) -> bool:
    """Whether the condition is False for another reason than before, and for one of `only` if any is given."""
    now, earlier = after.condition(kind), before.condition(kind)
    if now is None or now.status != "False" or (only and now.reason not in only):
        return False
    return earlier is None or earlier.status != "False" or earlier.reason != now.reason
