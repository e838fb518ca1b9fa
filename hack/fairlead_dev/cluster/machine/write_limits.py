"""Limits of what all processes together write to a device, and taking them back after whoever set them was killed.

A limit belongs to the machine's device, which outlives the cluster: the next loop device of that number would be as slow.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

WRITE_LIMITS = Path("/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device")
"""In bytes per second. Only the kernel's control groups of version 1 have it."""


def device_of(path: Path) -> str:
    """The device that a path is on, as the kernel writes it: `7:3`."""
    device = path.stat().st_dev
    return f"{os.major(device)}:{os.minor(device)}"


class WriteLimits:
    """Sets limits, and keeps of each a file named after its device in the folder `record` until it is lifted."""

    def __init__(self, record: Path, limits: Path = WRITE_LIMITS) -> None:
        self._record, self._limits = record, limits

    def set(self, device: str, bytes_per_second: int) -> None:
        """Limit a device."""
        self._record.mkdir(parents=True, exist_ok=True)
        (self._record / device).touch()
        self._limits.write_text(f"{device} {bytes_per_second}")

    def lift(self, device: str) -> None:
        """Lift the limit of a device, if there is one on record."""
        if (self._record / device).exists():
            # The device may be gone, and its limit with it.
            with suppress(OSError):
                self._limits.write_text(f"{device} 0")
            (self._record / device).unlink(missing_ok=True)

    def lift_all(self) -> list[str]:
        """Lift every limit on record, and return its device."""
        devices = sorted(file.name for file in self._record.iterdir()) if self._record.is_dir() else []
        for device in devices:
            self.lift(device)
        return devices
