"""Starts operators quickly: it imports the operator once, and each one is a process forked from it. Run as a program, it imports the
package `fairlead` beside this file if there is one.

Reads a line of JSON for each operator that is wanted, `{"words": [...], "log": "...", "timings": {...}, "clock_off_seconds": 0}`, and
writes its process ID.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
import traceback
from typing import Any

from fairlead.handlers import process
from fairlead.handlers.timings import Timings
from fairlead.kube.clock import ServerClock

_PR_SET_PDEATHSIG = 1


def _become_operator(wanted: dict[str, Any]) -> None:
    # With this process end its operators.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with open(wanted["log"], "ab", buffering=0) as log, open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    code = 1
    try:
        clock = ServerClock(lambda: time.time() + wanted["clock_off_seconds"])
        code = process.main(wanted["words"], Timings(**wanted["timings"]), clock)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Serves until standard input ends."""
    # Nobody waits for the operators here: who started this watches them by their process IDs.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become_operator(json.loads(line))
        print(pid, flush=True)


if __name__ == "__main__":
    main()
