"""Trees of files to move, and whether they arrived."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.errors import LabError
from fairlead_dev.netlab.processes import run

PIECE_BYTES = 8 << 20
FILES_PER_FOLDER = 1000
COMPARED_FILES = 100


@dataclass(frozen=True, slots=True)
class BenchTree:
    """A folder with `files` files of `file_bytes` bytes each."""

    path: Path
    files: int
    file_bytes: int

    @property
    def total_bytes(self) -> int:
        """Bytes of all files."""
        return self.files * self.file_bytes

    def names(self) -> list[str]:
        """The files' names below `path`, sorted."""
        return sorted(str(Path(file.path).relative_to(self.path)) for file in _files(self.path))


def big_file(path: Path, size_bytes: int) -> BenchTree:
    """A folder with one file of bytes that do not repeat within 8 MiB, left in the page cache and on the disk."""
    path.mkdir(parents=True)
    piece = os.urandom(PIECE_BYTES)
    with (path / "big").open("wb") as file:
        for start in range(0, size_bytes, PIECE_BYTES):
            # Each piece differs from the others, so that a misplaced one would not pass for right.
            file.write((start.to_bytes(8, "big") + piece[8:])[: size_bytes - start])
        file.flush()
        os.fsync(file.fileno())
    return BenchTree(path, 1, size_bytes)


def small_files(path: Path, files: int, file_bytes: int) -> BenchTree:
    """`files` files in folders of a thousand; each begins with its number."""
    content = os.urandom(file_bytes)
    for first in range(0, files, FILES_PER_FOLDER):
        folder = path / f"d{first // FILES_PER_FOLDER:04d}"
        folder.mkdir(parents=True)
        for number in range(first, min(first + FILES_PER_FOLDER, files)):
            handle = os.open(folder / f"file-{number:07d}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(handle, number.to_bytes(8, "big") + content[8:])
            os.close(handle)
    sync(path)
    return BenchTree(path, files, file_bytes)


def arrived(path: Path, file_bytes: int) -> int:
    """How many files of that size are below `path`."""
    return sum(1 for file in _files(path) if file.stat(follow_symlinks=False).st_size == file_bytes)


def check(tree: BenchTree, path: Path, *, content: bool) -> None:
    """Raises LabError unless `path` holds as many files of the right size as `tree`; with `content` some are compared byte by byte."""
    found = arrived(path, tree.file_bytes)
    if found != tree.files:
        raise LabError(f"{found} of {tree.files} files of {tree.file_bytes} bytes arrived in {path}")
    if content:
        step = max(1, tree.files // COMPARED_FILES)
        for name in tree.names()[::step]:
            if not _same(tree.path / name, path / name):
                raise LabError(f"{name} differs from its source in {path}")


def clear(path: Path) -> None:
    """An empty folder in the place of whatever was there; what was written before is on the disk then."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    sync(path)


def sync(path: Path) -> float:
    """Brings everything on the file system of `path` to the disk; returns the seconds that took."""
    start_s = time.monotonic()
    run(["sync", "-f", path])
    return time.monotonic() - start_s


def _files(path: Path) -> Iterable[os.DirEntry[str]]:
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path))
        else:
            yield entry


def _same(left: Path, right: Path) -> bool:
    with left.open("rb") as one, right.open("rb") as other:
        while True:
            pieces = one.read(PIECE_BYTES), other.read(PIECE_BYTES)
            if pieces[0] != pieces[1]:
                return False
            if not pieces[0]:
                return True
