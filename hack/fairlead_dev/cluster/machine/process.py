"""Telling the cluster's own processes from everyone else's, and ending only those."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

MARK = "FAIRLEAD_CLUSTER_STATE"
"""Environment variable carried by every daemon of a cluster; its value is the cluster's state folder."""

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for all time: the kernel reuses process ids, but not together with the boot and the start time."""

    pid: int
    start_ticks: int
    boot_id: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Identity | None:
        """The recorded process; None if the record is damaged, as a killed writer may leave it."""
        try:
            record = json.loads(text)
            return Identity(int(record["pid"]), int(record["start_ticks"]), str(record["boot_id"]))
        except (ValueError, KeyError, TypeError):
            return None


def parse_start_ticks(stat: str) -> int:
    """Field 22 of /proc/PID/stat; the command in field 2 may itself hold blanks and parentheses."""
    return int(stat[stat.rindex(")") + 2 :].split()[19])


def identify(pid: int, proc: Path = PROC) -> Identity | None:
    """The process that has this id now; None if there is none."""
    try:
        ticks = parse_start_ticks((proc / str(pid) / "stat").read_text())
        return Identity(pid, ticks, (proc / "sys/kernel/random/boot_id").read_text().strip())
    except (OSError, ValueError):
        return None


def is_alive(identity: Identity, proc: Path = PROC) -> bool:
    """Whether this very process still runs (a zombie does not)."""
    if identify(identity.pid, proc) != identity:
        return False
    try:
        stat = (proc / str(identity.pid) / "stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"


def kill(identity: Identity) -> bool:
    """SIGKILL this very process; False if it is gone. A pidfd closes the gap between the check and the signal."""
    try:
        handle = os.pidfd_open(identity.pid)
    except OSError:
        return False
    try:
        if not is_alive(identity):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def mark_of(environ: bytes) -> str | None:
    """The state folder in a process's environment block, if it carries the mark."""
    prefix = f"{MARK}=".encode()
    for entry in environ.split(b"\0"):
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return None


def marked(proc: Path = PROC) -> Iterator[tuple[Identity, str]]:
    """Every process that carries the mark of a cluster, with the state folder it belongs to."""
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            state = mark_of((folder / "environ").read_bytes())
        except OSError:
            continue
        identity = identify(int(folder.name), proc) if state else None
        if state and identity and is_alive(identity, proc):
            yield identity, state


def command_line(pid: int, proc: Path = PROC) -> str:
    """What a process was started as, for messages."""
    try:
        return (proc / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
