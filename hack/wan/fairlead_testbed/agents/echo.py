"""Sends every datagram back: the far end of the probe, in a namespace of its own."""

from __future__ import annotations

import socket

from fairlead_testbed.agents.channel import await_start, receive_plan
from fairlead_testbed.lab.kernel import inside

_MOST_BYTES = 2048


def main() -> None:
    """Serve until ended by the runner."""
    plan = receive_plan()
    with inside(plan["namespace"]):
        service = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    service.bind((plan["address"], plan["port"]))
    await_start(plan["priority"])
    while True:
        service.sendto(*service.recvfrom(_MOST_BYTES))


if __name__ == "__main__":
    main()
