"""Space of file systems, asked for beside everything else: a network file system whose server is gone never answers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fairlead.api.datatransfernode.status import MOST_BYTES, StorageStatus


@dataclass(frozen=True, slots=True)
class Space:
    """Size of a file system and what is free in it for processes without privilege."""

    total_bytes: int
    free_bytes: int


def space_of(folder: Path) -> Space:
    """The space of the file system that holds a folder. Raises OSError."""
    found = os.statvfs(folder)
    return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


class StorageReader:
    """File systems by their path on the node, each read in a thread of its own. `folders` says where they are mounted here."""

    def __init__(self, folders: Mapping[str, Path], read: Callable[[Path], Space] = space_of) -> None:
        self._folders = folders
        self._read = read
        self._spaces: dict[str, Space] = {}
        self._threads: dict[str, threading.Thread] = {}

    def read(self, patience_seconds: float) -> tuple[StorageStatus, ...]:
        """The file systems that answered within this time, by path. One that has not answered before is not asked again until it does."""
        for path, folder in self._folders.items():
            thread = self._threads.get(path)
            if thread is None or not thread.is_alive():
                self._spaces.pop(path, None)
                self._threads[path] = threading.Thread(target=self._ask, args=(path, folder), name=f"space of {path}", daemon=True)
                self._threads[path].start()
        for thread in self._threads.values():
            thread.join(patience_seconds)
        answered = {path: space for path, space in self._spaces.items() if not self._threads[path].is_alive()}
        return tuple(
            StorageStatus(path=path, total_bytes=space.total_bytes, free_bytes=min(space.free_bytes, space.total_bytes))
            for path, space in sorted(answered.items())
            if 0 < space.total_bytes <= MOST_BYTES
        )

    def _ask(self, path: str, folder: Path) -> None:
        try:
            self._spaces[path] = self._read(folder)
        except OSError:
            self._spaces.pop(path, None)
