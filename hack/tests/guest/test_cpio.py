"""What the kernel unpacks as its first file system."""

from __future__ import annotations

import stat

import pytest

from fairlead_dev.guest import cpio


def entry(number: int, mode: int, name: bytes, content: bytes, padding: tuple[int, int]) -> bytes:
    fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
    header = b"070701" + "".join(f"{field:08X}" for field in fields).encode()
    return header + name + b"\0" + b"\0" * padding[0] + content + b"\0" * padding[1]


END = entry(0, 0, b"TRAILER!!!", b"", (3, 0))


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        # Header and name come to a multiple of four bytes, and so does the content.
        (cpio.file("a", b"12345"), entry(1, 0o100644, b"a", b"12345", (0, 3))),
        (cpio.file("ab", b"1234"), entry(1, 0o100644, b"ab", b"1234", (3, 0))),
        (cpio.file("init", b"", program=True), entry(1, 0o100755, b"init", b"", (1, 0))),
        (cpio.folder("dev"), entry(1, 0o040755, b"dev", b"", (2, 0))),
        (cpio.link("sh", "busybox"), entry(1, 0o120777, b"sh", b"busybox", (3, 1))),
    ],
)
def test_a_member_is_laid_out_as_the_kernel_reads_it(member: cpio.Member, expected: bytes) -> None:
    assert cpio.archive([member]) == expected + END


def names_in(content: bytes) -> list[tuple[str, bool]]:
    """Names in an archive of empty members, and whether each is a folder."""
    found, at = list[tuple[str, bool]](), 0
    while True:
        assert content[at : at + 6] == b"070701"
        mode, length = int(content[at + 14 : at + 22], 16), int(content[at + 94 : at + 102], 16)
        name = content[at + 110 : at + 110 + length - 1].decode()
        if name == "TRAILER!!!":
            return found
        found.append((name, stat.S_ISDIR(mode)))
        at += (110 + length + 3) // 4 * 4


def test_folders_come_before_what_is_in_them_and_each_once() -> None:
    content = cpio.archive([cpio.file("lib/python/os.py", b""), cpio.file("lib/a.so", b""), cpio.folder("lib")])
    assert names_in(content) == [("lib", True), ("lib/a.so", False), ("lib/python", True), ("lib/python/os.py", False)]


def test_archives_are_the_same_each_time_and_can_stand_in_a_row() -> None:
    members = [cpio.file("b", b"x"), cpio.file("a", b"y")]
    assert cpio.archive(members) == cpio.archive(reversed(members))
    assert len(cpio.archive(members)) % 4 == 0
