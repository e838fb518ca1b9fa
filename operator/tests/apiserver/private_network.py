"""Puts this process into a network namespace of its own, where addresses of 127.0.0.0/8 belong to nobody else."""

from __future__ import annotations

import ctypes
import os
import subprocess

_CLONE_NEWNET = 0x40000000


class PrivateNetworkError(RuntimeError):
    """The process may not make network namespaces."""


def enter() -> None:
    """Moves the calling thread, and with it all threads and processes it starts later, into a new namespace with its loopback up."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        raise PrivateNetworkError(
            f"a private network namespace could not be made ({os.strerror(ctypes.get_errno())}): run the API server tests as root"
        )
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Addresses that a pod on the pod network may have: those of the loopback are nobody's endpoint.
    subprocess.run(["ip", "route", "add", "local", "198.19.0.0/24", "dev", "lo"], check=True)
