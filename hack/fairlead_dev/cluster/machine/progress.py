"""Showing which step is under way, how long it has taken and how long it usually takes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

HEARTBEAT_S = 30.0
"""How often a step reports on an output that is not a terminal."""
WORTH_EXPECTING_S = 5.0
"""Below this, saying how long a step usually takes is noise."""


def duration(seconds: float) -> str:
    """A length of time for people: `0.4 s`, `12 s`, `3 min 05 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


def running_line(name: str, elapsed_s: float, expected_s: float | None, detail: str) -> str:
    """What to show while a step runs."""
    usual = f" (usually {duration(expected_s)})" if expected_s is not None and expected_s >= WORTH_EXPECTING_S else ""
    return f"  …  {name}: {duration(elapsed_s)}{usual}" + (f", {detail}" if detail else "")


def finished_line(name: str, elapsed_s: float, detail: str) -> str:
    """What stays on the screen after a step."""
    return f"  ok {name}: {duration(elapsed_s)}" + (f", {detail}" if detail else "")


class BuildStep:
    """The step under way; `detail` may be changed from its work."""

    def __init__(self, name: str, expected_s: float | None) -> None:
        self.name = name
        self.expected_s = expected_s
        self.detail = ""


class BuildProgress:
    """Prints steps: redrawn every second on a terminal, a line at the end and every 30 s elsewhere."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._terminal = self._stream.isatty()
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """Print one line."""
        with self._lock:
            self._stream.write(f"{text}\n")
            self._stream.flush()

    @contextmanager
    def step(self, name: str, expected_s: float | None = None) -> Iterator[BuildStep]:
        """Show a step while the body runs, and its time when it has ended well."""
        step = BuildStep(name, expected_s)
        began = self._clock()
        ended = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(step, began, ended), daemon=True)
        ticker.start()
        try:
            yield step
        except BaseException:
            self._finish(ended, ticker, f"  !! {name}: stopped after {duration(self._clock() - began)}")
            raise
        self._finish(ended, ticker, finished_line(name, self._clock() - began, step.detail))

    def _tick(self, step: BuildStep, began: float, ended: threading.Event) -> None:
        while not ended.wait(1.0 if self._terminal else HEARTBEAT_S):
            line = running_line(step.name, self._clock() - began, step.expected_s, step.detail)
            with self._lock:
                self._stream.write(f"\r\033[K{line}" if self._terminal else f"{line}\n")
                self._stream.flush()

    def _finish(self, ended: threading.Event, ticker: threading.Thread, line: str) -> None:
        ended.set()
        ticker.join()
        if self._terminal:
            self._stream.write("\r\033[K")
        self.say(line)
