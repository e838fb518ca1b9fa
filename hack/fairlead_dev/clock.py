"""The clock of what waits."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The two functions of `time` that waiting needs; tests pass their own."""

    def monotonic(self) -> float:
        """Seconds that only grow."""
        ...

    def sleep(self, seconds: float, /) -> None:
        """Lets `seconds` pass."""
        ...
