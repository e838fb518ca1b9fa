"""Ports of this machine for servers that tests start."""

from __future__ import annotations

import socket


def free_port() -> int:
    """One that nothing listens on in either family: with 0, a server for both would have another port in each."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as both:
        port: int = both.getsockname()[1]
        return port
