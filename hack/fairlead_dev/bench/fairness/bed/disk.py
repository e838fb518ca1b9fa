"""A slow disk: a file system of its own, from which the kernel lets a process read at a rate.

It is a loop device, because the disk of the machine may read ahead by several megabytes: at a low rate a transfer would then
see seconds of nothing between lumps, and not a disk that gives so much.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from fairlead_dev.errors import LabError, NotAvailableError
from fairlead_dev.netlab.processes import run

CGROUPS = Path("/sys/fs/cgroup")
PIECE_BYTES = 8 << 20
READ_AHEAD_KIB = 128
"""What a disk has unless somebody changed it."""
ROOM = 1.2
"""The image over the file in it: the file system needs some itself."""


class SlowDisk:
    """A folder, and a control group whose processes read it at no more than a rate."""

    def __init__(self, group: Path, source: Path) -> None:
        self._group = group
        self.source = source
        """The folder with the file that is to be read."""

    def hold(self, pid: int) -> None:
        """Puts a process under it."""
        (self._group / "cgroup.procs").write_text(str(pid))

    def forget(self) -> None:
        """Takes what was read out of memory."""
        for path in self.source.iterdir():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextlib.contextmanager
def slow_disk(scratch: Path, size_bytes: int, rate_bytes_per_second: float) -> Iterator[SlowDisk]:
    """A disk with one file of this size. Its processes must have ended before the block does. Raises LabError."""
    with contextlib.ExitStack() as stack:
        device = _loop_device(stack, scratch / "disk.img", int(size_bytes * ROOM))
        mount = scratch / "disk"
        mount.mkdir()
        run(["mount", device, mount])
        stack.callback(run, ["umount", mount])
        (Path("/sys/block") / device.name / "queue" / "read_ahead_kb").write_text(str(READ_AHEAD_KIB))
        source = mount / "data"
        source.mkdir()
        _write(source / "file", size_bytes)
        group = _group(stack, device, rate_bytes_per_second)
        disk = SlowDisk(group, source)
        disk.forget()
        yield disk


def _loop_device(stack: contextlib.ExitStack, image: Path, size_bytes: int) -> Path:
    with image.open("wb") as file:
        file.truncate(size_bytes)
    stack.callback(image.unlink)
    run(["mkfs.ext4", "-q", "-F", image])
    try:
        device = Path(run(["losetup", "--find", "--show", image]).strip())
    except LabError as error:
        raise NotAvailableError(f"there is no loop device for a slow disk: {error}") from error
    stack.callback(run, ["losetup", "--detach", device])
    return device


def _group(stack: contextlib.ExitStack, device: Path, rate_bytes_per_second: float) -> Path:
    number = (Path("/sys/block") / device.name / "dev").read_text().strip()
    legacy = CGROUPS / "blkio" / "blkio.throttle.read_bps_device"
    group = (CGROUPS / "blkio" if legacy.exists() else CGROUPS) / f"fairlead-fairness-{os.getpid()}"
    try:
        if not legacy.exists():
            (CGROUPS / "cgroup.subtree_control").write_text("+io")
        group.mkdir()
        stack.callback(group.rmdir)
        name, limit = (legacy.name, "{} {:.0f}") if legacy.exists() else ("io.max", "{} rbps={:.0f}")
        (group / name).write_text(limit.format(number, rate_bytes_per_second))
    except OSError as error:
        raise NotAvailableError(f"the kernel cannot hold a process to a rate of reading from {device} ({error})") from error
    return group


def _write(path: Path, size_bytes: int) -> None:
    with path.open("wb") as file:
        for _ in range(0, size_bytes, PIECE_BYTES):
            file.write(os.urandom(PIECE_BYTES))
        file.flush()
        os.fsync(file.fileno())
