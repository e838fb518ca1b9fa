"""Control groups of pods, as kubelet and container runtime make them: where they are, and network classes of version 1."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path

_POD = re.compile(r"pod[0-9a-f]{8}[-_]")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DEEPEST = 5
"""A slice of a distribution, the kubelet's, the quality of service, and the pod, with one to spare."""
_SEARCH_SECONDS = 5.0
"""The whole tree is searched at most so often; in between pods are looked for beside others that were found."""
_CLASS_MAJOR = 0xFA1E
_CLASS_MINORS = 0xFFFF


def unified_root(mounted: Path) -> Path | None:
    """The hierarchy of version 2 below where the node's control groups are mounted: alone, or beside version 1. None if there is none."""
    return next((root for root in (mounted, mounted / "unified") if (root / "cgroup.controllers").is_file()), None)


def classes_root(mounted: Path) -> Path | None:
    """The hierarchy of version 1 with the controller `net_cls`; None if there is none."""
    return next((root for root in sorted(mounted.glob("*net_cls*")) if (root / "net_cls.classid").is_file()), None)


@dataclass(slots=True)
class PodGroups:
    """Finds the groups of pods in one hierarchy, by their UIDs."""

    root: Path
    clock: Callable[[], float] = time.monotonic
    _parents: set[Path] = field(default_factory=set)
    _searched_at: float = float("-inf")

    def find(self, uid: str) -> Path | None:
        """The pod's group, that of all its containers; None while there is none."""
        if not _UID.fullmatch(uid):
            return None
        found = self._beside_others(uid)
        if found is None and self.clock() >= self._searched_at + _SEARCH_SECONDS:
            self._parents |= set(_parents_of_pods(self.root, _DEEPEST))
            self._searched_at = self.clock()
            found = self._beside_others(uid)
        return found

    def _beside_others(self, uid: str) -> Path | None:
        for parent in self._parents:
            # Of the driver `cgroupfs`, and of `systemd`: kubepods-burstable.slice has kubepods-burstable-podUID.slice.
            for name in (f"pod{uid}", f"{parent.name.removesuffix('.slice')}-pod{uid.replace('-', '_')}.slice"):
                if (parent / name).is_dir():
                    return parent / name
        return None


def _parents_of_pods(folder: Path, depth: int) -> Iterator[Path]:
    """Groups that have pods, or that a kubelet made for them."""
    try:
        groups = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    if "kubepods" in folder.name or folder.parent.name == "kubepods" or any(_POD.search(group.name) for group in groups):
        yield folder
    if depth > 0:
        for group in groups:
            if not _POD.search(group.name):
                yield from _parents_of_pods(group, depth - 1)


class NetworkClasses:
    """Marks what pods send with a class of version 1, by which nftables knows it."""

    def __init__(self, root: Path) -> None:
        self._groups = PodGroups(root)
        self._used: dict[str, int] = {}

    def mark(self, uid: str) -> int | None:
        """Gives the pod's containers a class of their own; the one that they have from an earlier guard stays.

        None while the pod has no group. Raises OSError.
        """
        group = self._groups.find(uid)
        if group is None:
            return None
        number = self._used.get(uid) or self._present(group) or self._free()
        self._used[uid] = number
        for file in _class_files(group):
            file.write_text(str(number))
        return number

    def release(self, uid: str) -> None:
        """Takes the class from the pod, also one of an earlier guard, before another pod may have it.

        Raises OSError, and nobody else has the class then.
        """
        group = self._groups.find(uid)
        for file in _class_files(group) if group is not None else ():
            if _is_ours(int(file.read_text())):
                file.write_text("0")
        self._used.pop(uid, None)

    def keep(self, uids: Set[str]) -> None:
        """All other pods have gone; their classes may be given to others."""
        for uid in self._used.keys() - uids:
            del self._used[uid]

    def _present(self, group: Path) -> int | None:
        number = int((group / "net_cls.classid").read_text())
        return number if _is_ours(number) and number not in self._used.values() else None

    def _free(self) -> int:
        used = set(self._used.values())
        return next(number for minor in range(1, _CLASS_MINORS) if (number := _CLASS_MAJOR << 16 | minor) not in used)


def _is_ours(number: int) -> bool:
    return number >> 16 == _CLASS_MAJOR


def _class_files(group: Path) -> Iterator[Path]:
    """The pod's, then those of its containers: groups made later take the class over from their parent."""
    yield group / "net_cls.classid"
    for path in group.rglob("*"):
        if path.is_dir():
            yield path / "net_cls.classid"
