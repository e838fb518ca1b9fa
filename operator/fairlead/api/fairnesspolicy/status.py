"""`FairnessPolicy.status`: how the links are shared now."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fairlead.api.fairnesspolicy.spec import MOST_LINKS
from fairlead.api.shared.fields import Condition
from fairlead.api.shared.resource import ApiModel
from fairlead.api.shared.schema import marks

CapacitySource = Literal["Policy", "NetworkPath"]


class LinkStatus(ApiModel):
    """How one link is shared now. Rates are decimal bits per second, rounded."""

    name: str
    """Name of the link."""

    capacity: str
    """What the link carries."""

    capacity_source: CapacitySource | None = None
    """Who says so: the `Policy`, or the link's `NetworkPath` with the capacity that its spec declares."""

    available: str
    """What jobs may have together: the capacity less headroom and others' traffic, at least the floor."""

    allocated: str
    """What their caps add up to."""

    measured: str | None = None
    """What they were measured to use; absent until something was measured."""

    foreign: str | None = None
    """What others were measured to use; absent where neither a node agent nor a mover reports its interface's counters, and for a link by
    `networkPath`, as no counter is a path's own."""

    jobs: int
    """Jobs that cross it."""

    waiting: int
    """Jobs that wait for room on it."""

    jain_index: str | None = None
    """Jain's index of what was measured per weight; 1 is even. Jobs that use less than they may lower it."""


class TenantStatus(ApiModel):
    """What one tenant has now, over all its jobs. Rates are decimal bits per second, rounded."""

    name: str
    """Name of the tenant."""

    namespaces: int
    """Namespaces that it has."""

    jobs: int
    """Its jobs that cross a link of the policy."""

    waiting: int
    """Its jobs that wait for room on a link."""

    allocated: str
    """What its jobs' caps add up to."""

    measured: str | None = None
    """What its jobs were measured to use; absent until something was measured."""

    jain_index: str | None = None
    """Jain's index of what was measured per weight of its jobs."""


class FairnessPolicyStatus(ApiModel):
    """What has become of the policy. Written at most every 10 seconds, unless a condition changes."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("type",))
    )
    """What holds for the policy."""

    links: Annotated[tuple[LinkStatus, ...], Field(max_length=MOST_LINKS)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("name",))
    )
    """Each link's shares."""

    tenants: Annotated[tuple[TenantStatus, ...], Field(max_length=129)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("name",))
    )
    """Each tenant's shares."""

    jobs: int | None = None
    """Jobs that cross a link of the policy."""

    waiting: int | None = None
    """Jobs that wait for room on a link."""

    jain_index: str | None = None
    """Jain's index of what was measured per weight, over all jobs; a job's weight is its part of its tenant's."""

    observed_generation: int | None = None
    """The generation of the spec that this status answers."""
