"""A kernel that remembers the programs' maps, without loading any."""

from __future__ import annotations

import errno
import os
from collections.abc import Set
from pathlib import Path

from fairlead.guard.program import CONFIG


class FakeKernel:
    """Maps are files in memory, so that their descriptors are real."""

    def __init__(self, *, refused: Set[Path] = frozenset()) -> None:
        self.refused = refused
        self.values: dict[int, bytes] = {}
        self.groups: set[Path] = set()

    def create_map(self, value: bytes) -> int:
        descriptor = os.memfd_create("map")
        self.values[descriptor] = value
        return descriptor

    def write_map(self, descriptor: int, value: bytes) -> None:
        self.values[descriptor] = value

    def read_map(self, descriptor: int, size: int) -> bytes:
        return self.values[descriptor][:size]

    def load_program(self, instructions: bytes) -> int:
        assert len(instructions) % 8 == 0
        return os.memfd_create("program")

    def attach(self, group: Path, program: int) -> None:
        os.fstat(program)
        if group in self.refused:
            raise OSError(errno.EPERM, "Operation not permitted")
        self.groups.add(group)

    def caps_in_force(self) -> list[int]:
        """Costs of a byte of those programs that hold."""
        configs = (CONFIG.unpack(value) for value in self.values.values())
        return [cost for cost, depth_ns, until_ns in configs if depth_ns and until_ns]
