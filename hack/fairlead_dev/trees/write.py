"""Writes a planned tree to a directory of this machine."""

from __future__ import annotations

import os
import random
from pathlib import Path

from fairlead_dev.trees.plan import PlannedTree, RegularFile

CHUNK_BYTES = 4 << 20


def write_tree(tree: PlannedTree, root: Path, owner: int | None = None) -> None:
    """Makes `tree` below `root`, which must be absent or empty, owned by user and group `owner` where given.

    Raises FileExistsError if `root` holds anything, OSError as the file system does.
    """
    root.mkdir(parents=True, exist_ok=True)
    if any(root.iterdir()):
        raise FileExistsError(f"{root} is not empty; choose another folder or remove what it holds")

    def full(path: bytes) -> Path:
        return root / os.fsdecode(path)

    for directory in tree.directories:
        full(directory.path).mkdir(0o700)
    for file in tree.files:
        _write_file(full(file.path), file)
    for link in tree.symlinks:
        full(link.path).symlink_to(os.fsdecode(link.target))
    if owner is not None:
        for path in (root, *(full(entry.path) for entry in (*tree.directories_and_files, *tree.symlinks))):
            os.chown(path, owner, owner, follow_symlinks=False)
    # Deepest first and last of all: a directory's own time changes with every entry made in it.
    for entry in reversed(tree.directories_and_files):
        full(entry.path).chmod(entry.mode)
        os.utime(full(entry.path), ns=(entry.mtime_ns, entry.mtime_ns))


def _write_file(path: Path, file: RegularFile) -> None:
    source = random.Random(file.seed)
    with path.open("xb", buffering=0) as handle:
        left = file.size_bytes
        while left:
            block = source.randbytes(min(left, CHUNK_BYTES))
            handle.write(block)
            left -= len(block)
