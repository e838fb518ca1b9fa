"""Interfaces as netlink shows them (rtnetlink(7)), through pyroute2."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyroute2 import IPRoute, NetlinkError

_IFF_UP: Final = 1
_WITH_FUNCTIONS: Final = 1
"""RTEXT_FILTER_VF: the kernel lists virtual functions only if it is asked to."""
_QUEUES: Final = "mq"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Function:
    """A virtual function; `maximum_mbps` is 0 without a limit, None if unknown."""

    index: int
    maximum_mbps: int | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """An interface of this network namespace."""

    name: str
    kind: str | None = None
    """Kind of a virtual interface, e.g. `vlan`; None for a device."""
    is_up: bool = False
    has_carrier: bool | None = None
    mtu: int | None = None
    qdisc: str | None = None
    """The queueing discipline; of an interface with several queues that of each, if they agree."""
    addresses: tuple[str, ...] = ()
    """With the length of their prefix, in the kernel's order."""
    functions: tuple[Function, ...] = field(default=())


def read_links(names: Iterable[str]) -> list[Link]:
    """The interfaces of these names that exist. Raises OSError where netlink cannot be used."""
    links: list[Link] = []
    # With the strict check the kernel itself filters by interface: a node may have thousands of pods' ends.
    with IPRoute(strict_check=True) as route:
        for name in names:
            try:
                for message in route.link("get", ifname=name, ext_mask=_WITH_FUNCTIONS):
                    addresses = list(route.get_addr(index=message["index"]))
                    links.append(link_of(message, addresses, _queue_disciplines(route, message)))
            except NetlinkError as error:
                # It went away since it was listed.
                logger.debug("interface %s: %s", name, error)
    return links


def link_of(message: Mapping[str, Any], addresses: Sequence[Mapping[str, Any]], queue_disciplines: Sequence[str] = ()) -> Link:
    """A link from its RTM_NEWLINK message, its RTM_NEWADDR messages and the kinds of the disciplines of its queues."""
    attributes = _attributes(message)
    carrier = attributes.get("IFLA_CARRIER")
    qdisc = attributes.get("IFLA_QDISC")
    kinds = set(queue_disciplines)
    return Link(
        name=str(attributes.get("IFLA_IFNAME", "")),
        kind=_attributes(attributes.get("IFLA_LINKINFO")).get("IFLA_INFO_KIND"),
        is_up=bool(int(message.get("flags", 0)) & _IFF_UP),
        has_carrier=None if carrier is None else bool(carrier),
        mtu=attributes.get("IFLA_MTU"),
        qdisc=kinds.pop() if qdisc == _QUEUES and len(kinds) == 1 else qdisc,
        addresses=tuple(_address(each) for each in addresses if _attributes(each).get("IFA_ADDRESS")),
        functions=tuple(_functions(attributes.get("IFLA_VFINFO_LIST"))),
    )


def _queue_disciplines(route: IPRoute, message: Mapping[str, Any]) -> list[str]:
    if _attributes(message).get("IFLA_QDISC") != _QUEUES:
        return []
    found = (_attributes(each).get("TCA_KIND") for each in route.get_qdiscs(index=message["index"]))
    return [kind for kind in found if kind is not None and kind != _QUEUES]


def _address(message: Mapping[str, Any]) -> str:
    attributes = _attributes(message)
    # On a point-to-point link IFA_ADDRESS is the peer's.
    return f"{attributes.get('IFA_LOCAL') or attributes['IFA_ADDRESS']}/{message['prefixlen']}"


def _functions(listed: Any) -> Iterable[Function]:
    for attribute in (listed or {}).get("attrs", ()):
        attributes = _attributes(attribute[1])
        rate, older = attributes.get("IFLA_VF_RATE"), attributes.get("IFLA_VF_TX_RATE")
        if rate is not None:
            yield Function(int(rate["vf"]), int(rate["max_tx_rate"]))
        elif older is not None:
            yield Function(int(older["vf"]), int(older["tx_rate"]))
        elif "IFLA_VF_MAC" in attributes:
            yield Function(int(attributes["IFLA_VF_MAC"]["vf"]))


def _attributes(message: Any) -> dict[str, Any]:
    """The attributes of a message or of a nested one, the first of each name."""
    found: dict[str, Any] = {}
    for attribute in (message or {}).get("attrs", ()):
        found.setdefault(attribute[0], attribute[1])
    return found
