"""`NetworkPath.spec`: which direction between which two ends, and what somebody declares about it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from fairlead.api.shared.fields import InterfaceName, ObjectName, RateText, rate_bounds
from fairlead.api.shared.quantity import parse_rate
from fairlead.api.shared.resource import ApiModel
from fairlead.api.shared.schema import cel, immutable, marks

MOST_SHARES = 32
_WORDS = "self == 'Spare' || self == 'Compete'"
OtherTraffic = Annotated[
    Literal["Spare", "Compete"] | Annotated[int, Field(strict=True, ge=1, le=MOST_SHARES)],
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            **marks(
                cel(
                    f"type(self) == int ? self >= 1 && self <= {MOST_SHARES} : {_WORDS}",
                    f"otherTraffic is none of its values: set Spare, Compete, or a number of shares from 1 to {MOST_SHARES}",
                )
            ),
        }
    ),
]


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
    """What a job may have of a path that is full of traffic which is not Fairlead's. `Spare`: the part of one flow, which is the same as 1.
    A number: the part of so many flows. `Compete`, where the path is yours alone: as many streams as bring goodput, also where they bring
    it at others' cost, and BBR as soon as there may be any. Caps and policies hold either way. May change; jobs that start from then on
    follow."""

    @property
    def competes(self) -> bool:
        """Whether others' traffic need not be spared."""
        return self.other_traffic == "Compete"

    @property
    def shares(self) -> int:
        """How many flows' part of a full path a job may have where others are spared."""
        return self.other_traffic if isinstance(self.other_traffic, int) else 1

    @property
    def capacity_bps(self) -> int | None:
        """The declared capacity in bits per second, None without one."""
        return None if self.capacity is None else parse_rate(self.capacity)
