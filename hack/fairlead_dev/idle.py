"""`python -m fairlead_dev.idle COMMAND...`: runs a command in what everybody else leaves of the processors, and ends as it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

AUTOGROUP = Path("/proc/self/autogroup")
LOWEST = "19"


def give_way() -> None:
    """Puts this process, which leads a session of its own, behind all others.

    Where the kernel groups processes by session (autogroup, sched(7)), a policy counts within its group alone, so the group gives way too.
    """
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    # Kernels without such groups have no file; there the policy is enough.
    with suppress(FileNotFoundError):
        AUTOGROUP.write_text(LOWEST)


def run(command: Sequence[str]) -> int:
    """The exit code of the command. A signal that ends this process ends the command's whole session."""
    process = subprocess.Popen(command, start_new_session=True, preexec_fn=give_way)  # noqa: PLW1509 - there is one thread

    def end(number: int, _: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
