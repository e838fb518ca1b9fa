"""The machine that a run is made on: which one it is, and how fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairlead_dev.bench.lab.machine import description, load
from fairlead_dev.testbed.runs.speed import squares_s

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def machine() -> dict[str, Any]:
    """Cores, processor, memory, kernel and boot, the processor's time for a million squares, and the load before the run."""
    return {"load_average_before": load(), "description": description(), "boot": boot(), "squares_s": round(squares_s(), 4)}


def boot() -> str:
    """Tells machines of one kind apart, and the same one before and after it was started anew."""
    return _BOOT.read_text(encoding="ascii")[:8] if _BOOT.exists() else "unknown"
