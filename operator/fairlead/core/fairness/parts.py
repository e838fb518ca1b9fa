"""What of a link is a tenant's own: the part that no act of another tenant takes from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from fairlead.core.allocation.waterfill import fill_levels
from fairlead.core.fairness.rules import PolicyRules, TenantRule


def narrow_links(rules: PolicyRules) -> tuple[str, ...]:
    """The links on which the tenants' guarantees do not fit all at once. There only tenants with jobs count, or such a link were closed to
    all others for those who may never use it.
    """
    guaranteed_bps = sum(tenant.guarantee_bps for tenant in rules.tenants.values())
    return tuple(name for name, link in rules.links.items() if guaranteed_bps > link.available_bps)


class PartKind(Enum):
    """What a tenant's part of a link is for."""

    GUARANTEES = "guarantees"
    """Guarantees of its jobs: beside what the policy guarantees to all tenants."""
    OPEN = "open"
    """The same, of what others' traffic leaves at present."""
    LEAST = "least"
    """The least rate of its jobs: beside what others' jobs are guaranteed out of their tenants' guarantees."""


@dataclass
class TenantParts:
    """The tenants' parts of each link by weight, guarantee and limit, among those that are present there.

    `held` has what is promised to the jobs of a (link, tenant); it belongs to the caller.
    """

    rules: PolicyRules
    open_bps: Mapping[str, float]
    held: Mapping[tuple[str, str], float]
    _narrow: frozenset[str] = field(init=False)
    _present: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _known: dict[str, dict[tuple[str, PartKind], float]] = field(default_factory=lambda: defaultdict(dict))

    def __post_init__(self) -> None:
        self._narrow = frozenset(narrow_links(self.rules))

    def enter(self, link: str, tenant: str) -> None:
        """Counts the tenant as present on the link from now on."""
        if tenant not in self._present[link]:
            self._present[link].add(tenant)
            self._known.pop(link, None)

    def part_bps(self, link: str, tenant: str, kind: PartKind) -> float:
        """The tenant's part of the link, as if it were present."""
        known = self._known[link]
        if (tenant, kind) not in known:
            known[tenant, kind] = self._compute(link, tenant, kind)
        return known[tenant, kind]

    def _compute(self, link: str, tenant: str, kind: PartKind) -> float:
        available_bps = self.rules.links[link].available_bps
        budget_bps = self.open_bps.get(link, available_bps) if kind is PartKind.OPEN else available_bps
        names = sorted(self._present[link] | {tenant})
        tenants = [self.rules.tenants[name] for name in names]
        if kind is PartKind.LEAST:
            floors = [min(each.guarantee_bps, self.held.get((link, each.name), 0.0)) for each in tenants]
        else:
            floors = [each.guarantee_bps for each in tenants]
            if link not in self._narrow:
                budget_bps -= sum(each.guarantee_bps for each in self.rules.tenants.values() if each.name not in names)
        return _shares(tenants, floors, budget_bps)[names.index(tenant)]


def _shares(tenants: Sequence[TenantRule], floors_bps: Sequence[float], budget_bps: float) -> list[float]:
    """Max-min by weight among tenants that want everything; floors that do not fit shrink in proportion."""
    if budget_bps <= 0.0:
        return [0.0] * len(tenants)
    weight = np.array([tenant.weight for tenant in tenants])
    most = np.minimum([tenant.limit_bps for tenant in tenants], budget_bps)
    floor = np.minimum(floors_bps, most)
    floor *= min(1.0, budget_bps / max(float(floor.sum()), 1.0))
    (level,) = fill_levels(np.zeros(len(tenants), dtype=np.intp), weight, floor, most, np.array([budget_bps]))
    shares: list[float] = np.minimum(most, np.maximum(floor, level * weight)).tolist()
    return shares
