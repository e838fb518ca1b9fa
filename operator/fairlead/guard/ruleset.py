"""The kernel's rules: those of one nftables table, a pure function of the senders that are to be held."""

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
class HeldSender:
    """A sender by what it sends to, and its cap in bits per second."""

    address: str
    port: int
    cap_bps: int


def ruleset(senders: Iterable[HeldSender]) -> str:
    """The table as a script for `nft -f`, which replaces the one before as a whole. What is above a rate is dropped: TCP slows down.

    Caps above `GUARDED_MOST_BPS` are more than the kernel can count: such a sender has no rule, as one would spoil the whole script.
    """
    rules = "".join(f"    {rule}\n" for sender in sorted(senders) if (rule := _rule(sender)))
    chain = f"  chain output {{\n    type filter hook output priority filter; policy accept;\n{rules}  }}\n"
    return f"{no_rules()}table inet {TABLE} {{\n{chain}}}\n"


def no_rules() -> str:
    """The script that removes the table, also where there is none."""
    return f"table inet {TABLE}\ndelete table inet {TABLE}\n"


def _rule(sender: HeldSender) -> str | None:
    address = ipaddress.ip_address(sender.address)
    if sender.cap_bps > GUARDED_MOST_BPS:
        return None
    family = "ip" if address.version == 4 else "ip6"
    rate = max(1, round(sender.cap_bps * TOLERANCE / _BITS))
    burst = min(max(_LEAST_BURST_BYTES, round(rate * _BURST_SECONDS)), _MOST_BURST_BYTES)
    limit = f"limit rate over {rate} bytes/second burst {burst} bytes"
    return f"{family} daddr {address} tcp dport {int(sender.port)} {limit} counter drop"
