"""`NetworkPath.spec`: which direction between which two ends, and what somebody declares about it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from fairlead.api.shared.fields import InterfaceName, ObjectName, RateText, rate_bounds
from fairlead.api.shared.quantity import parse_rate
from fairlead.api.shared.resource import ApiModel
from fairlead.api.shared.schema import immutable, marks

OtherTraffic = Literal["Spare", "Compete"]


def _fixed(field: str) -> dict[str, Any]:
    return marks(immutable(field, "path", "NetworkPath"))


class PathEnd(ApiModel):
    """One end of a path."""

    node: ObjectName
    """Name of the node."""

    interface: InterfaceName | None = None
    """Name of the interface on the node that carries the data. Whichever it is if absent."""


class NetworkPathSpec(ApiModel):
    """Which path it is. Fairlead makes an object for every path that a transfer has taken; one made by hand may declare a capacity."""

    source: PathEnd = Field(json_schema_extra=_fixed("source"))
    """The end that sends."""

    destination: PathEnd = Field(json_schema_extra=_fixed("destination"))
    """The end that receives."""

    capacity: RateText | None = Field(default=None, json_schema_extra=marks(rate_bounds("capacity")))
    """What the path is known to carry, in decimal bits per second, e.g. `10G`. May change. Only measured if absent."""

    other_traffic: OtherTraffic = "Spare"
    """Whether advisors `Spare` traffic that is not Fairlead's, or `Compete` with it: where the path is yours alone, jobs then take as many
    streams as bring goodput, also where they bring it at others' cost, and BBR as soon as there may be any. Caps and policies hold either
    way. May change; jobs that start from then on follow."""

    @property
    def capacity_bps(self) -> int | None:
        """The declared capacity in bits per second, None without one."""
        return None if self.capacity is None else parse_rate(self.capacity)
