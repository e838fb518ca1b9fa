"""What a tree holds, decided from a seed alone: the same arguments give the same tree on every machine."""

from __future__ import annotations

import random
from dataclasses import dataclass

SHAPES = ("plain", "odd", "survey")

EPOCH_S = 1_600_000_000
"""Modification times start here, long before any test runs, so that a time that was not preserved shows."""
YEAR_S = 365 * 24 * 3600

ODD_NAMES: tuple[bytes, ...] = (
    b"name with spaces.txt",
    b" leading and trailing ",
    b"-rf",
    b".hidden",
    b"...",
    b"quote'double\"back\\slash",
    b"$HOME;`id`&|<>*?[x]{y}",
    b"tab\there",
    b"new\nline",
    "gr\u00fc\u00dfe-\u30c7\u30fc\u30bf-\U0001f4e6.dat".encode(),
    "e\u0301-decomposed".encode(),
    b"latin1-\xe9\xff.bin",
    b"~",
    b"%2e%2e%2f",
    b"x" * 255,
)
"""File names that Linux allows and that careless programs trip over."""


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory below the root, with its permission bits and modification time."""

    path: bytes
    mode: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class RegularFile:
    """A file of `size_bytes` incompressible bytes that follow from `seed`."""

    path: bytes
    size_bytes: int
    mode: int
    mtime_ns: int
    seed: int


@dataclass(frozen=True, slots=True)
class Symlink:
    """A symbolic link; the target need not exist."""

    path: bytes
    target: bytes


@dataclass(frozen=True, slots=True)
class PlannedTree:
    """A whole tree. Directories come before what they hold."""

    directories: tuple[Directory, ...]
    files: tuple[RegularFile, ...]
    symlinks: tuple[Symlink, ...]

    @property
    def bytes_total(self) -> int:
        """The sum of the files' sizes in bytes."""
        return sum(file.size_bytes for file in self.files)

    @property
    def directories_and_files(self) -> tuple[Directory | RegularFile, ...]:
        """What has permission bits and a modification time of its own, parents first."""
        return (*self.directories, *self.files)


class _Builder:
    """Collects entries and gives each its permission bits, time and seed from one random stream."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.directories: list[Directory] = []
        self.files: list[RegularFile] = []
        self.symlinks: list[Symlink] = []

    def mtime_ns(self) -> int:
        return (EPOCH_S + self.random.randrange(YEAR_S)) * 1_000_000_000 + self.random.randrange(1_000_000_000)

    def directory(self, path: bytes, mode: int = 0o755) -> bytes:
        self.directories.append(Directory(path, mode, self.mtime_ns()))
        return path

    def file(self, path: bytes, size_bytes: int, mode: int | None = None) -> bytes:
        chosen = self.random.choice((0o644, 0o644, 0o640, 0o600, 0o755, 0o444)) if mode is None else mode
        self.files.append(RegularFile(path, size_bytes, chosen, self.mtime_ns(), self.random.getrandbits(64)))
        return path

    def symlink(self, path: bytes, target: bytes) -> None:
        self.symlinks.append(Symlink(path, target))

    def tree(self) -> PlannedTree:
        return PlannedTree(tuple(self.directories), tuple(self.files), tuple(self.symlinks))


def plain_tree(bytes_total: int, files: int, seed: int = 1) -> PlannedTree:
    """A flat tree of `files` ordinary files of about equal size that sum to `bytes_total` bytes."""
    if files < 1:
        raise ValueError(f"a tree needs at least one file, asked for {files}")
    build = _Builder(seed)
    build.directory(b"data")
    each, rest = divmod(bytes_total, files)
    for number in range(files):
        build.file(b"data/part-%05d.bin" % number, each + (rest if number == 0 else 0), mode=0o644)
    return build.tree()


def odd_tree(bytes_total: int = 0, seed: int = 2) -> PlannedTree:
    """Everything that a directory may hold beside ordinary files, and `bytes_total` bytes more in one ordinary file."""
    build = _Builder(seed)
    _add_oddities(build, b"odd")
    if bytes_total:
        build.file(b"bulk.bin", bytes_total)
    return build.tree()


def survey_tree(bytes_total: int, files: int, seed: int = 3) -> PlannedTree:
    """A tree like a run of an instrument: few large files, many small ones, nested folders, and the oddities of `odd_tree`.

    It holds exactly `files` files and `bytes_total` bytes; raises ValueError where that cannot be.
    """
    build = _Builder(seed)
    _add_oddities(build, b"odd names")
    large, medium = 14, max(1, files // 12)
    small = files - large - medium - len(build.files) - 1
    if small < 0:
        raise ValueError(f"{files} files are too few: the smallest survey needs {files - small}")
    for run in range(12):
        build.directory(b"run%02d" % run, mode=0o750 if run % 3 == 0 else 0o755)
        for step in range(8):
            build.directory(b"run%02d/step-%d" % (run, step))
            build.directory(b"run%02d/step-%d/frames" % (run, step))

    def place(number: int, kind: bytes) -> bytes:
        return b"run%02d/step-%d/frames/%s-%05d.dat" % (number % 12, number // 12 % 8, kind, number)

    for number in range(small):
        build.file(place(number, b"small"), int(2 ** build.random.uniform(1, 16)))
    for number in range(medium):
        build.file(place(number, b"medium"), int(2 ** build.random.uniform(17, 20)))
    written = sum(file.size_bytes for file in build.files)
    index_bytes = 4096
    bulk = bytes_total - written - index_bytes
    if bulk < large:
        raise ValueError(f"{bytes_total} bytes are too few for {files} files: they need {written + index_bytes + large}")
    weights = [build.random.uniform(1, 4) for _ in range(large)]
    sizes = [int(bulk * weight / sum(weights)) for weight in weights]
    sizes[0] += bulk - sum(sizes)
    for number, size in enumerate(sizes):
        build.file(place(number * 7, b"large"), size)
    build.file(b"index.dat", index_bytes)
    return build.tree()


def planned(shape: str, bytes_total: int, files: int, seed: int) -> PlannedTree:
    """The tree of one of SHAPES; an odd tree has its own number of files. Raises ValueError where there is none."""
    if shape == "odd":
        return odd_tree(bytes_total, seed)
    return {"plain": plain_tree, "survey": survey_tree}[shape](bytes_total, files, seed)


def _add_oddities(build: _Builder, top: bytes) -> None:
    build.directory(top)
    for number, name in enumerate(ODD_NAMES):
        build.file(top + b"/" + name, 11 + 97 * number)
    build.file(top + b"/zero-length", 0)
    build.file(top + b"/zero-length-read-only", 0, mode=0o400)
    build.directory(top + b"/empty", mode=0o700)
    build.directory(top + b"/nested")
    build.directory(top + b"/nested/empty too", mode=0o755)
    deep = top + b"/deep"
    for level in range(24):
        build.directory(deep)
        deep += b"/level-%02d" % level
    build.directory(deep)
    build.file(deep + b"/bottom.dat", 4097)
    closed = build.directory(top + b"/read-only-directory", mode=0o555)
    build.file(closed + b"/kept.dat", 1234, mode=0o444)
    build.symlink(top + b"/link-to-file", b"zero-length")
    build.symlink(top + b"/link-to-directory", b"nested/empty too")
    build.symlink(top + b"/link-dangling", b"nowhere/at all")
    build.symlink(top + b"/link-absolute", b"/etc/hostname")
    build.symlink(top + b"/link-upwards", b"../../outside")
