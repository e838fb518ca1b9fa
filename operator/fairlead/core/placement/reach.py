"""Which interfaces reach each other: by a declared network, by a subnet, or perhaps over routers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cache
from ipaddress import IPv4Interface, IPv6Interface
from typing import Final

from fairlead.core.dtn import NodeInterface

LinkKey = tuple[str, Hashable, bool]
"""What an interface can be reached by: kind (`network`, `subnet` or `family`), which one, and whether its network is declared."""

NEAR, FAR = 0, 1
"""One network or subnet; perhaps over routers."""

_FAMILIES: Final = (4, 6)
_NO_SUBNETS: Final = {4: ((16, 0xA9FE), (24, 0x7F)), 6: ((118, 0x3FA),)}
"""Link-local and loopback networks, by the bits of an address that are left out and what the others are: they are on every link."""


class Reach:
    """What one interface is on. Interfaces with the same networks and addresses share one, so that pairs are compared once."""

    __slots__ = ("_known", "far_keys", "far_matches", "keys", "near_keys", "near_matches", "network")

    def __init__(self, network: str | None, subnets: tuple[Hashable, ...], families: tuple[int, ...]) -> None:
        declared = network is not None
        named: list[LinkKey] = [] if network is None else [("network", network, True)]
        self.network = network
        self.near_keys: tuple[LinkKey, ...] = (*named, *(("subnet", subnet, declared) for subnet in subnets))
        self.far_keys: tuple[LinkKey, ...] = tuple(("family", family, declared) for family in families)
        self.keys = self.near_keys + self.far_keys
        self.near_matches = matches(self.near_keys)
        self.far_matches = matches(self.far_keys)
        self._known: dict[Reach, int | None] = {}

    def to(self, other: Reach) -> int | None:
        """How well the other interface is reached: NEAR, FAR, or None for not at all."""
        try:
            return self._known[other]
        except KeyError:
            self._known[other] = known = self._compare(other)
            return known

    def _compare(self, other: Reach) -> int | None:
        if self.network is not None and other.network is not None:
            return NEAR if self.network == other.network else None
        if not frozenset(self.near_matches).isdisjoint(other.near_keys):
            return NEAR
        return None if frozenset(self.far_matches).isdisjoint(other.far_keys) else FAR


@cache
def matches_of(key: LinkKey) -> tuple[LinkKey, ...]:
    """Keys of the interfaces that one with `key` reaches by it."""
    return matches((key,))


def matches(keys: Iterable[LinkKey]) -> tuple[LinkKey, ...]:
    """Keys of the interfaces that one with `keys` reaches by them. Two declared networks are compared by their names alone."""
    found: dict[LinkKey, None] = {}
    for kind, name, declared in keys:
        if kind == "network":
            found[kind, name, True] = None
            continue
        found[kind, name, False] = None
        if not declared:
            found[kind, name, True] = None
    return tuple(found)


def reach_of(interface: NodeInterface) -> Reach:
    """What the interface is on. One whose addresses are not known may have any."""
    subnets: dict[Hashable, None] = {}
    families: set[int] = set()
    for address in interface.addresses:
        subnet = _subnet(address)
        if subnet is not None:
            subnets[subnet] = None
            families.add(address.version)
    return _shared(interface.network, tuple(subnets), tuple(sorted(families)) or _FAMILIES)


def _subnet(address: IPv4Interface | IPv6Interface) -> Hashable | None:
    number = int(address.network.network_address)
    if any(number >> bits == prefix for bits, prefix in _NO_SUBNETS[address.version]):
        return None
    return (address.version, number, address.network.prefixlen)


@cache
def _shared(network: str | None, subnets: tuple[Hashable, ...], families: tuple[int, ...]) -> Reach:
    return Reach(network, subnets, families)
