"""`DataTransferNode.spec`: what an administrator declares about a node: its site, how many movers it takes, and its interfaces."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fairlead.api.shared.fields import InterfaceName, RateText, rate_bounds
from fairlead.api.shared.quantity import parse_rate
from fairlead.api.shared.resource import ApiModel
from fairlead.api.shared.schema import marks

MOST_INTERFACES = 64
LARGEST_MTU = 65535
MOST_NUMA_NODES = 1024

SiteName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")]
NetworkName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
"""The name of a network that an interface reaches, such as `wan`. Not the `network` of a TransferJob."""
Mtu = Annotated[int, Field(ge=68, le=LARGEST_MTU)]
NumaNode = Annotated[int, Field(ge=0, le=MOST_NUMA_NODES - 1)]


class DeclaredInterface(ApiModel):
    """What an administrator knows of an interface. It comes before what the node's agent finds."""

    name: InterfaceName
    """Name of the interface on the node."""

    rate: RateText | None = Field(default=None, json_schema_extra=marks(rate_bounds("rate")))
    """What it carries in decimal bits per second, e.g. `100G`. What its driver says if absent; a virtual interface says nothing."""

    mtu: Mtu | None = None
    """Largest IP packet in bytes. What the agent finds if absent."""

    numa_node: NumaNode | None = None
    """Number of the NUMA node that its device is on. What the agent finds if absent."""

    network: NetworkName | None = None
    """Name of the network that it reaches, e.g. `wan`. Interfaces of two nodes with the same name reach each other."""

    data: bool = True
    """Whether it may carry data of transfers."""


class DataTransferNodeSpec(ApiModel):
    """What an administrator declares. All of it may be left out."""

    site: SiteName | None = None
    """Where the node is, e.g. `geneva`."""

    slots: Annotated[int, Field(ge=0, le=1024)] = 8
    """Most movers that may run on the node at a time. With 0 no new one is placed there."""

    interfaces: Annotated[tuple[DeclaredInterface, ...], Field(max_length=MOST_INTERFACES)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("name",))
    )
    """The interfaces that may carry data; those that are not listed may not. Empty: every interface that the agent finds up with a global
    address, apart from bridges, the ends of pods, and the one with the kubelet's address unless there is no other."""

    def declared(self, name: str) -> DeclaredInterface | None:
        """What is declared of an interface, None if it is not listed."""
        return next((interface for interface in self.interfaces if interface.name == name), None)


def declared_rate_bps(interface: DeclaredInterface | None) -> int | None:
    """The declared rate in bits per second, None without one."""
    return None if interface is None or interface.rate is None else parse_rate(interface.rate)
