"""Which interfaces reach each other: by a declared network, by a subnet, or perhaps over routers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Set
from functools import lru_cache
from ipaddress import IPv4Interface, IPv6Interface
from typing import Final

from fairlead.core.dtn import NodeInterface

LinkKey = tuple[str, Hashable, bool]
"""What an interface can be reached by: kind (`network`, `subnet` or `family`), which one, and whether its network is declared."""

NETWORK, SUBNET, FAMILY = "network", "subnet", "family"
NEAR, FAR = 0, 1
"""One network or subnet; perhaps over routers."""

_FAMILIES: Final = (4, 6)
_ONLY_4: Final = (4,)
_ONLY_6: Final = (6,)
_MOST_REMEMBERED: Final = 1 << 16
_NO_SUBNETS: Final = {4: ((16, 0xA9FE), (24, 0x7F)), 6: ((118, 0x3FA),)}
"""Link-local and loopback networks, by the bits of an address that are left out and what the others are: they are on every link."""


class Reach:
    """What one interface is on; `families` are versions of IP."""

    __slots__ = ("_families", "_subnets", "far_matches", "keys", "near_matches", "network", "subnets")

    def __init__(self, network: str | None, subnets: tuple[Hashable, ...], families: tuple[int, ...]) -> None:
        declared = network is not None
        named: list[LinkKey] = [] if network is None else [(NETWORK, network, True)]
        self.network = network
        self.subnets = subnets
        near_keys: tuple[LinkKey, ...] = (*named, *((SUBNET, subnet, declared) for subnet in subnets))
        far_keys: tuple[LinkKey, ...] = tuple((FAMILY, family, declared) for family in families)
        self.keys = near_keys + far_keys
        self.near_matches = matches(near_keys)
        """The keys of interfaces on one network or subnet with this one."""
        self.far_matches = matches(far_keys)
        """The keys of those that it may reach over routers."""
        self._subnets = frozenset(subnets)
        self._families = families

    def on(self, subnets: Set[Hashable]) -> Reach:
        """The same without all other subnets."""
        left = tuple(subnet for subnet in self.subnets if subnet in subnets)
        return self if left == self.subnets else _shared(self.network, left, self._families)

    def to(self, other: Reach) -> int | None:
        """How well the other interface is reached: NEAR, FAR, or None for not at all."""
        if self.network is not None and other.network is not None:
            return NEAR if self.network == other.network else None
        if not self._subnets.isdisjoint(other._subnets):
            return NEAR
        return FAR if any(family in other._families for family in self._families) else None


@lru_cache(maxsize=_MOST_REMEMBERED)
def matches_of(key: LinkKey) -> tuple[LinkKey, ...]:
    """Keys of the interfaces that one with `key` reaches by it."""
    return matches((key,))


def matches(keys: Iterable[LinkKey]) -> tuple[LinkKey, ...]:
    """Keys of the interfaces that one with `keys` reaches by them. Two declared networks are compared by their names alone."""
    found: dict[LinkKey, None] = {}
    for kind, name, declared in keys:
        if kind == NETWORK:
            found[kind, name, True] = None
            continue
        found[kind, name, False] = None
        if not declared:
            found[kind, name, True] = None
    return tuple(found)


def reach_of(interface: NodeInterface) -> Reach:
    """What the interface is on. One whose addresses are not known may have any."""
    subnets: list[Hashable] = []
    has_4 = has_6 = False
    for address in interface.addresses:
        subnet = _subnet(address)
        if subnet is None:
            continue
        if subnet not in subnets:
            subnets.append(subnet)
        if subnet[0] == 4:
            has_4 = True
        else:
            has_6 = True
    return _shared(interface.network, tuple(subnets), _FAMILIES if has_4 == has_6 else _ONLY_4 if has_4 else _ONLY_6)


def _subnet(address: IPv4Interface | IPv6Interface) -> tuple[int, int, int] | None:
    network, version = address.network, address.version
    number = int(network.network_address)
    for bits, prefix in _NO_SUBNETS[version]:
        if number >> bits == prefix:
            return None
    return version, number, network.prefixlen


@lru_cache(maxsize=_MOST_REMEMBERED)
def _shared(network: str | None, subnets: tuple[Hashable, ...], families: tuple[int, ...]) -> Reach:
    return Reach(network, subnets, families)
