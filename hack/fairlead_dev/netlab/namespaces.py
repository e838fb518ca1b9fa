"""Network namespaces named PREFIX-PROCESS-NUMBER-END: made, set up, entered and removed, also those of a process that was killed."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from fairlead_dev.errors import LabError
from fairlead_dev.netlab.processes import run

NAMESPACES = Path("/run/netns")
TCP_BUFFERS = {"net.ipv4.tcp_rmem": "4096 131072 67108864", "net.ipv4.tcp_wmem": "4096 65536 67108864"}
"""Maxima that a long path needs."""

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def name_of(prefix: str, process_id: int, number: int, end: str) -> str:
    """The name of one namespace of the lab of that number that a process made. `prefix` has one hyphen."""
    return f"{prefix}-{process_id}-{number}-{end}"


@contextmanager
def namespaces(names: Sequence[str]) -> Iterator[None]:
    """Namespaces with their loopback up, removed with the block, also when making them fails half-way. Raises LabError."""
    with ExitStack() as made:
        for name in names:
            made.callback(delete, name)
            run(["ip", "netns", "add", name])
            ip(name, "link set lo up")
        yield


def delete(name: str) -> bool:
    """Removes a namespace; whether there was one and it is gone."""
    path = NAMESPACES / name
    if not path.exists():
        return False
    try:
        run(["ip", "netns", "del", name])
    except LabError:
        # A killed `ip netns add` leaves a plain file, which `ip netns del` refuses.
        with suppress(OSError):
            path.unlink()
    return not path.exists()


def remove_abandoned(prefix: str, folder: Path = NAMESPACES) -> list[str]:
    """Removes the namespaces of processes that are dead; returns the names of those in `folder`."""
    removed = []
    for path in sorted(folder.glob(f"{prefix}-*")):
        owner = path.name.removeprefix(f"{prefix}-").split("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists() and (delete(path.name) or folder != NAMESPACES):
            removed.append(path.name)
    return removed


def ip(namespace: str, *lines: str) -> None:
    """Runs lines of `ip -batch` in a namespace. Raises LabError."""
    run(["ip", "-n", namespace, "-batch", "-"], stdin="\n".join(lines) + "\n")


def sysctl(namespace: str, settings: Mapping[str, str]) -> None:
    """Sets kernel parameters of a namespace. Raises LabError."""
    words = [f"{key}={value}" for key, value in settings.items()]
    run(["nsenter", f"--net={NAMESPACES / namespace}", "--", "sysctl", "-qw", *words])


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Sockets that this thread opens within belong to the network namespace of that name, and stay there. Raises OSError."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(NAMESPACES / namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _enter(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _enter(home)
    finally:
        os.close(home)


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot enter a network namespace: {os.strerror(number)}")
