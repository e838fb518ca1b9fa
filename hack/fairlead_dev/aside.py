"""`python -m fairlead_dev.aside COMMAND...`: runs a command that gives way to the others of this machine, and ends as it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

AUTOGROUP = Path("/proc/self/autogroup")
NICENESS, GROUP_NICENESS = 10, 5
"""A tenth of the weight of each other process, a third of that of another session. The idle policy would leave it nothing where somebody's
endless loop has the rest."""


def give_way() -> None:
    """Lowers the weight of this process, which leads a session of its own.

    Where the kernel groups processes by session (autogroup, sched(7)), a niceness counts within its group alone, so the group has one too.
    """
    os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    # Kernels without such groups have no file; there the process's own is enough.
    with suppress(FileNotFoundError):
        AUTOGROUP.write_text(str(GROUP_NICENESS))


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
