"""The input as checked, sorted arrays: sorting by name is what makes the result independent of the input's order, to the bit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from fairlead.core.allocation.model import AllocationInputError, AllocationJob, AllocationLink, AllocationTenant
from fairlead.core.allocation.waterfill import Floats, Indices

_EXTREME_WEIGHT = 1e9
_FASTEST_BPS = 1e18
"""Beyond these, sums of 64-bit floats would lose what small jobs get."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Links, jobs and *slices* (a tenant on a link) by number. `crossing` has a row a job and one column for each link it crosses:
    the number of its slice there, or -1 beyond its last link.
    """

    links: Sequence[AllocationLink]
    tenants: Sequence[AllocationTenant]
    jobs: Sequence[AllocationJob]
    available: Floats
    job_tenant: Indices
    job_weight: Floats
    job_guarantee: Floats
    job_ceiling: Floats
    """Always finite: a job cannot have more than its narrowest link has."""
    crossing: Indices
    slice_link: Indices
    slice_tenant: Indices
    slice_weight: Floats
    slice_limit: Floats


def build(links: Iterable[AllocationLink], tenants: Iterable[AllocationTenant], jobs: Iterable[AllocationJob]) -> Problem:
    """Check and sort the input. Raises AllocationInputError naming the first place that is wrong, in the order given."""
    links, tenants, jobs = tuple(links), tuple(tenants), tuple(jobs)
    _check_links(links)
    _check_tenants(tenants)
    _check_jobs(jobs, links, tenants)
    links, tenants, jobs = _by_name(links), _by_name(tenants), _by_name(jobs)
    link_number = {link.name: number for number, link in enumerate(links)}
    tenant_number = {tenant.name: number for number, tenant in enumerate(tenants)}
    available = np.array([link.available_bps for link in links], dtype=np.float64)
    job_tenant = np.array([tenant_number[job.tenant] for job in jobs], dtype=np.intp)

    columns = max((len(job.links) for job in jobs), default=1)
    job_links = np.full((len(jobs), columns), -1, dtype=np.intp)
    for row, job in zip(job_links, jobs, strict=True):
        row[: len(job.links)] = sorted(link_number[name] for name in job.links)
    crosses = job_links >= 0
    key = (job_links * len(tenants) + job_tenant[:, None])[crosses]
    slices, slice_of = np.unique(key, return_inverse=True)
    crossing = np.full(job_links.shape, -1, dtype=np.intp)
    crossing[crosses] = slice_of
    slice_link, slice_tenant = np.divmod(slices, max(len(tenants), 1))

    narrowest = np.where(crosses, available[job_links] if len(links) else 0.0, np.inf).min(axis=1, initial=np.inf)
    return Problem(
        links=links,
        tenants=tenants,
        jobs=jobs,
        available=available,
        job_tenant=job_tenant,
        job_weight=np.array([job.weight for job in jobs], dtype=np.float64),
        job_guarantee=np.array([min(job.guarantee_bps, job.ceiling_bps) for job in jobs], dtype=np.float64),
        job_ceiling=np.minimum(np.array([job.ceiling_bps for job in jobs], dtype=np.float64), narrowest),
        crossing=crossing,
        slice_link=slice_link,
        slice_tenant=slice_tenant,
        slice_weight=np.array([tenant.weight for tenant in tenants], dtype=np.float64)[slice_tenant],
        slice_limit=np.where(
            np.array([link.is_shared for link in links], dtype=np.bool_)[slice_link],
            np.array([tenant.limit_bps for tenant in tenants], dtype=np.float64)[slice_tenant],
            np.inf,
        ),
    )


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_N = TypeVar("_N", bound=_Named)


def _by_name(items: Sequence[_N]) -> tuple[_N, ...]:
    return tuple(sorted(items, key=lambda item: item.name))


def _check_links(links: Sequence[AllocationLink]) -> None:
    _check_unique("links", links)
    for number, link in enumerate(links):
        _check_positive(f"links[{number}].capacity", link.capacity_bps, "give the link's rate, e.g. 10G")
        if link.capacity_bps > _FASTEST_BPS:
            raise AllocationInputError(
                f"links[{number}].capacity", f"{link.capacity_bps} is out of range", "give bits per second, e.g. 10G"
            )
        _check_number(f"links[{number}].headroom", link.headroom_bps, "leave it out or give a rate below the capacity")
        if link.headroom_bps >= link.capacity_bps:
            raise AllocationInputError(
                f"links[{number}].headroom", "leaves nothing of the capacity", "give less than the capacity, e.g. 10%"
            )


def _check_tenants(tenants: Sequence[AllocationTenant]) -> None:
    _check_unique("tenants", tenants)
    for number, tenant in enumerate(tenants):
        _check_shares(f"tenants[{number}]", tenant)


def _check_jobs(jobs: Sequence[AllocationJob], links: Sequence[AllocationLink], tenants: Sequence[AllocationTenant]) -> None:
    _check_unique("jobs", jobs)
    link_names, tenant_names = {link.name for link in links}, {tenant.name for tenant in tenants}
    for number, job in enumerate(jobs):
        path = f"jobs[{number}]"
        if job.tenant not in tenant_names:
            raise AllocationInputError(f"{path}.tenant", f"no tenant is named {job.tenant!r}", "add it to tenants or correct the name")
        if not job.links:
            raise AllocationInputError(f"{path}.links", "is empty", "name at least one link that the job crosses")
        for place, name in enumerate(job.links):
            if name not in link_names:
                raise AllocationInputError(f"{path}.links[{place}]", f"no link is named {name!r}", "add it to links or correct the name")
            if name in job.links[:place]:
                raise AllocationInputError(f"{path}.links[{place}]", f"{name!r} is named twice", "name each link once")
        _check_shares(path, job)
        if not job.demand_bps >= 0.0:
            raise AllocationInputError(f"{path}.demand", f"{job.demand_bps} is not a rate", "leave it out or give a rate of zero or more")


def _check_unique(path: str, items: Sequence[_Named]) -> None:
    first: dict[str, int] = {}
    for number, item in enumerate(items):
        if not item.name:
            raise AllocationInputError(f"{path}[{number}].name", "is empty", "give it a name")
        if first.setdefault(item.name, number) != number:
            raise AllocationInputError(
                f"{path}[{number}].name", f"{item.name!r} is already {path}[{first[item.name]}]", "give each a name of its own"
            )


def _check_shares(path: str, holder: AllocationTenant | AllocationJob) -> None:
    _check_positive(f"{path}.weight", holder.weight, "give a number above zero, e.g. 100")
    if not 1.0 / _EXTREME_WEIGHT <= holder.weight <= _EXTREME_WEIGHT:
        raise AllocationInputError(f"{path}.weight", f"{holder.weight} is out of range", "weights are relative: use numbers like 1 to 1000")
    _check_number(f"{path}.guarantee", holder.guarantee_bps, "leave it out or give a rate of zero or more")
    if not holder.limit_bps > 0.0:
        raise AllocationInputError(f"{path}.limit", f"{holder.limit_bps} is not above zero", "leave it out or give a rate, e.g. 2G")
    if holder.guarantee_bps > holder.limit_bps:
        raise AllocationInputError(f"{path}.guarantee", "is above the limit", "lower the guarantee or raise the limit")


def _check_positive(path: str, value: float, remedy: str) -> None:
    if not (value > 0.0 and math.isfinite(value)):
        raise AllocationInputError(path, f"{value} is not a number above zero", remedy)


def _check_number(path: str, value: float, remedy: str) -> None:
    if not (value >= 0.0 and math.isfinite(value)):
        raise AllocationInputError(path, f"{value} is not a number of zero or more", remedy)
