"""Rates where links depend on each other in a circle: the levels that agree."""

from __future__ import annotations

import numpy as np

from fairlead.core.allocation.stage import FillingStage
from fairlead.core.allocation.waterfill import Floats, Indices, totals

_STEPS = ((1 / 2, 400), (1 / 8, 800))
"""Parts of the way to the answer, and how many steps of each. 1,000 jobs over eight links each take some 100, over twenty some 300."""
_ATTEMPTS = 30
_LARGEST_SYSTEM = 1500
"""Slices beyond which one step of Newton's method takes longer than it may."""
_WILD = 1e6
"""A step this many times as long as the guess comes from a system that is singular but for rounding."""


def balanced_rates(stage: FillingStage, offers: Floats, slack: Floats) -> Floats | None:
    """Rates of all jobs of the stage that answer themselves to within `slack`, sought from `offers` on; None if the search fails.

    Small circles are solved at once by Newton's method; it grows with the cube of their size, and large ones are averaged.
    """
    small = len(stage.slice_link) <= _LARGEST_SYSTEM
    if small:
        found = _by_newton(stage, offers, slack)
        if found is not None:
            return found
    found, nearer = _by_averaging(stage, offers, slack)
    return _by_newton(stage, nearer, slack) if found is None and small else found


def _by_averaging(stage: FillingStage, offers: Floats, slack: Floats) -> tuple[Floats | None, Floats]:
    """Steps part of the way towards the links' answer until that is the same; the rates, None if they do not come, and the last offers.

    Higher offers give lower answers, so that whole steps swing for ever around the solution; half steps close in on it
    (Krasnoselskii's iteration for a map that does not expand), and shorter ones where one answer exceeds the change that it answers.
    """
    ceiling = stage.ceiling[stage.crossing_job]
    offers = np.minimum(offers, ceiling)
    for part, most in _STEPS:
        for _ in range(most):
            answer = stage.answer(offers)
            rates = stage.rates(answer)
            if np.all(np.abs(stage.rates(offers) - rates) <= slack):
                return rates, offers
            offers = offers + part * (np.minimum(answer, ceiling) - offers)
    return None, offers


def _by_newton(stage: FillingStage, offers: Floats, slack: Floats) -> Floats | None:
    """Newton's method on a piecewise linear map: which link stops which job gives linear equations for the levels.

    Their solution gives the next guess of which link stops which job; where they leave a choice, it is the one nearest to the guess.
    """
    for _ in range(_ATTEMPTS):
        level, share = stage.levels(offers)
        balanced = stage.offers(_agreeing_shares(stage, level, share))
        rates = stage.rates(balanced)
        offers = stage.answer(balanced)
        if np.all(np.abs(stage.rates(offers) - rates) <= slack):
            return rates
    return None


def _agreeing_shares(stage: FillingStage, level: Floats, share: Floats) -> Floats:
    """The shares per job weight at which the slices and links that stop a job are exactly full; infinite for other slices.

    One equation a slice: what it and its jobs hold is the link's level times the tenant's weight, or the tenant's floor or limit.
    One equation a link: what its jobs hold is its room. The unknowns are the slices' shares and the links' levels.
    """
    offers = stage.offers(share)
    rates = stage.rates(offers)
    slice_of = _stopping_slice(stage, offers, rates)
    moving = slice_of >= 0
    used = np.unique(slice_of[moving])
    if not len(used):
        return np.full(len(share), np.inf)
    proportional = level[stage.slice_link[used]] * stage.slice_weight[used]
    by_level = (proportional > stage.slice_floor[used]) & (proportional < stage.slice_limit[used])
    links = np.unique(stage.slice_link[used[by_level]])
    slice_row = np.full(len(share), -1)
    slice_row[used] = np.arange(len(used))
    link_row = np.full(len(level), -1)
    link_row[links] = len(used) + np.arange(len(links))

    job = stage.crossing_job
    link_held = totals(stage.slice_link, stage.slice_held, len(level))
    constant = np.concatenate(
        [np.where(by_level, 0.0, stage.entitled(level)[used]) - stage.slice_held[used], (stage.room - link_held)[links]]
    )
    matrix = np.zeros((len(constant), len(constant)))
    for row in (slice_row[stage.crossing_slice], link_row[stage.slice_link[stage.crossing_slice]]):
        varies, stays = (row >= 0) & moving[job], (row >= 0) & ~moving[job]
        np.add.at(matrix, (row[varies], slice_row[slice_of[job[varies]]]), stage.crossing_weight[varies])
        np.subtract.at(constant, row[stays], rates[job[stays]])
    matrix[np.flatnonzero(by_level), link_row[stage.slice_link[used[by_level]]]] = -stage.slice_weight[used[by_level]]

    guess = np.concatenate([share[used], level[links]])
    magnitude = np.maximum(guess, np.finfo(np.float64).tiny)
    solved = guess + _step(matrix * magnitude, constant - matrix @ guess) * magnitude
    agreeing = np.full(len(share), np.inf)
    agreeing[used] = np.maximum(solved[: len(used)], 0.0)
    return agreeing


def _stopping_slice(stage: FillingStage, offers: Floats, rates: Floats) -> Indices:
    """For each job the first slice whose share per weight stops it; -1 where its ceiling or its guarantee does."""
    job = stage.crossing_job
    stops = (offers <= rates[job]) & (rates < stage.ceiling)[job] & (offers > stage.crossing_guarantee)
    first = np.full(len(rates), len(offers))
    np.minimum.at(first, job[stops], np.flatnonzero(stops))
    result: Indices = np.append(stage.crossing_slice, -1)[first]
    return result


def _step(matrix: Floats, right: Floats) -> Floats:
    """A solution of the system, the smallest where there are several."""
    try:
        step = np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)
        if np.abs(step).max(initial=0.0) < _WILD:
            return step
    except np.linalg.LinAlgError:
        pass
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=1e-12)[0], dtype=np.float64)
