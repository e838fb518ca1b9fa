"""Rates of all jobs, from bounds that close in on each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.core.allocation.balance import balanced_rates
from fairlead.core.allocation.guarantees import KeptGuarantees
from fairlead.core.allocation.problem import Problem
from fairlead.core.allocation.stage import FillingStage, settled_apart
from fairlead.core.allocation.waterfill import Booleans, Floats, totals

_ROUNDING = 1e-12
"""Bounds this close, relative to the widest link a job crosses, are one number."""
_STALLED = 0.9
"""A round that leaves more than this part of the gap between the bounds is taken for a standstill."""
_REBUILD_BELOW = 0.75
"""The stage is built anew when fewer of its jobs than this are unsettled."""
_MOST_FAILED_SEARCHES = 2
"""A search that fails is slow in a large circle; after this many the rates rise together without one."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Rates, and how they were found."""

    rate: Floats
    rounds: int
    balanced: int
    """Jobs whose links depend on each other in a circle; their levels were found together."""
    raised: int
    """Jobs that rose together to the first full link, because no balance was found."""


def solve(problem: Problem, kept: KeptGuarantees) -> Solution:
    """The rates at which every job has its ceiling or is stopped by a link, see docs/explanation/fair-shares.md.

    Demands that are too high give offers that are too low, and these give demands that are too low: every answer to an upper bound
    is a lower bound. Both close in on what all solutions share, which is everything unless links depend on each other in a circle.
    For such links the levels that agree are found by Newton's method from the middle of the bounds. Should it not arrive, the rates
    rise together from the lower bound until a link is full; its jobs are settled and the bounds move on.
    """
    tolerance = _ROUNDING * _widest_link(problem)
    rate = np.zeros(len(problem.jobs))
    settled: Booleans = problem.job_ceiling <= 0.0
    lower = np.zeros(problem.crossing.size)
    upper = np.full(problem.crossing.size, np.inf)
    rounds = balanced = raised = searches_failed = 0
    while not settled.all():
        stage = settled_apart(problem, kept, settled, rate)
        where, slack = stage.problem_place, tolerance[stage.jobs]
        lower[where], upper[where], closed, passed = _close_in(stage, lower[where], upper[where], slack)
        rounds += passed
        rates = stage.rates(lower[where])
        if not closed.any():
            searching = searches_failed < _MOST_FAILED_SEARCHES
            found = balanced_rates(stage, _middle(stage, lower[where], upper[where]), slack) if searching else None
            if found is not None:
                rates, closed = found, np.ones(len(found), dtype=bool)
                balanced += len(found)
            else:
                searches_failed += 1
                closed, rates = _rise_together(stage, rates, stage.rates(upper[where]))
                raised += int(closed.sum())
                lower, upper = np.zeros_like(lower), np.full_like(upper, np.inf)
        rate[stage.jobs[closed]] = rates[closed]
        settled[stage.jobs[closed]] = True
    return Solution(rate=rate, rounds=rounds, balanced=balanced, raised=raised)


def _widest_link(problem: Problem) -> Floats:
    on_route = np.where(problem.crossing >= 0, problem.available[problem.slice_link[problem.crossing]], 0.0)
    widest: Floats = on_route.max(axis=1, initial=0.0)
    return widest


def _close_in(stage: FillingStage, lower: Floats, upper: Floats, slack: Floats) -> tuple[Floats, Floats, Booleans, int]:
    """Narrow the bounds of the offers until enough jobs are closed (see _closed) to build a smaller stage, or they no longer change."""
    gap = np.inf
    rounds = 0
    while True:
        lower = np.maximum(lower, stage.answer(upper))
        upper = np.minimum(upper, stage.answer(lower))
        rounds += 1
        low, high = stage.rates(lower), stage.rates(upper)
        known = high - low <= slack
        closed = _closed(stage, lower, low, known, slack)
        new_gap = float((high - low)[~known].sum())
        if known.all() or closed.mean() > 1.0 - _REBUILD_BELOW or new_gap > _STALLED * gap:
            return lower, upper, known if known.all() else closed, rounds
        gap = new_gap


def _closed(stage: FillingStage, lower: Floats, rates: Floats, known: Booleans, slack: Floats) -> Booleans:
    """The jobs that can leave the stage: known, and stopped by nothing, or by a link on which all rates are known.

    A known rate on a link with unknown ones stays: it carries the link's level, which the others need.
    """
    job, link = stage.crossing_job, stage.slice_link[stage.crossing_slice]
    open_link = np.zeros(len(stage.room), dtype=bool)
    open_link[link[~known[job]]] = True
    stopped_there = (lower <= (rates + slack)[job]) & ~open_link[link]
    closed: Booleans = rates >= stage.ceiling - slack
    closed[job[stopped_there]] = True
    return closed & known


def _middle(stage: FillingStage, lower: Floats, upper: Floats) -> Floats:
    ceiling = stage.ceiling[stage.crossing_job]
    middle: Floats = (np.minimum(lower, ceiling) + np.minimum(upper, ceiling)) / 2
    return middle


def _rise_together(stage: FillingStage, low: Floats, high: Floats) -> tuple[Booleans, Floats]:
    """Raise all rates from `low` towards `high` in step until a link or a tenant's slice is full; settles the jobs that cross it."""
    links, slices = len(stage.room), len(stage.slice_link)
    base = stage.slice_held + totals(stage.crossing_slice, low[stage.crossing_job], slices)
    growth = totals(stage.crossing_slice, (high - low)[stage.crossing_job], slices)
    link_base, link_growth = totals(stage.slice_link, base, links), totals(stage.slice_link, growth, links)
    link_part, slice_part = _part(stage.room - link_base, link_growth), _part(stage.slice_limit - base, growth)
    part = min(link_part.min(), slice_part.min(), 1.0)
    rates = low + part * (high - low)
    if part >= 1.0:
        return np.ones(len(low), dtype=bool), rates
    full = (slice_part <= part) | (link_part <= part)[stage.slice_link]
    settled = np.zeros(len(low), dtype=bool)
    settled[stage.crossing_job[full[stage.crossing_slice]]] = True
    return settled, rates


def _part(room: Floats, growth: Floats) -> Floats:
    """The part of `growth` for which there is room."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(growth > 0.0, np.maximum(room, 0.0) / growth, np.inf)
