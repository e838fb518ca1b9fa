"""What an allocation is computed from and what results. All rates are bits per second; `math.inf` means no limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


class AllocationInputError(ValueError):
    """Input that cannot be allocated: the author of `path` is to blame, and a retry does not help.

    `path` is the place in the input, e.g. `jobs[3].links[0]`; `problem` what is wrong there; `remedy` what to write instead.
    """

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        super().__init__(f"{path}: {problem}; {remedy}")
        self.path = path
        self.problem = problem
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class AllocationLink:
    """A shared link in one direction. `headroom_bps` of its capacity is left for other people's traffic."""

    name: str
    capacity_bps: float
    headroom_bps: float = 0.0
    is_shared: bool = True
    """False for what is no link, but the most that some jobs of one tenant may have together: the limits of tenants do not hold there."""

    @property
    def available_bps(self) -> float:
        """What may be allocated: capacity less headroom."""
        return self.capacity_bps - self.headroom_bps


@dataclass(frozen=True, slots=True)
class AllocationTenant:
    """Who shares. The guarantee and the limit hold on each link by itself, for the tenant's jobs there together."""

    name: str
    weight: float = 1.0
    guarantee_bps: float = 0.0
    limit_bps: float = math.inf


@dataclass(frozen=True, slots=True)
class AllocationJob:
    """A transfer with one rate on all of `links`. `demand_bps` is what it can use at most, however much it may have."""

    name: str
    tenant: str
    links: tuple[str, ...]
    weight: float = 1.0
    guarantee_bps: float = 0.0
    limit_bps: float = math.inf
    demand_bps: float = math.inf

    @property
    def ceiling_bps(self) -> float:
        """The most this job can take."""
        return min(self.limit_bps, self.demand_bps)


@dataclass(frozen=True, slots=True)
class LinkShare:
    """How one link is shared."""

    capacity_bps: float
    available_bps: float
    allocated_bps: float
    guarantee_ratio: float
    """How much of the guarantees on this link is kept: 1, or less if together they exceed what is available."""
    jain: float | None
    """Jain's index over its jobs' rates per effective weight on this link; None if nothing is allocated."""

    @property
    def utilisation(self) -> float:
        """Allocated over capacity, headroom included in the capacity."""
        return self.allocated_bps / self.capacity_bps


@dataclass(frozen=True, slots=True)
class TenantShare:
    """What one tenant's jobs have together."""

    allocated_bps: float
    guarantee_ratio: float
    """How much of its jobs' guarantees fits under the tenant's own limit on its tightest link."""
    jain: float | None
    """Jain's index over its jobs' rates per weight; None if nothing is allocated."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """The rates, by name, and what they mean for links and tenants."""

    jobs: Mapping[str, float]
    links: Mapping[str, LinkShare]
    tenants: Mapping[str, TenantShare]
    jain: float | None
    """Jain's index over all jobs' rates per weight, a job's weight being its part of its tenant's."""
    approximated: int = 0
    """Jobs for which no rates that obey the rule were found; they rose together instead, within capacities, guarantees and limits."""
