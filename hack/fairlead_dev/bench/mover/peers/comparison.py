"""One copy of a tree by one program, checked, until it is on the disk; and the ratio of two programs by such copies."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fairlead_dev.bench.lab.machine import need
from fairlead_dev.bench.lab.trees import BenchTree, arrived, check, clear, sync
from fairlead_dev.bench.mover.peers.copier import Copied, Copier
from fairlead_dev.errors import NotAvailableError
from fairlead_dev.netlab.pair import Net

SLOW_S = 20.0
"""Who takes longer than that is measured once: its ratio is far from one, and the run has its bounds."""


@dataclass
class Runs:
    """What one program took, run by run."""

    copied: list[Copied] = field(default_factory=list)
    durable_s: list[float] = field(default_factory=list)
    """From the start until everything was on the disk; the time limit where that came first."""
    files: list[int] = field(default_factory=list)
    """How many files arrived whole."""

    @property
    def all_finished(self) -> bool:
        """Whether no run was cut off by its time limit."""
        return all(copied.finished for copied in self.copied)

    @property
    def suffices(self) -> bool:
        """Whether the comparison is decided, whatever more runs would give."""
        return bool(self.durable_s) and self.durable_s[0] > SLOW_S

    @property
    def seconds(self) -> float:
        """Median until everything was on the disk."""
        return statistics.median(self.durable_s)

    @property
    def exit_s(self) -> float:
        """Median until the program itself was content."""
        return statistics.median(copied.wall_s for copied in self.copied)

    @property
    def files_per_s(self) -> float:
        """Median rate of files."""
        return statistics.median(files / seconds for files, seconds in zip(self.files, self.durable_s, strict=True))


def available(copiers: Sequence[Copier]) -> tuple[list[Copier], dict[str, str]]:
    """Those whose programs are here, and for the others why not, by name."""
    ready, absent = [], {}
    for copier in copiers:
        try:
            need(*copier.programs)
            ready.append(copier)
        except NotAvailableError as error:
            absent[copier.name] = str(error)
    return ready, absent


def copy(copier: Copier, net: Net, tree: BenchTree, scratch: Path, runs: Runs, *, limit_s: float) -> None:
    """One copy into an empty folder; what the program leaves in the page cache is synced on its time.

    The result is checked, and compared byte by byte the first time. Raises LabError.
    """
    destination = scratch / "destination"
    clear(destination)
    with copier.session(net, tree, destination, scratch) as session:
        copied = session.copy(limit_s)
        synced_s = sync(destination)
        if copied.finished:
            check(tree, session.arrived(), content=not runs.copied)
        runs.files.append(tree.files if copied.finished else arrived(destination, tree.file_bytes))
    runs.copied.append(copied)
    runs.durable_s.append(copied.wall_s + synced_s)
