"""Archives in cpio's `newc` form, which the kernel unpacks as its first file system. Pure."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

_END = "TRAILER!!!"
_ALIGNED_TO = 4


@dataclass(frozen=True, slots=True)
class Member:
    """A file, folder or symbolic link of root's."""

    name: str
    """Relative to the root, without a leading slash."""
    mode: int
    """With the bits of its type."""
    content: bytes = b""
    """Of a symbolic link where it leads."""


def file(name: str, content: bytes, *, program: bool = False) -> Member:
    """A file that everybody may read, and run where it is a program."""
    return Member(name, stat.S_IFREG | (0o755 if program else 0o644), content)


def folder(name: str) -> Member:
    """A folder that everybody may enter."""
    return Member(name, stat.S_IFDIR | 0o755)


def link(name: str, target: str) -> Member:
    """A symbolic link."""
    return Member(name, stat.S_IFLNK | 0o777, target.encode())


def archive(members: Iterable[Member]) -> bytes:
    """The archive of the members by name, each after the folders that it lies in. Several archives in a row count as one."""
    named = {member.name: member for member in members}
    for name in list(named):
        for parent in PurePosixPath(name).parents:
            if str(parent) != ".":
                named.setdefault(str(parent), folder(str(parent)))
    parts = [_entry(member, number) for number, (_, member) in enumerate(sorted(named.items()), 1)]
    return b"".join([*parts, _entry(Member(_END, 0), 0)])


def _entry(member: Member, number: int) -> bytes:
    name = member.name.encode() + b"\0"
    # Inode, mode, user, group, links, time, size, two devices of two numbers, length of the name, check sum.
    fields = (number, member.mode, 0, 0, 1, 0, len(member.content), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(member.content)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % _ALIGNED_TO)
