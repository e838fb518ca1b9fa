"""The control groups of a node: one subtree a node, made and removed in every hierarchy.

Version 1 (also hybrid) is what this is tested on; version 2 follows the kernel's documentation and is untested.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from fairlead_dev.cluster.errors import ClusterError

MOUNTINFO = Path("/proc/self/mountinfo")
SYSTEM = "sys"
"""The child group of a node that holds its daemons; pods go to its sibling `kubepods`."""
CPU_SHARES = 4096
"""The weight of a node, and of its daemons within it. New groups have 1024, the weight of a single process, so that beside twenty busy
ones a whole node would have a twentieth of the machine, and its kubelet would take minutes to start a pod."""
_CPU_WEIGHT = 157
"""The same in the units of version 2, by the kubelet's formula."""


def parse_hierarchies(mountinfo: str) -> tuple[list[Path], list[Path]]:
    """The mount points of version 1 controllers and of version 2 under /sys/fs/cgroup."""
    version_1: list[Path] = []
    version_2: list[Path] = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        mount_point, kind = before.split()[4], after.split()[0]
        if not mount_point.startswith("/sys/fs/cgroup"):
            continue
        if kind == "cgroup":
            version_1.append(Path(mount_point))
        elif kind == "cgroup2":
            version_2.append(Path(mount_point))
    return version_1, version_2


class NodeGroups:
    """The subtree `name` in every hierarchy of this machine."""

    def __init__(self, name: str, mountinfo: str | None = None) -> None:
        self.name = name
        self._v1, self._v2 = parse_hierarchies(MOUNTINFO.read_text() if mountinfo is None else mountinfo)

    @property
    def daemon_groups(self) -> list[Path]:
        """Where the node's daemons must be put, one group per hierarchy."""
        return [root / self.name / SYSTEM for root in self._v1 or self._v2]

    def create(self) -> None:
        for root in self._v1:
            for group in (root / self.name, root / self.name / SYSTEM):
                group.mkdir(exist_ok=True)
                # A new cpuset group is empty, and nothing may join it until it has processors and memory.
                for setting in ("cpuset.cpus", "cpuset.mems"):
                    if (group / setting).exists():
                        (group / setting).write_text((group.parent / setting).read_text())
                if (group / "cpu.shares").exists():
                    (group / "cpu.shares").write_text(str(CPU_SHARES))
        for root in [] if self._v1 else self._v2:
            (root / self.name / SYSTEM).mkdir(parents=True, exist_ok=True)
            for group in (root, root / self.name):
                for controller in (group / "cgroup.controllers").read_text().split():
                    with suppress(OSError):
                        (group / "cgroup.subtree_control").write_text(f"+{controller}")
            for group in (root / self.name, root / self.name / SYSTEM):
                if (group / "cpu.weight").exists():
                    (group / "cpu.weight").write_text(str(_CPU_WEIGHT))

    def thaw(self) -> None:
        """Let frozen tasks run: under version 1 they would ignore SIGKILL."""
        for root in self._v1:
            state = root / self.name / "freezer.state"
            if state.exists():
                state.write_text("THAWED")
        for root in self._v2:
            state = root / self.name / "cgroup.freeze"
            if state.exists():
                state.write_text("0")

    def remains(self) -> list[Path]:
        """The subtrees that still exist."""
        return [root / self.name for root in (*self._v1, *self._v2) if (root / self.name).is_dir()]

    def remove(self, *, timeout_s: float = 30.0) -> int:
        """Remove the subtrees, children first, and return the number of groups; raises ClusterError if processes hold one."""
        removed = 0
        deadline = time.monotonic() + timeout_s
        for top in self.remains():
            for folder, _, _ in os.walk(top, topdown=False):
                while True:
                    try:
                        Path(folder).rmdir()
                        removed += 1
                    except FileNotFoundError:
                        pass
                    except OSError as error:
                        # The kernel lets go of a group a moment after its last process has ended.
                        if time.monotonic() < deadline:
                            time.sleep(0.05)
                            continue
                        raise ClusterError(f"the control group {folder} cannot be removed: {error.strerror}") from error
                    break
        return removed
