"""The machine that a run is made on: which one it is, and how fast."""

from __future__ import annotations

import time
from typing import Any

from fairlead_dev.bench.lab.machine import description, load

_SQUARES = 1_000_000


def machine() -> dict[str, Any]:
    """Cores, processor, memory and kernel, the processor's time for a million squares, and the load before the run."""
    return {"load_average_before": load(), "description": description(), "squares_s": round(squares_s(), 4)}


def squares_s() -> float:
    """Processor time, so that what else runs here counts little."""
    began_s = time.thread_time()
    sum(number * number for number in range(_SQUARES))
    return time.thread_time() - began_s
