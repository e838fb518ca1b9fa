"""TCP connections as the kernel shows them, whatever the programs say that own them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fairlead_dev.clients.kubectl import run

_ACKNOWLEDGED = re.compile(r"\bbytes_acked:(\d+)")


@dataclass(frozen=True, slots=True)
class Connection:
    """An established connection: its own port, the congestion control in force, and the bytes that have arrived at the other end."""

    port: int
    congestion_control: str
    acknowledged_bytes: int


def busiest(namespace: str, address: str, port: int) -> Connection | None:
    """Of the connections from a network namespace to that address and port the one that has carried most; None without any."""
    filters = ("state", "established", "dst", f"{address}:{port}")
    text = run(("nsenter", f"--net={namespace}", "--", "ss", "-HtinO", *filters)).decode()
    return max(parse(text), key=lambda connection: connection.acknowledged_bytes, default=None)


def listens(namespace: str, port: int) -> bool:
    """Whether somebody listens on that port in a network namespace."""
    return bool(run(("nsenter", f"--net={namespace}", "--", "ss", "-Hltn", "sport", "=", f":{port}")).strip())


def parse(text: str) -> list[Connection]:
    """What `ss -HtinO state established` prints, a line each; the congestion control is the first word after the addresses."""
    found = []
    for line in text.splitlines():
        _, _, own, _, congestion_control, *_ = line.split(maxsplit=5)
        acknowledged = _ACKNOWLEDGED.search(line)
        found.append(Connection(int(own.rpartition(":")[2]), congestion_control, int(acknowledged[1]) if acknowledged else 0))
    return found
