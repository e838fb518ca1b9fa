"""Tells a program by what it was built of, where that is known: builds of the same sources on two machines may differ in their bytes."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from fairlead_dev.checkout import BINARIES, CHECKOUT

_SETTINGS = ("Cargo.lock", ".cargo/config.toml", "rust-toolchain.toml", "rust-toolchain")
_RECIPE = re.compile(r"^rust:.*\n(?:\t.*\n)+", re.MULTILINE)
"""Features, flags and target of `make rust`, which the bench's own target runs first. How old the file is that has it says nothing."""
_ELF_64 = b"\x7fELF\x02\x01"
_HEADER_BYTES, _SECTIONS_AT, _SECTION_COUNT_AT = 64, 0x28, 0x3C
_SECTION = struct.Struct("<I20xQQ24x")
"""Where its name is among the names, and where in the file it begins, with its bytes."""


def program_digest(program: Path, binaries: Path = BINARIES, checkout: Path = CHECKOUT) -> str:
    """SHA-256 of what `make rust` built the program of; of its bytes if it is another one, or older than what it would be built of now.

    What it was built of: its sources as cargo has noted them, manifests, locked crates, cargo's settings, the recipe, and the compilers
    that the program names in itself. A point release of the C library is in none of these.
    """
    return _built_of(program, binaries, checkout) or _sha256(program).hex()


def _built_of(program: Path, binaries: Path, checkout: Path) -> str | None:
    found = program.resolve()
    if (binaries / found.name).resolve() != found:
        return None
    # Worktrees share a folder of builds: whose sources these are is known from cargo's note alone.
    note = found.with_name(f"{found.name}.d")
    sources = noted_sources(note.read_text(encoding="utf-8")) if note.is_file() else []
    recipe = _recipe(checkout)
    compilers = compilers_of(found)
    if not sources or recipe is None or not compilers or not all(source.is_relative_to(checkout) for source in sources):
        return None
    inputs = sorted({*sources, *_manifests(sources, checkout), *(file for name in _SETTINGS if (file := checkout / name).is_file())})
    built_ns = found.stat().st_mtime_ns
    if not all(file.is_file() and file.stat().st_mtime_ns <= built_ns for file in inputs):
        return None
    whole = hashlib.sha256("\n".join([recipe, *compilers]).encode())
    for file in inputs:
        whole.update(f"\n{file.relative_to(checkout).as_posix()}\n".encode() + _sha256(file))
    return whole.hexdigest()


def noted_sources(note: str) -> list[Path]:
    """The sources in a dependency file of cargo, `PROGRAM: SOURCE…` with escaped spaces."""
    _, _, listed = note.partition(": ")
    return [Path(word.replace("\\ ", " ")) for word in re.findall(r"(?:\\ |\S)+", listed)]


def compilers_of(program: Path) -> list[str]:
    """What compilers and linker have left in a program's section `.comment`; empty if there is none, or this is no 64-bit ELF file."""
    with program.open("rb") as opened:
        header = opened.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES or not header.startswith(_ELF_64):
            return []
        (offset,), (count, names) = struct.unpack_from("<Q", header, _SECTIONS_AT), struct.unpack_from("<HH", header, _SECTION_COUNT_AT)
        try:
            sections = list(_SECTION.iter_unpack(_part(opened, offset, count * _SECTION.size)))
            named = _part(opened, *sections[names][1:])
            comments = [_part(opened, at, size) for name, at, size in sections if named[name:].startswith(b".comment\0")]
        except (ValueError, IndexError, struct.error):
            return []
    return sorted({text.decode(errors="replace") for comment in comments for text in comment.split(b"\0") if text})


def _part(opened: BinaryIO, at: int, size: int) -> bytes:
    opened.seek(at)
    return opened.read(size)


def _recipe(checkout: Path) -> str | None:
    makefile = checkout / "Makefile"
    found = _RECIPE.search(makefile.read_text(encoding="utf-8")) if makefile.is_file() else None
    return found and found.group(0)


def _manifests(sources: Iterable[Path], checkout: Path) -> set[Path]:
    folders = {folder for source in sources for folder in source.parents if folder.is_relative_to(checkout)}
    return {manifest for folder in folders if (manifest := folder / "Cargo.toml").is_file()}


def _sha256(file: Path) -> bytes:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()
