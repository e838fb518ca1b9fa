"""Answers every datagram: the far end of the probe, in a namespace of its own. An answer is never larger than the probe's own request."""

from __future__ import annotations

import socket

from fairlead_advisor.probe.wire import DATAGRAM_BYTES
from fairlead_dev.netlab.namespaces import inside
from fairlead_dev.testbed.agents.channel import await_start, receive_plan
from fairlead_dev.testbed.lab.kernel import SO_RCVBUFFORCE

_MOST_BYTES = 2048
_RECEIVE_BUFFER_BYTES = 8_000_000
"""For a burst that arrives while this process waits for the processor: what was dropped here would pass for the path's loss."""


def main() -> None:
    """Serve until ended by the runner."""
    plan = receive_plan()
    with inside(plan["namespace"]):
        service = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    service.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
    service.bind((plan["address"], plan["port"]))
    await_start(plan["priority"])
    while True:
        request, sender = service.recvfrom(_MOST_BYTES)
        service.sendto(request[:DATAGRAM_BYTES], sender)


if __name__ == "__main__":
    main()
