"""The protocol of runner and agent: a line of JSON with the plan, `ready` back, then the moment to start."""

from __future__ import annotations

import gc
import json
import math
import sys
from collections.abc import Sequence
from typing import Any

from fairlead_dev.testbed.lab.kernel import be_real_time, end_with_parent

_QUANTILES = {"min": 0.0, "p05": 0.05, "p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def receive_plan() -> Any:
    """The plan; call first. The agent ends with its runner from now on."""
    end_with_parent()
    return json.loads(sys.stdin.readline())


def await_start(priority: int | None) -> int:
    """Say `ready`, then the monotonic time in ns that the recording starts at. Runs at that real-time priority from here on."""
    # A collection in mid-run would be a pause that no path makes.
    gc.collect()
    gc.freeze()
    gc.disable()
    if priority is not None:
        be_real_time(priority)
    print("ready", flush=True)
    line = sys.stdin.readline()
    if not line:
        # The runner gave up before the start.
        raise SystemExit(0)
    return int(line)


def report(result: Any) -> None:
    """Hand the result to the runner as the last line."""
    print(json.dumps(result), flush=True)


def quantiles(values: Sequence[float]) -> dict[str, float] | None:
    """The nearest-rank quantiles that a manifest keeps; None without values."""
    if not values:
        return None
    ascending = sorted(values)
    return {name: round(ascending[max(0, math.ceil(share * len(ascending)) - 1)], 4) for name, share in _QUANTILES.items()}
