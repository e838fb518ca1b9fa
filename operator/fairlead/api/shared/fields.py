"""Types of fields that several resources have: names of objects, rates and conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from fairlead.api.shared.quantity import RATE_PATTERN
from fairlead.api.shared.resource import ApiModel, Timestamp
from fairlead.api.shared.schema import cel

SLOWEST = "64k"
FASTEST = "10T"
DEFAULT_WEIGHT = 100
HEAVIEST = 1_000_000
LONGEST_MESSAGE = 1024
_DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=_DNS_SUBDOMAIN)]
InterfaceName = Annotated[str, Field(min_length=1, max_length=15, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.\-]*$")]
RateText = Annotated[str, Field(min_length=1, max_length=20, pattern=RATE_PATTERN)]

ConditionStatus = Literal["True", "False", "Unknown"]


def rate_bounds(field: str) -> Mapping[str, str]:
    """The rule that refuses rates no network has."""
    return cel(
        f"quantity(self).compareTo(quantity('{SLOWEST}')) >= 0 && quantity(self).compareTo(quantity('{FASTEST}')) <= 0",
        f"{field} must lie between {SLOWEST} and {FASTEST}: it is in decimal bits per second",
    )


class Condition(ApiModel):
    """One aspect of the job, in the form every Kubernetes tool knows."""

    type: Annotated[str, Field(max_length=316)]
    """Which aspect."""

    status: ConditionStatus
    """Whether it holds."""

    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """Why, as a documented constant."""

    message: Annotated[str, Field(max_length=32768)]
    """Why, in words a person can act on."""

    last_transition_time: Timestamp
    """When `status` last changed."""

    observed_generation: int | None = None
    """The generation of the spec this was concluded from."""
