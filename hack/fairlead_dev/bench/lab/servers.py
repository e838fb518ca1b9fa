"""Servers that a peer needs before it can begin."""

from __future__ import annotations

from typing import Literal

from fairlead_dev.bench.lab.mover import SERVER_LIMIT_S
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.processes import Process, run, wait_until

IPERF_PORT = 5201


def await_listening(server: Process, namespace: str, port: int, *, protocol: Literal["tcp", "udp"] = "tcp") -> None:
    """Waits until somebody listens on the port; raises LabError with the server's log if it ends before."""
    listening = ["ss", "-ltnH" if protocol == "tcp" else "-lunH", f"sport = :{port}"]
    wait_until(
        lambda: not server.is_running or bool(run(listening, namespace=namespace).strip()), f"the port of {server.shown}", SERVER_LIMIT_S
    )
    if not server.is_running:
        raise LabError(f"`{server.shown}` ended{server.log_tail()}")
