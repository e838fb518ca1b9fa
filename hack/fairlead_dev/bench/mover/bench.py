"""What every part of the bench is given."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fairlead_dev.bench.mover.peers.mover import MoverProgram
from fairlead_dev.netlab.processes import Process

LAB = Path(__file__).parents[1] / "lab"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MoverLab:
    """Programs, a folder for everything that is written, and how thorough the run is."""

    mover: MoverProgram
    emulator: Path
    scratch: Path
    quick: bool

    def pick(self, full: T, quick: T) -> T:
        """One of two sizes."""
        return quick if self.quick else full

    def report(self, text: str) -> None:
        """Prints what has been measured."""
        print(f"    {text}", flush=True)


def helper(name: str, *args: str, namespace: str, output: Path) -> Process:
    """Starts a program of the lab with this interpreter in a namespace; what it prints is in `output`."""
    output.unlink(missing_ok=True)
    return Process([sys.executable, LAB / name, *args], log=output.with_suffix(".log"), output=output, namespace=namespace)


def median(values: Sequence[float]) -> float:
    """The median. `values` must not be empty."""
    return statistics.median(values)


def rounded(values: Sequence[float], digits: int = 3) -> list[float]:
    """Single runs, as they are kept beside a median."""
    return [round(value, digits) for value in values]
