"""By what a program is told apart: by its sources where it is known what it was built of."""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead_dev.bench.builds import compilers_of, noted_sources, program_digest
from fairlead_dev.cluster.artifacts.cargo import place

RUSTC = "rustc version 1.95.0 (59807616e 2026-04-14)"


def program(content: bytes, *compilers: str) -> bytes:
    """A 64-bit ELF file of that content that names its compilers."""
    comment, names = b"\0".join(name.encode() for name in compilers) + b"\0", b"\0.comment\0.shstrtab\0"
    at = 64 + len(content)
    header = b"\x7fELF\x02\x01".ljust(0x28, b"\0") + struct.pack("<Q10xHHH", at + len(comment) + len(names), 64, 3, 2)
    sections = [(0, 0, 0), (1, at, len(comment)), (10, at + len(comment), len(names))]
    return header + content + comment + names + b"".join(struct.pack("<I20xQQ24x", *section) for section in sections)


class Machine:
    """A checkout and a folder of builds, as a machine has them after `make rust`."""

    def __init__(self, folder: Path, compiled: bytes) -> None:
        self.checkout, self.binaries, self.release = folder / "checkout", folder / "checkout/build/bin", folder / "target"
        sources = {"wan/src/main.rs": "main", "wan/Cargo.toml": "wan", "Cargo.toml": "whole", "Cargo.lock": "crates"}
        for name, content in {**sources, "Makefile": "all: rust\n\nrust: ## builds\n\tcargo build\n\ntest:\n\tpytest\n"}.items():
            self.write(name, content)
        self.binaries.mkdir(parents=True)
        self.release.mkdir()
        self.program = self.release / "wan"
        (self.binaries / "wan").symlink_to(self.program)
        self.note(self.checkout)
        self.build(compiled)

    def write(self, name: str, content: str) -> None:
        (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (self.checkout / name).write_text(content)
        os.utime(self.checkout / name, (100, 100))

    def note(self, checkout: Path) -> None:
        (self.release / "wan.d").write_text(f"{self.program}: {checkout}/wan/src/main.rs\n")

    def build(self, compiled: bytes, compiler: str = RUSTC) -> None:
        self.program.write_bytes(program(compiled, compiler))
        os.utime(self.program, (200, 200))

    def digest(self) -> str:
        return program_digest(self.binaries / "wan", self.binaries, self.checkout)


@pytest.fixture
def machines(tmp_path: Path) -> tuple[Machine, Machine]:
    return Machine(tmp_path / "a", b"some bytes"), Machine(tmp_path / "b", b"other bytes")


def test_builds_of_the_same_sources_are_the_same_program_on_every_machine(machines: tuple[Machine, Machine]) -> None:
    here, there = machines
    assert here.digest() == there.digest()
    there.write("Makefile", "rust: ## builds\n\tcargo build\n\nanother:\n\ttrue\n")
    there.write("README.md", "something")
    assert here.digest() == there.digest()


def test_programs_that_the_build_has_copied_are_told_by_their_sources_too(machines: tuple[Machine, Machine]) -> None:
    here, there = machines
    place(["wan"], here.release, here.binaries)
    assert not (here.binaries / "wan").is_symlink()
    assert here.digest() == there.digest()


def _later(machine: Machine) -> None:
    os.utime(machine.checkout / "wan/src/main.rs", (300, 300))


DIFFERENCES: dict[str, Callable[[Machine], object]] = {
    "source": lambda machine: machine.write("wan/src/main.rs", "another"),
    "manifest": lambda machine: machine.write("wan/Cargo.toml", "another"),
    "crates": lambda machine: machine.write("Cargo.lock", "another"),
    "settings": lambda machine: machine.write(".cargo/config.toml", "another"),
    "recipe": lambda machine: machine.write("Makefile", "rust: ## builds\n\tcargo build --features another\n"),
    "compiler": lambda machine: machine.build(b"other bytes", "rustc version 1.96.0"),
    "source-edited-after-the-build": _later,
    "source-gone": lambda machine: (machine.checkout / "wan/src/main.rs").unlink(),
    "built-of-another-checkout": lambda machine: machine.note(machine.checkout.parent / "worktree"),
    "no-note": lambda machine: (machine.release / "wan.d").unlink(),
    "stripped": lambda machine: machine.program.write_bytes(b"no compiler is named"),
}


@pytest.mark.parametrize("difference", DIFFERENCES.values(), ids=DIFFERENCES.keys())
def test_what_may_be_another_program_has_another_digest(machines: tuple[Machine, Machine], difference: Callable[[Machine], object]) -> None:
    here, there = machines
    difference(there)
    assert here.digest() != there.digest()


def test_a_copy_is_told_by_its_bytes(machines: tuple[Machine, Machine], tmp_path: Path) -> None:
    here, _ = machines
    copy = tmp_path / "wan"
    copy.write_bytes(here.program.read_bytes())
    before = program_digest(copy, here.binaries, here.checkout)
    here.write("wan/src/main.rs", "another")
    assert program_digest(copy, here.binaries, here.checkout) == before
    copy.write_bytes(b"other bytes")
    assert program_digest(copy, here.binaries, here.checkout) != before


def test_cargos_note_may_have_spaces_in_names() -> None:
    assert noted_sources("/target/wan: /a/src/main.rs /my\\ code/src/lib.rs\n") == [Path("/a/src/main.rs"), Path("/my code/src/lib.rs")]


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01".ljust(64, b"\xff")])
def test_what_is_no_program_names_no_compiler(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert compilers_of(tmp_path / "file") == []
