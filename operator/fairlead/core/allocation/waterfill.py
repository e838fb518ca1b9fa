"""Water-filling of many independent groups at once: the one rule that tenants on a link and jobs within a tenant both follow."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.intp]
Booleans: TypeAlias = npt.NDArray[np.bool_]


_ROUNDING = 1e-12


def totals(group: Indices, values: Floats, groups: int) -> Floats:
    """The sum of each group's values."""
    return np.bincount(group, values, groups).astype(np.float64, copy=False)


def fill_levels(group: Indices, weight: Floats, floor: Floats, ceiling: Floats, budget: Floats) -> Floats:
    """The level λ of every group at which Σ min(ceiling, max(floor, λ·weight)) over its members equals its budget.

    `group` gives each member's group, in ascending order; `budget` has one entry a group and may be infinite. A group whose
    ceilings leave some of its budget has the level infinity; one whose ceilings exactly fill it has the lowest such level, so that two
    links that stop a job at the same rate both report it. Needs 0 ≤ floor ≤ ceiling < infinity and, in each group, Σ floor ≤ budget.
    """
    groups = len(budget)
    wanted = totals(group, ceiling, groups)
    level = np.full(groups, np.inf)
    scarce = wanted >= budget * (1.0 - _ROUNDING)
    if not scarce.any():
        return level
    size = np.bincount(group, minlength=groups)
    alone = scarce & (size == 1)
    if alone.any():
        members = np.flatnonzero(alone[group])
        level[group[members]] = budget[group[members]] / weight[members]
    several = scarce & (size > 1)
    if several.any():
        members = np.flatnonzero(several[group])
        number = np.cumsum(several) - 1
        level[several] = _levels_by_breakpoints(number[group[members]], weight[members], floor[members], ceiling[members], budget[several])
    return level


def _levels_by_breakpoints(group: Indices, weight: Floats, floor: Floats, ceiling: Floats, budget: Floats) -> Floats:
    """As fill_levels, for groups in which the ceilings reach the budget.

    The total is piecewise linear in the level and bends where a member leaves its floor or reaches its ceiling. The bends, sorted,
    only locate the piece; the level on it is then computed from the members' own numbers, so that sums over many bends leave no error.
    """
    groups = len(budget)
    leaves = floor / weight
    stops = ceiling / weight
    raised = np.flatnonzero(floor > 0.0)
    bend = np.concatenate([stops, leaves[raised]])
    bend_group = np.concatenate([group, group[raised]])
    slope_change = np.concatenate([-weight, weight[raised]])
    order = np.argsort(bend)
    key = bend_group[order].astype(np.uint16) if groups <= np.iinfo(np.uint16).max else bend_group[order]
    order = order[np.argsort(key, kind="stable")]
    bend, bend_group, slope_change = bend[order], bend_group[order], slope_change[order]

    at_floor = totals(group, floor, groups)
    first_slope = totals(group, np.where(floor > 0.0, 0.0, weight), groups)
    start = np.searchsorted(bend_group, np.arange(groups))
    running = np.cumsum(slope_change)
    before = np.concatenate([[0.0], running])
    slope_until = first_slope[bend_group] + before[:-1] - before[start][bend_group]
    previous = np.concatenate([[0.0], bend[:-1]])
    previous[start] = 0.0
    gain = slope_until * (bend - previous)
    gained = np.cumsum(gain)
    total = at_floor[bend_group] + gained - (gained[start] - gain[start])[bend_group]

    reached = total >= budget[bend_group]
    place = np.where(reached, np.arange(len(bend)), len(bend) - 1)
    first = np.minimum.reduceat(place, start)
    last = np.append(start[1:], len(bend)) - 1
    first = np.minimum(first, last)
    low, high = previous[first], bend[first]

    middle = ((low + high) / 2)[group]
    below = middle <= leaves
    above = middle >= stops
    linear = ~(below & (floor > 0.0)) & ~above
    settled = totals(group, np.where(linear, 0.0, np.where(above, ceiling, floor)), groups)
    slope = totals(group, np.where(linear, weight, 0.0), groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.where(slope > 0.0, (budget - settled) / slope, low)
    return np.clip(level, low, high)
