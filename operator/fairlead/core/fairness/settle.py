"""Which caps to write now: few writes, never more together than a link has, and those that give way before those that gain."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fairlead.core.fairness.model import AnnotatedCap

WORTH_WRITING = 0.05
"""A cap that moved by more than this part is written at once."""
REST_SECONDS = 10.0
"""A cap that moved less is written when the last write is so long ago."""
OBEYED_SECONDS = 2.0
"""How long a mover may take to obey a new cap: the kubelet's projection of the annotation and the mover's watch of it."""
_DIGITS = 4
_SLACK = 1e-6


@dataclass(frozen=True, slots=True)
class Cap:
    """The cap of one job: what was written last and when, and what may be in force until that is obeyed."""

    bps: float
    written_at: float = -math.inf
    before_bps: float = 0.0

    def in_force_bps(self, now: float) -> float:
        """The most that the job may be sending."""
        return max(self.bps, self.before_bps) if now < self.written_at + OBEYED_SECONDS else self.bps

    def seen(self, annotated: AnnotatedCap | None, now: float) -> Cap:
        """As the sender's pod has it: what was decided is obeyed only some time after it was written there, which the API server may
        refuse or delay. Where no sender runs, the time of the decision counts."""
        if annotated is None:
            return self
        if annotated.bps > self.bps * (1.0 + _SLACK):
            is_obeyed = now >= annotated.since + OBEYED_SECONDS
            return replace(self, written_at=now, before_bps=annotated.bps if is_obeyed else max(annotated.bps, self.in_force_bps(now)))
        if self.before_bps > self.bps and annotated.since > self.written_at:
            return replace(self, written_at=annotated.since)
        return self

    def written(self, bps: float, now: float) -> Cap:
        """With a new cap."""
        return Cap(bps, now, self.in_force_bps(now))


@dataclass(frozen=True, slots=True)
class Settlement:
    """Every job's cap after this round, the jobs whose cap is new, and whether some are still to get more."""

    caps: Mapping[str, Cap]
    changed: frozenset[str]
    unsettled: bool


def rounded_down(bps: float) -> float:
    """A cap as it is written: four significant digits, so that noise changes nothing, and never more than computed."""
    if not 0.0 < bps < math.inf:
        return max(bps, 0.0)
    unit = 10.0 ** max(math.floor(math.log10(bps)) + 1 - _DIGITS, 0)
    return math.floor(bps * (1.0 + 1e-12) / unit) * unit


@dataclass(frozen=True, slots=True)
class Room:
    """Each job's links, what every link has for them together, and what a new job gets even from a full link."""

    routes: Mapping[str, tuple[str, ...]]
    available_bps: Mapping[str, float]
    floors_bps: Mapping[str, float]


def settle(caps: Mapping[str, Cap], targets_bps: Mapping[str, float], room: Room, now: float) -> Settlement:
    """Moves `caps` towards `targets_bps`. Jobs without a cap in `caps` send nothing yet."""
    routes, available_bps = room.routes, room.available_bps
    known = {uid: caps.get(uid, Cap(0.0)) for uid in targets_bps}
    goal = {uid: rounded_down(bps) for uid, bps in targets_bps.items()}
    due = {uid for uid, cap in known.items() if _is_due(cap, goal[uid], now)}
    rises = {uid for uid in due if goal[uid] > known[uid].bps}
    falls = {uid for uid in due if goal[uid] < known[uid].bps}
    falls |= _needed_falls(known, goal, room, rises)
    after = {uid: cap.written(goal[uid], now) if uid in falls else cap for uid, cap in known.items()}

    held = _held({uid: cap.in_force_bps(now) for uid, cap in after.items()}, routes)
    growth = _held({uid: goal[uid] - known[uid].bps for uid in rises}, routes)
    part = {link: _part(available_bps[link] - held[link], growth[link]) for link in growth}
    changed = set(falls)
    unsettled = False
    for uid in rises:
        share = min(part[link] for link in routes[uid])
        reached = goal[uid] if share >= 1.0 else rounded_down(known[uid].bps + share * (goal[uid] - known[uid].bps))
        reached = max(reached, min(rounded_down(room.floors_bps[uid]), goal[uid]))
        unsettled |= reached < goal[uid]
        if _differs(known[uid].bps, reached, WORTH_WRITING) or (share >= 1.0 and reached != known[uid].bps):
            after[uid] = replace(known[uid].written(reached, now), before_bps=reached)
            changed.add(uid)
    return Settlement(after, frozenset(changed), unsettled)


def _is_due(cap: Cap, goal_bps: float, now: float) -> bool:
    if goal_bps == cap.bps:
        return False
    return _differs(cap.bps, goal_bps, WORTH_WRITING) or now >= cap.written_at + REST_SECONDS


def _differs(before_bps: float, after_bps: float, part: float) -> bool:
    return before_bps == math.inf or abs(after_bps - before_bps) > part * before_bps


def _needed_falls(
    caps: Mapping[str, Cap],
    goal: Mapping[str, float],
    room: Room,
    rises: set[str],
) -> set[str]:
    """Small cuts that do not wait: on links that would otherwise be overfull, or where somebody who is to rise has no room."""
    wanted = _held({uid: max(goal[uid], cap.bps) if uid in rises else cap.bps for uid, cap in caps.items()}, room.routes)
    tight = {link for link, bps in wanted.items() if bps > room.available_bps[link] * (1.0 + _SLACK)}
    return {uid for uid, cap in caps.items() if goal[uid] < cap.bps and tight.intersection(room.routes[uid])}


def _held(rates_bps: Mapping[str, float], routes: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    held: dict[str, float] = defaultdict(float)
    for uid, bps in rates_bps.items():
        for link in routes[uid]:
            held[link] += bps
    return held


def _part(room_bps: float, growth_bps: float) -> float:
    """The part of the growth for which there is room."""
    if growth_bps <= max(room_bps, 0.0) * (1.0 + _SLACK):
        return 1.0
    return max(room_bps, 0.0) / growth_bps
