"""Which process has the machine's processors: what shows whether a figure is the operator's own, or the bench's."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class ProcessorTimes:
    """The processor time of each process from now on; `pids` has them by name."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._begun_s = time.monotonic()
        self._before = self._now()

    def spent(self) -> dict[str, float]:
        """Seconds of processor time so far, by name."""
        return {name: seconds - self._before[name] for name, seconds in self._now().items()}

    def cores(self) -> dict[str, float]:
        """How many processors each had on average."""
        seconds = time.monotonic() - self._begun_s
        return {name: spent / seconds for name, spent in self.spent().items()}

    def _now(self) -> dict[str, float]:
        return {name: cpu_seconds(Path(f"/proc/{pid}/stat").read_text()) for name, pid in self._pids.items()}


def cpu_seconds(stat: str) -> float:
    """User and system time in the line of a process in procfs, whose name may have spaces and parentheses."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
