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
    """The tenant's own guarantee there, or what its jobs are guaranteed if that is more: never above its entitlement."""
    link_ratio: Floats
    """1, or the part of the tenants' guarantees on this link that fits."""
    slice_ratio: Floats
    """1, or the part of the jobs' guarantees that fits into what their tenant is entitled to there."""


def keep_guarantees(problem: Problem) -> KeptGuarantees:
    """Tenants' guarantees on a link shrink in proportion until they fit; a job's guarantee comes out of its tenant's entitlement.

    A tenant is entitled to its guarantee, or to its part by weight of the link if that is more. So a guarantee that jobs ask for takes
    from jobs of the same tenant alone. All guarantees are raised together from 0 to 1; where a tenant's entitlement on a link is used
    up, its jobs there stop. A job whose guarantee is cut on one link reserves no more than that elsewhere.
    """
    row, column = np.nonzero(problem.crossing >= 0)
    slice_ = problem.crossing[row, column]
    slices, links = len(problem.slice_link), len(problem.links)
    usable = np.minimum(problem.slice_limit, totals(slice_, problem.job_ceiling[row], slices))
    own = np.minimum(np.array([tenant.guarantee_bps for tenant in problem.tenants], dtype=np.float64)[problem.slice_tenant], usable)
    link_ratio = _part_that_fits(problem.available, np.zeros(links), totals(problem.slice_link, own, links))
    own = own * link_ratio[problem.slice_link]
    entitled = _entitlements(problem, own, usable)

    nominal = problem.job_guarantee
    ratio = np.ones(len(nominal))
    open_job = nominal > 0.0
    slice_ratio = np.ones(slices)
    while True:
        moving = totals(slice_, np.where(open_job, nominal, 0.0)[row], slices)
        settled = totals(slice_, np.where(open_job, 0.0, ratio * nominal)[row], slices)
        on_slice = _part_that_fits(entitled, settled, moving)
        if on_slice.min(initial=1.0) >= 1.0:
            break
        # A slice none of whose jobs stops earlier elsewhere is final: nothing that happens elsewhere changes it.
        open_crossing = open_job[row]
        least = np.ones(len(nominal))
        np.minimum.at(least, row[open_crossing], on_slice[slice_[open_crossing]])
        earliest = np.ones(slices)
        np.minimum.at(earliest, slice_[open_crossing], least[row[open_crossing]])
        full = (on_slice < 1.0) & (earliest >= on_slice)
        slice_ratio[full] = on_slice[full]
        stopping = np.zeros(len(nominal), dtype=bool)
        stopping[row[open_crossing & full[slice_]]] = True
        ratio[stopping] = least[stopping]
        open_job &= ~stopping

    job = ratio * nominal
    kept = np.minimum(np.maximum(own, totals(slice_, job[row], slices)), entitled)
    return KeptGuarantees(job=job, slice_=kept, link_ratio=link_ratio, slice_ratio=slice_ratio)


def _entitlements(problem: Problem, guarantee: Floats, usable: Floats) -> Floats:
    """What every tenant can have of each link whatever the others' jobs ask for: max-min by the tenants' weights and guarantees."""
    level = fill_levels(problem.slice_link, problem.slice_weight, guarantee, usable, problem.available)[problem.slice_link]
    with np.errstate(invalid="ignore"):
        return np.minimum(usable, np.maximum(guarantee, level * problem.slice_weight))


def _part_that_fits(room: Floats, settled: Floats, moving: Floats) -> Floats:
    """The largest part of `moving` that fits beside `settled`, at most 1; a hair of rounding does not count as too much."""
    part = np.ones(len(room))
    tight = (settled + moving > room * (1.0 + _ROUNDING)) & (moving > 0.0)
    part[tight] = np.maximum(room[tight] - settled[tight], 0.0) / moving[tight]
    return part
