"""Who gets how much of the shared links: hierarchical weighted max-min shares with guarantees and limits.

The rule, its reasons and a worked example are in docs/explanation/fair-shares.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fairlead.core.allocation.guarantees import KeptGuarantees, keep_guarantees
from fairlead.core.allocation.model import (
    Allocation,
    AllocationInputError,
    AllocationJob,
    AllocationLink,
    AllocationTenant,
    LinkShare,
    TenantShare,
)
from fairlead.core.allocation.problem import Problem, build
from fairlead.core.allocation.solver import Solution, solve
from fairlead.core.allocation.waterfill import Floats, Indices, totals

__all__ = [
    "Allocation",
    "AllocationInputError",
    "AllocationJob",
    "AllocationLink",
    "AllocationTenant",
    "LinkShare",
    "TenantShare",
    "allocate",
    "jain_index",
]


def allocate(links: Iterable[AllocationLink], tenants: Iterable[AllocationTenant], jobs: Iterable[AllocationJob]) -> Allocation:
    """The fair rate of every job. Raises AllocationInputError; the order of the input does not matter."""
    problem = build(links, tenants, jobs)
    kept = keep_guarantees(problem)
    return _describe(problem, kept, solve(problem, kept))


def _describe(problem: Problem, kept: KeptGuarantees, solution: Solution) -> Allocation:
    rate = solution.rate
    links, tenants, slices = len(problem.links), len(problem.tenants), len(problem.slice_link)
    row, column = np.nonzero(problem.crossing >= 0)
    slice_ = problem.crossing[row, column]
    link = problem.slice_link[slice_]
    per_weight = rate / problem.job_weight
    slice_weights = totals(slice_, problem.job_weight[row], slices)
    on_link = per_weight[row] * (slice_weights / problem.slice_weight)[slice_]
    tenant_weights = totals(problem.job_tenant, problem.job_weight, tenants)
    of_tenant = np.array([tenant.weight for tenant in problem.tenants], dtype=np.float64)
    overall = per_weight * (tenant_weights / of_tenant)[problem.job_tenant]

    allocated = totals(link, rate[row], links).tolist()
    link_jain = grouped_jain_index(link, on_link, links)
    tenant_allocated = totals(problem.job_tenant, rate, tenants).tolist()
    tenant_jain = grouped_jain_index(problem.job_tenant, per_weight, tenants)
    tenant_ratio = np.ones(tenants)
    np.minimum.at(tenant_ratio, problem.slice_tenant, kept.slice_ratio)
    return Allocation(
        jobs=dict(zip((job.name for job in problem.jobs), rate.tolist(), strict=True)),
        links={
            each.name: LinkShare(
                capacity_bps=each.capacity_bps,
                available_bps=each.available_bps,
                allocated_bps=allocated[number],
                guarantee_ratio=float(kept.link_ratio[number]),
                jain=link_jain[number],
            )
            for number, each in enumerate(problem.links)
        },
        tenants={
            each.name: TenantShare(
                allocated_bps=tenant_allocated[number], guarantee_ratio=float(tenant_ratio[number]), jain=tenant_jain[number]
            )
            for number, each in enumerate(problem.tenants)
        },
        jain=jain_index(overall),
        approximated=solution.raised,
    )


def jain_index(values: npt.ArrayLike) -> float | None:
    """(Σx)² / (n·Σx²) [Jain 1984]: 1 if all are equal, 1/n if one has everything; None for no values or only zeros."""
    array = np.asarray(values, dtype=np.float64)
    largest = array.max(initial=0.0)
    if largest <= 0.0:
        return None
    scaled = array / largest
    return float(scaled.sum() ** 2 / (len(scaled) * np.square(scaled).sum()))


def grouped_jain_index(group: Indices, values: Floats, groups: int) -> list[float | None]:
    """Jain's index of each group's values."""
    largest = np.zeros(groups)
    np.maximum.at(largest, group, values)
    scaled = values / np.where(largest > 0.0, largest, 1.0)[group]
    total, squares = totals(group, scaled, groups), totals(group, np.square(scaled), groups)
    count = np.bincount(group, minlength=groups)
    index = np.divide(np.square(total), count * squares, out=np.zeros(groups), where=largest > 0.0)
    return [value if present else None for value, present in zip(index.tolist(), (largest > 0.0).tolist(), strict=True)]
