"""Writes a planned tree to a directory of this machine."""

from __future__ import annotations

import os
import random
from pathlib import Path

from trees.plan import RegularFile, Tree

CHUNK_BYTES = 4 << 20


def write_tree(tree: Tree, root: Path, owner: int | None = None) -> None:
    """Makes `tree` below `root`, which must be absent or empty, owned by user and group `owner` where given.

    Raises FileExistsError if `root` holds anything, OSError as the file system does.
    """
    root.mkdir(parents=True, exist_ok=True)
    if any(root.iterdir()):
        raise FileExistsError(f"{root} is not empty; choose another folder or remove what it holds")
    base = os.fsencode(root)

    def full(path: bytes) -> bytes:
        return os.path.join(base, path)

    for directory in tree.directories:
        os.mkdir(full(directory.path), 0o700)
    for file in tree.files:
        _write_file(full(file.path), file)
    for link in tree.symlinks:
        os.symlink(link.target, full(link.path))
    if owner is not None:
        os.chown(base, owner, owner)
        for path in (*(d.path for d in tree.directories), *(f.path for f in tree.files), *(s.path for s in tree.symlinks)):
            os.chown(full(path), owner, owner, follow_symlinks=False)
    # Deepest first and last of all: a directory's own time changes with every entry made in it.
    for entry in (*tree.files, *reversed(tree.directories)):
        os.chmod(full(entry.path), entry.mode)
        os.utime(full(entry.path), ns=(entry.mtime_ns, entry.mtime_ns))


def _write_file(path: bytes, file: RegularFile) -> None:
    source = random.Random(file.seed)
    with open(path, "xb", buffering=0) as handle:
        left = file.size_bytes
        while left:
            block = source.randbytes(min(left, CHUNK_BYTES))
            handle.write(block)
            left -= len(block)
