"""The rules of one nftables table, for senders that no program at their control group holds: a pure function of them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
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


Chains = Mapping[str, tuple[str, ...]]
"""The rules of each chain by the chain's name. There is one for each thing that a sender is known by."""


def chains_of(senders: Iterable[HeldSender]) -> Chains:
    """What is above a rate is dropped, which slows TCP, QUIC and UDT down. Raises NoRuleError."""
    rules: dict[str, list[str]] = {}
    for sender in senders:
        rule = rule_of(sender)
        rules.setdefault(_chain_of(sender.match), []).append(rule)
    return {name: tuple(sorted(rules[name])) for name in sorted(rules)}


def ruleset(chains: Chains) -> str:
    """The table as a script for `nft -f`, which replaces the one before as a whole; without chains there is none."""
    if not chains:
        return no_rules()
    lines = [f"table inet {TABLE} {{"]
    for name, rules in chains.items():
        lines += [f"  chain {name} {{", *(f"    {rule}" for rule in rules), "  }"]
    lines += ["  chain output {", "    type filter hook output priority filter; policy accept;"]
    lines += [*(f"    jump {name}" for name in chains), "  }", "}"]
    return no_rules() + _lines(lines)


def difference(before: Chains, after: Chains) -> str:
    """The script that makes one table of another. It leaves chains alone that are the same in both: a new limit of the kernel begins full,
    so that a sender whose rule is made again may send a burst beside its cap. nft refuses it where the table is gone.
    """
    if not after:
        return no_rules()
    table = f"inet {TABLE}"
    lines = [f"flush chain {table} output"]
    for name in sorted(before.keys() - after.keys()):
        lines += [f"flush chain {table} {name}", f"delete chain {table} {name}"]
    for name, rules in after.items():
        if before.get(name) != rules:
            lines += [f"add chain {table} {name}", f"flush chain {table} {name}", *(f"add rule {table} {name} {rule}" for rule in rules)]
    lines += [f"add rule {table} output jump {name}" for name in after]
    return _lines(lines)


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


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _chain_of(match: NetworkClass | Endpoint) -> str:
    if isinstance(match, NetworkClass):
        return f"class_{match.number:x}"
    return f"to_{ipaddress.ip_address(match.address).packed.hex()}_{match.port}"


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
