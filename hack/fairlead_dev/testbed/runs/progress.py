"""How far a generation is, for a person: one line, redrawn on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from fairlead_dev.testbed.runs.batch import BatchState
from fairlead_dev.testbed.runs.packing import Budget, carried_bps, estimate_s

HEARTBEAT_S = 30.0
_BAR_CELLS = 24


def duration(seconds: float) -> str:
    """A length of time for people: `45 s`, `12 min`, `1 h 05 min`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def line(state: BatchState, total: int, left_s: float) -> str:
    """The state of things in one line."""
    settled = state.done + len(state.given_up)
    cells = round(_BAR_CELLS * settled / max(1, total))
    bar = "#" * cells + "." * (_BAR_CELLS - cells)
    carried = 1e-6 * sum(carried_bps(run.scenario) for run in state.running.values())
    extra = "".join(f", {count} {what}" for count, what in ((state.repeated, "repeated"), (len(state.given_up), "given up")) if count)
    return f"[{bar}] {settled}/{total} runs, {len(state.running)} under way ({carried:.0f} Mb/s){extra}, about {duration(left_s)} left"


class BatchProgress:
    """Shows a line as the state changes: redrawn every second on a terminal, every 30 s elsewhere."""

    def __init__(self, total: int, budget: Budget, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total
        self._budget = budget
        self._stream = stream
        self._clock = clock
        self._interval_s = 1.0 if stream.isatty() else HEARTBEAT_S
        self._shown_s = float("-inf")
        self._estimated: tuple[int, float, float] | None = None

    def __call__(self, state: BatchState) -> None:
        """Show `state` if it is time to."""
        now_s = self._clock()
        ended = not state.running
        if not ended and now_s - self._shown_s < self._interval_s:
            return
        self._shown_s = now_s
        text = line(state, self._total, self._left_s(state, now_s))
        if self._stream.isatty():
            self._stream.write(f"\r\033[K{text}" + ("\n" if ended else ""))
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def _left_s(self, state: BatchState, now_s: float) -> float:
        # Playing the packing through is worth doing only when a run began or ended.
        key = state.done + state.repeated + len(state.given_up)
        if self._estimated is None or self._estimated[0] != key:
            scenarios = [run.scenario for run in (*state.running.values(), *state.waiting)]
            self._estimated = key, now_s, estimate_s(scenarios, self._budget)
        _, since_s, estimate = self._estimated
        return max(0.0, estimate - (now_s - since_s))
