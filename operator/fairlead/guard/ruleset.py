"""The rules of one nftables table, for senders that no program at their control group holds: a pure function of them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from fairlead.core.settings import GUARDED_MOST_BPS

TABLE = "fairlead_guard"
TOLERANCE = 1.05
"""A sender that keeps to its cap is never touched: it stays within 2 % of it."""
_LEAST_BURST_BYTES = 256 << 10
"""Packets leave a host in bundles of up to 64 KiB."""
_MOST_BURST_BYTES = 1 << 30
_BURST_SECONDS = 0.25
"""Beside the second's worth that the kernel's limit always lets through at once after a pause, whatever burst it is given."""
_BITS = 8


@dataclass(frozen=True, slots=True, order=True)
class NetworkClass:
    """What the processes of one pod send, by the class of their control group of version 1."""

    number: int


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """What anybody on the node sends to this address and port, of TCP or UDP."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class HeldSender:
    """What a rule applies to, and its cap in bits per second."""

    match: NetworkClass | Endpoint
    cap_bps: int


class NoRuleError(ValueError):
    """A sender that cannot be expressed as a rule; the message says why."""


def ruleset(senders: Iterable[HeldSender]) -> str:
    """The table as a script for `nft -f`, which replaces the one before as a whole. What is above a rate is dropped, which slows TCP, QUIC
    and UDT down.

    Raises NoRuleError.
    """
    rules = "".join(f"    {rule}\n" for rule in sorted(map(rule_of, senders)))
    chain = f"  chain output {{\n    type filter hook output priority filter; policy accept;\n{rules}  }}\n"
    return f"{no_rules()}table inet {TABLE} {{\n{chain}}}\n"


def no_rules() -> str:
    """The script that removes the table, also where there is none."""
    return f"table inet {TABLE}\ndelete table inet {TABLE}\n"


def rule_of(sender: HeldSender) -> str:
    """One rule. Raises NoRuleError for an address that is no other host's, and for caps beyond what the kernel counts."""
    if sender.cap_bps > GUARDED_MOST_BPS:
        raise NoRuleError(f"a cap of {sender.cap_bps} bit/s is more than a rule of nftables can count")
    rate = max(1, round(sender.cap_bps * TOLERANCE / _BITS))
    burst = min(max(_LEAST_BURST_BYTES, round(rate * _BURST_SECONDS)), _MOST_BURST_BYTES)
    return f"{_match(sender.match)} limit rate over {rate} bytes/second burst {burst} bytes counter drop"


def _match(match: NetworkClass | Endpoint) -> str:
    if isinstance(match, NetworkClass):
        return f'meta cgroup {int(match.number)} oifname != "lo"'
    try:
        address = ipaddress.ip_address(match.address)
    except ValueError as error:
        raise NoRuleError(str(error)) from error
    if not 0 < match.port < 1 << 16:
        raise NoRuleError(f"{match.port} is no port")
    scoped = isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None
    if scoped or address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        raise NoRuleError(f"{match.address} is not the address of another host's data interface")
    family = "ip" if address.version == 4 else "ip6"
    return f"{family} daddr {address} meta l4proto {{ tcp, udp }} th dport {int(match.port)}"
