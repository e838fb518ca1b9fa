"""What is brought about where: one fault at one request or watch event of one workload, as text that anybody can give back."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """What goes wrong. Each is at one request, or at one event of a watch."""

    KILLED_BEFORE = "killed-before"
    """The operator is killed, and its request never gets to the API server."""
    KILLED_UNANSWERED = "killed-unanswered"
    """The API server carries the request out, and the operator is killed before it knows."""
    KILLED_AFTER = "killed-after"
    """The operator is killed as soon as it has the answer."""
    CLOSED_BEFORE = "closed-before"
    """The connection is closed; nothing was carried out."""
    CLOSED_AFTER = "closed-after"
    """The connection is closed after the request was carried out."""
    UNAUTHORIZED = "401"
    FORBIDDEN = "403"
    CONFLICT = "409"
    THROTTLED = "429"
    BROKEN = "500"
    UNAVAILABLE = "503"
    APPLIED_BUT_504 = "504-applied"
    """The request is carried out, and the answer is that it took too long."""
    STALLED = "stalled"
    """No answer comes, and nothing is carried out."""
    DELAYED = "delayed"
    """The answer comes late, as everything behind it."""
    DENIED = "denied"
    """The right to such requests is gone for a while, from this one on."""
    STALE = "stale"
    """The operator is killed once the request was carried out; what the next one lists, and for a while watches, is as at the beginning."""
    AHEAD = "clock-ahead"
    """The operator is killed once the request was carried out, and the next one's clock is an hour ahead."""
    BEHIND = "clock-behind"
    FROZEN_BEFORE = "frozen-before"
    """The operator stands still until another one leads, and only then its request is carried out."""
    FROZEN_AFTER = "frozen-after"
    """The same after its request was carried out."""

    DROPPED = "dropped"
    """A watch never tells of one event."""
    REPEATED = "repeated"
    LATE = "late"
    """A watch stands still for a while before this event."""
    EXPIRED = "410"
    """In the place of this event the watch says that its version is too old, and ends."""
    FAILED = "failed"
    """In the place of this event the watch says that the API server failed, and ends."""
    ENDED = "ended"
    """The watch ends well before this event."""
    TRUNCATED = "truncated"
    """The connection breaks in the middle of this event."""
    SILENT = "silent"
    """The watch stays open and tells nothing any more."""


OF_EVENTS = (Fault.DROPPED, Fault.REPEATED, Fault.LATE, Fault.EXPIRED, Fault.FAILED, Fault.ENDED, Fault.TRUNCATED, Fault.SILENT)
OF_WRITES = tuple(fault for fault in Fault if fault not in OF_EVENTS)
OF_READS = (Fault.KILLED_BEFORE, Fault.CLOSED_BEFORE, Fault.UNAUTHORIZED, Fault.FORBIDDEN, Fault.THROTTLED, Fault.BROKEN, Fault.STALLED)

_READS = ("GET", "LIST")
_EVENTS = ("ADDED", "MODIFIED", "DELETED")
_TEXT = re.compile(r"(?P<workload>[a-z0-9-]+)/(?P<fault>[a-z0-9-]+)@(?P<what>.+)#(?P<number>[1-9][0-9]*)")


class PlanError(ValueError):
    """A text that is no plan."""


@dataclass(frozen=True, slots=True)
class Point:
    """The `number`-th time that the operator does or sees `what`, such as `PATCH transferjobs/status job`."""

    what: str
    number: int

    def __str__(self) -> str:
        return f"{self.what}#{self.number}"

    @property
    def kind(self) -> str:
        """The verb, or the type of the event."""
        return self.what.partition(" ")[0]

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What can go wrong there."""
        return OF_EVENTS if self.kind in _EVENTS else OF_READS if self.kind in _READS else OF_WRITES


@dataclass(frozen=True, slots=True)
class Plan:
    """One fault at one point of one workload."""

    workload: str
    fault: Fault
    point: Point

    def __str__(self) -> str:
        return f"{self.workload}/{self.fault}@{self.point}"


def read_plan(text: str) -> Plan:
    """The plan that `str` made this text of. Raises PlanError."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise PlanError(f"{text!r} is no plan: write WORKLOAD/FAULT@WHAT#NUMBER, as in create/500@PATCH transferjobs/status job#1")
    try:
        fault = Fault(found["fault"])
    except ValueError as error:
        raise PlanError(f"{text!r}: there is no fault {found['fault']}, but {', '.join(Fault)}") from error
    plan = Plan(found["workload"], fault, Point(found["what"], int(found["number"])))
    if fault not in plan.point.faults:
        raise PlanError(f"{text!r}: {fault} cannot be brought about at {plan.point.kind}, but {', '.join(plan.point.faults)}")
    return plan


def plans_of(workload: str, seen: Iterable[str]) -> list[Plan]:
    """Every fault at every point of a run that did and saw this, one after the other."""
    counts: Counter[str] = Counter()
    plans = []
    for what in seen:
        counts[what] += 1
        point = Point(what, counts[what])
        plans += [Plan(workload, fault, point) for fault in point.faults]
    return plans


def sample(plans: Sequence[Plan], seed: int, count: int | None) -> list[Plan]:
    """`count` of the plans in an order by `seed`, in which every workload, and within it every fault, comes before one comes again.

    A plan more or fewer hardly alters it: no two recordings of a workload are quite the same.
    """
    shuffled = sorted(plans, key=lambda plan: (random.Random(f"{seed}/{plan}").random(), str(plan)))
    rounds: Counter[tuple[str, Fault]] = Counter()
    turns: list[tuple[int, int, Plan]] = []
    for place, plan in enumerate(shuffled):
        rounds[plan.workload, plan.fault] += 1
        turns.append((rounds[plan.workload, plan.fault], place, plan))
    ordered = [plan for _, _, plan in sorted(turns, key=lambda turn: turn[:2])]
    return ordered if count is None else ordered[:count]
