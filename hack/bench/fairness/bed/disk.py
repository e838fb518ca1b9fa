"""A slow disk: the kernel holds one process to a rate of reading, and a file that is not in memory is read from the disk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from lab.errors import BenchError, NotAvailableError

CGROUPS = Path("/sys/fs/cgroup")
PIECE_BYTES = 8 << 20


class SlowDisk:
    """A control group whose processes read from one disk at no more than a rate."""

    def __init__(self, group: Path) -> None:
        self._group = group

    def hold(self, pid: int) -> None:
        """Puts a process under it."""
        (self._group / "cgroup.procs").write_text(str(pid))


@contextlib.contextmanager
def slow_disk(folder: Path, rate_bytes_per_second: float) -> Iterator[SlowDisk]:
    """The disk of `folder` at this rate. Processes must have ended before the block does. Raises NotAvailableError."""
    device = _disk_of(folder)
    number, limit = f"fairlead-fairness-{os.getpid()}", f"{rate_bytes_per_second:.0f}"
    legacy = CGROUPS / "blkio" / "blkio.throttle.read_bps_device"
    group = (CGROUPS / "blkio" if legacy.exists() else CGROUPS) / number
    try:
        if legacy.exists():
            group.mkdir()
            (group / legacy.name).write_text(f"{device} {limit}")
        else:
            (CGROUPS / "cgroup.subtree_control").write_text("+io")
            group.mkdir()
            (group / "io.max").write_text(f"{device} rbps={limit}")
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        raise NotAvailableError(f"the kernel cannot hold a process to a rate of reading from the disk of {folder} ({error})") from error
    try:
        yield SlowDisk(group)
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


def write_cold_file(path: Path, size_bytes: int) -> None:
    """A file that is on the disk and not in memory."""
    with path.open("wb") as file:
        for _ in range(0, size_bytes, PIECE_BYTES):
            file.write(os.urandom(PIECE_BYTES))
        file.flush()
        os.fsync(file.fileno())
    forget(path)


def forget(path: Path) -> None:
    """Takes a file out of the page cache."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _disk_of(folder: Path) -> str:
    """Major and minor number of the whole disk that holds a folder."""
    number = folder.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    entry = Path("/sys/dev/block") / device
    if not entry.exists():
        raise NotAvailableError(f"{folder} is on no disk of its own (device {device}): give another folder with --scratch")
    if (entry / "partition").exists():
        device = (entry.resolve().parent / "dev").read_text().strip()
    if not device:
        raise BenchError(f"the disk of {folder} has no number")
    return device
