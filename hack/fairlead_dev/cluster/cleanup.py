"""Removing a cluster, or what a killed run left of one: only what carries the cluster's mark, its names or its records."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.errors import ClusterError
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.cluster.machine import network, process, shell
from fairlead_dev.cluster.machine.box import Box
from fairlead_dev.cluster.machine.cgroups import MOUNTINFO, NodeGroups
from fairlead_dev.cluster.machine.settings import MachineSettings
from fairlead_dev.cluster.machine.write_limits import WriteLimits
from fairlead_dev.errors import CommandUsageError

OWNER_FILE = ".fairlead-cluster"


@dataclass(slots=True)
class Removed:
    """What was taken away."""

    boxes: list[str] = field(default_factory=list)
    processes: int = 0
    namespaces: list[str] = field(default_factory=list)
    groups: int = 0
    folders: int = 0
    state: Path | None = None
    settings: list[str] = field(default_factory=list)
    unslowed: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The account for a person; empty if there was nothing."""
        lines = []
        if self.boxes or self.processes:
            lines.append(f"stopped {len(self.boxes)} boxes ({', '.join(self.boxes)}) with {self.processes} processes")
        if self.namespaces:
            lines.append(f"removed {len(self.namespaces)} network namespaces ({', '.join(self.namespaces)})")
        if self.groups:
            lines.append(f"removed {self.groups} control groups")
        if self.state:
            lines.append(f"removed the cluster's state and the nodes' disks in {self.state}")
        if self.folders:
            lines.append(f"removed {self.folders} empty mount points")
        if self.settings:
            lines.append(f"restored {', '.join(self.settings)}")
        if self.unslowed:
            lines.append(f"lifted the limits of devices {', '.join(self.unslowed)}")
        lines += [f"left alone: {stranger}" for stranger in self.strangers]
        return lines


class Cleanup:
    """Knows everything a cluster puts on a machine, and takes it away."""

    def __init__(self, paths: Layout) -> None:
        self._paths = paths
        self._state = paths.state
        self.settings = MachineSettings(paths.state / "machine-settings.json")
        self.namespaces_record = paths.state / "namespaces.json"
        self._folders_record = paths.state / "folders.json"

    def claim_state(self) -> None:
        """Make the state folder ours; raises UsageError if it holds something else."""
        self._check_state()
        self._state.mkdir(parents=True, exist_ok=True, mode=0o755)
        (self._state / OWNER_FILE).touch()
        for folder in (self._paths.run, self._paths.cluster_logs):
            folder.mkdir(exist_ok=True)

    def make_mount_points(self) -> None:
        """Make the folders that nodes mount over where the machine lacks them, and remember which."""
        missing = [folder for folder in layout.NODE_FOLDERS if not Path(folder).exists()]
        self._folders_record.write_text(json.dumps(missing))
        for folder in missing:
            Path(folder).mkdir(parents=True)

    def refuse_other_cluster(self) -> None:
        """Two clusters would have the same names and addresses: raises ClusterError if one with another state folder runs."""
        others = {state for _, state in process.marked() if state != str(self._state)}
        if others:
            other = sorted(others)[0]
            raise ClusterError(
                f"another local cluster runs, with its state in {other}; stop it: FAIRLEAD_STATE={other} hack/cluster/cluster down"
            )

    def leavings(self) -> list[str]:
        """What is there of this cluster now, for a person (the first few of each kind by name); empty if nothing is."""
        found = []
        if (self._state / OWNER_FILE).exists():
            found.append(f"state in {self._state}")
        names = network.existing()
        if names:
            found.append(f"network namespaces {', '.join(names)}")
        groups = [str(path) for box in layout.BOXES for path in NodeGroups(layout.namespace(box)).remains()]
        if groups:
            found.append(f"control groups {_some(groups)}")
        processes = self._own_processes()
        if processes:
            found.append(f"processes {_some([str(identity.pid) for identity in processes])}")
        mounts = self._own_mounts()
        if mounts:
            found.append(f"mounts {_some(mounts)}")
        return found

    def remove_all(self) -> Removed:
        """Take everything away and check that it is gone; raises ClusterError naming what is not."""
        self._check_state()
        removed = Removed()
        # First, since what ends here writes out what it has.
        removed.unslowed = WriteLimits(self._paths.write_limits).lift_all()
        removed.processes = self._count_box_processes()
        self._stop_boxes(removed)
        self._kill_own_processes()
        for box in layout.BOXES:
            removed.groups += NodeGroups(layout.namespace(box)).remove()
        removed.strangers = self._strangers()
        removed.namespaces = network.remove(self.namespaces_record)
        removed.settings = self.settings.restore()
        removed.folders = self._remove_mount_points()
        self._remove_state(removed)
        remaining = self.leavings()
        if remaining:
            raise ClusterError("could not remove everything:\n" + "\n".join(f"  - {item}" for item in remaining))
        return removed

    def _check_state(self) -> None:
        if self._state.exists() and not (self._state / OWNER_FILE).exists() and any(self._state.iterdir()):
            raise CommandUsageError(
                f"{self._state} holds files that are not a local cluster's; set FAIRLEAD_STATE to an empty or new folder"
            )

    def _boxes(self) -> list[Box]:
        return [Box(name, self._paths, node=name != layout.CONTROL_PLANE) for name in layout.BOXES]

    def _count_box_processes(self) -> int:
        namespaces = set()
        for box in self._boxes():
            identity = box.identity()
            if identity:
                with suppress(OSError):
                    namespaces.add((process.PROC / str(identity.pid) / "ns/pid").readlink())
        count = 0
        for folder in process.PROC.iterdir():
            if folder.name.isdigit():
                with suppress(OSError):
                    count += (folder / "ns/pid").readlink() in namespaces
        return count

    def _stop_boxes(self, removed: Removed) -> None:
        for box in self._boxes():
            if box.stop():
                removed.boxes.append(box.name)

    def _own_processes(self) -> list[process.Identity]:
        return [identity for identity, state in process.marked() if state == str(self._state)]

    def _kill_own_processes(self, *, timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while own := self._own_processes():
            if time.monotonic() > deadline:
                raise ClusterError(f"processes do not end: {', '.join(str(identity.pid) for identity in own)}")
            for identity in own:
                process.kill(identity)
            time.sleep(0.05)

    def _strangers(self) -> list[str]:
        """Processes that someone else runs in our networks, such as a shell from `enter`: they are named in a message, not killed."""
        ours = {}
        for name in network.existing():
            with suppress(OSError):
                ours[(network.NAMESPACES / name).stat().st_ino] = name
        found = []
        for folder in process.PROC.iterdir():
            if not folder.name.isdigit():
                continue
            try:
                namespace = ours.get((folder / "ns/net").stat().st_ino)
            except OSError:
                continue
            if namespace and int(folder.name) != os.getpid():
                found.append(f"process {folder.name} ({process.command_line(int(folder.name))}) in {namespace}")
        return found

    def _own_mounts(self) -> list[str]:
        points = [line.split()[4] for line in MOUNTINFO.read_text().splitlines()]
        names = {str(network.NAMESPACES / layout.namespace(box)) for box in layout.BOXES}
        return [point for point in points if point in names or Path(point).is_relative_to(self._state)]

    def _remove_mount_points(self) -> int:
        try:
            folders: list[str] = json.loads(self._folders_record.read_text())
        except (OSError, ValueError):
            return 0
        removed = 0
        for folder in folders:
            if folder in layout.NODE_FOLDERS:
                with suppress(OSError):
                    Path(folder).rmdir()
                    removed += 1
        return removed

    def _remove_state(self, removed: Removed) -> None:
        if not (self._state / OWNER_FILE).exists():
            return
        for point in self._own_mounts():
            shell.run(["umount", point])
        for entry in self._state.iterdir():
            if entry.name != OWNER_FILE:
                shell.run(["rm", "-rf", "--one-file-system", entry], timeout_s=600)
        removed.state = self._state
        # The mark goes last: a removal that is killed halfway can be taken up again.
        (self._state / OWNER_FILE).unlink()
        self._state.rmdir()


def _some(names: list[str], shown: int = 4) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
