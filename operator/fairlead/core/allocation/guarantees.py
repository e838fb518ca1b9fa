"""Which guarantees can be kept, and by how much the others shrink."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairlead.core.allocation.problem import Problem
from fairlead.core.allocation.waterfill import Floats, fill_levels, totals

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class KeptGuarantees:
    """Guarantees that fit: on every link those of its slices together are at most what is available."""

    job: Floats
    slice_: Floats
    link_ratio: Floats
    """1, or the part of the guarantees on this link that fits."""
    slice_ratio: Floats
    """1, or the part of the jobs' guarantees that fits under the tenant's limit there."""


def keep_guarantees(problem: Problem) -> KeptGuarantees:
    """Raise the kept part of all guarantees together from 0 to 1; where a link or a tenant's limit is full, those that cross it stop.

    On one link this shrinks all guarantees in proportion. A job whose guarantee is cut on one link reserves no more than that elsewhere.
    A tenant's guarantee counts by what it adds to those of its jobs, and shrinks with them.
    """
    row, column = np.nonzero(problem.crossing >= 0)
    slice_ = problem.crossing[row, column]
    slices, links = len(problem.slice_link), len(problem.links)
    nominal = problem.job_guarantee
    own = np.array([tenant.guarantee_bps for tenant in problem.tenants], dtype=np.float64)[problem.slice_tenant]
    usable = np.minimum(problem.slice_limit, totals(slice_, problem.job_ceiling[row], slices))
    own = np.minimum(own, usable)
    extra = np.maximum(own - totals(slice_, nominal[row], slices), 0.0)

    ratio = np.ones(len(nominal))
    open_job = nominal > 0.0
    link_ratio, slice_ratio = np.ones(links), np.ones(slices)
    while True:
        moving = np.where(open_job, nominal, 0.0)[row]
        settled = np.where(open_job, 0.0, ratio * nominal)[row]
        slice_moving, slice_settled = totals(slice_, moving, slices), totals(slice_, settled, slices)
        link_moving = totals(problem.slice_link, slice_moving + extra, links)
        link_settled = totals(problem.slice_link, slice_settled, links)
        on_link = _part_that_fits(problem.available, link_settled, link_moving)
        on_link[link_ratio < 1.0] = 1.0
        on_slice = _part_that_fits(problem.slice_limit, slice_settled, slice_moving)
        tightest = min(on_link.min(initial=1.0), on_slice.min(initial=1.0))
        if tightest >= 1.0:
            break
        full_link = on_link <= tightest
        full_slice = on_slice <= tightest
        link_ratio[full_link] = tightest
        slice_ratio[full_slice] = tightest
        stopping = np.zeros(len(nominal), dtype=bool)
        stopping[row[full_slice[slice_] | full_link[problem.slice_link[slice_]]]] = True
        stopping &= open_job
        ratio[stopping] = tightest
        open_job &= ~stopping

    job = ratio * nominal
    of_jobs = totals(slice_, job[row], slices)
    most = np.maximum(own, of_jobs)
    part = np.minimum(fill_levels(problem.slice_link, np.where(own > 0.0, own, 1.0), of_jobs, most, problem.available), 1.0)
    kept = np.minimum(most, np.maximum(of_jobs, own * part[problem.slice_link]))
    short = totals(problem.slice_link, most, links) > problem.available * (1.0 + _ROUNDING)
    return KeptGuarantees(
        job=job, slice_=kept, link_ratio=np.where(short, np.minimum(link_ratio, part), link_ratio), slice_ratio=slice_ratio
    )


def _part_that_fits(room: Floats, settled: Floats, moving: Floats) -> Floats:
    """The largest part of `moving` that fits beside `settled`, at most 1; a hair of rounding does not count as too much."""
    part = np.ones(len(room))
    tight = (settled + moving > room * (1.0 + _ROUNDING)) & (moving > 0.0)
    part[tight] = np.maximum(room[tight] - settled[tight], 0.0) / moving[tight]
    return part
