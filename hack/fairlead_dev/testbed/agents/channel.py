"""How the runner and an agent speak: a line of JSON with the plan, `ready` back, then the moment to start."""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

from fairlead_dev.testbed.lab.kernel import be_real_time, end_with_parent


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
