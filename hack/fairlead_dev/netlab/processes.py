"""Programs under measurement: started in a namespace, waited for with their use of the machine, ended by their id."""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.errors import LabError, LimitError

LOOK_S = 0.02
"""Time between two readings of a process's peak of memory; the kernel forgets it when the process ends."""
GRACE_S = 5.0
LOG_TAIL_CHARS = 800


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """How a process ended and what it took."""

    exit_code: int
    wall_s: float
    cpu_s: float
    """User and system time of the process and of the children it waited for."""
    peak_rss_bytes: int
    """VmHWM at the last reading."""


class Process:
    """A running program. Its standard error goes to `log`, and so does its output unless that has a file of its own."""

    def __init__(
        self,
        args: Sequence[str | Path],
        *,
        log: Path,
        namespace: str | None = None,
        output: Path | None = None,
        user: str | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        """`user` is the account to run as; `env` is added to this process's environment."""
        self.args = [str(arg) for arg in args]
        self.log = log
        if not shutil.which(self.args[0]):
            raise LabError(f"there is no program {self.args[0]}")
        # The kernel ends it with this process, even when this one is killed. setpriv and ip replace themselves: the id stays.
        prefix = ["setpriv", "--pdeathsig", "KILL"]
        if user is not None:
            account = pwd.getpwnam(user)
            prefix = ["setpriv", "--reuid", str(account.pw_uid), "--regid", str(account.pw_gid), "--clear-groups", "--", *prefix]
        if namespace is not None:
            prefix = ["ip", "netns", "exec", namespace, *prefix]
        with log.open("ab") as err, (output or log).open("ab") as out:
            self._started_s = time.monotonic()
            self._child = subprocess.Popen(
                [*prefix, "--", *self.args],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env={**os.environ, **(env or {})},
            )
        self._pidfd = os.pidfd_open(self._child.pid)
        self._usage: ProcessUsage | None = None
        self._peak_rss_bytes = 0

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._usage is None and not select.select([self._pidfd], [], [], 0)[0]

    def look(self) -> int:
        """Notes its memory; returns the peak in bytes so far."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    self._peak_rss_bytes = max(self._peak_rss_bytes, int(line.split()[1]) * 1024)
        return self._peak_rss_bytes

    def wait(self, limit_s: float, *, beside: Sequence[Process] = ()) -> ProcessUsage:
        """Waits for its end, noting the memory of the processes `beside` too. Raises LimitError past the limit."""
        deadline_s = time.monotonic() + limit_s
        while self._usage is None:
            self.look()
            for other in beside:
                other.look()
            if select.select([self._pidfd], [], [], LOOK_S)[0]:
                self._reap()
            elif time.monotonic() > deadline_s:
                raise LimitError(f"`{self.shown}` did not end within {limit_s:.0f} s{self.log_tail()}")
        return self._usage

    def succeed(self, limit_s: float, *, beside: Sequence[Process] = ()) -> ProcessUsage:
        """Waits for its end and raises LabError unless that was a success."""
        usage = self.wait(limit_s, beside=beside)
        if usage.exit_code != 0:
            raise LabError(f"`{self.shown}` ended with {usage.exit_code}{self.log_tail()}")
        return usage

    def signal(self, number: int) -> None:
        """Sends it a signal if it still runs."""
        if self.is_running:
            signal.pidfd_send_signal(self._pidfd, number)

    def stop(self) -> ProcessUsage:
        """Ends it, kindly first, and what it left in its session."""
        if self._usage is None:
            self.signal(signal.SIGTERM)
            if not select.select([self._pidfd], [], [], GRACE_S)[0]:
                self.signal(signal.SIGKILL)
                select.select([self._pidfd], [], [])
            # Servers that fork: what they started has the session's number, which is free only after the last has gone.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._reap()
        assert self._usage is not None
        return self._usage

    @property
    def shown(self) -> str:
        """The command, short enough for a message."""
        return " ".join(Path(self.args[0]).name if n == 0 else arg for n, arg in enumerate(self.args))[:200]

    def log_tail(self) -> str:
        """The end of its log, for a message."""
        text = self.log.read_text(errors="replace").strip()
        return f":\n{text[-LOG_TAIL_CHARS:]}" if text else ""

    def _reap(self) -> None:
        _, status, used = os.wait4(self._child.pid, 0)
        self._child.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - self._started_s
        self._usage = ProcessUsage(self._child.returncode, wall_s, used.ru_utime + used.ru_stime, self._peak_rss_bytes)
        os.close(self._pidfd)


@contextlib.contextmanager
def running(process: Process) -> Iterator[Process]:
    """Ends the process when the block is left."""
    try:
        yield process
    finally:
        process.stop()


def run(args: Sequence[str | Path], *, namespace: str | None = None, stdin: str | None = None, timeout_s: float = 60) -> str:
    """Runs a program to its end; returns its output. Raises LabError with what it wrote."""
    command = [str(arg) for arg in args]
    full = command if namespace is None else ["ip", "netns", "exec", namespace, *command]
    try:
        done = subprocess.run(full, input=stdin or "", capture_output=True, text=True, timeout=timeout_s, check=False)
    except FileNotFoundError as error:
        raise LabError(f"there is no program {command[0]}: install it (`make packages`)") from error
    except subprocess.TimeoutExpired as error:
        raise LimitError(f"`{' '.join(command)}` did not end within {timeout_s:.0f} s") from error
    if done.returncode != 0:
        hint = "" if os.geteuid() == 0 else " (labs need root)"
        said = (done.stdout + done.stderr).strip()[-LOG_TAIL_CHARS:]
        raise LabError(f"`{' '.join(command)}` ended with {done.returncode}{hint}:\n{said}")
    return done.stdout


def wait_until(condition: Callable[[], bool], what: str, limit_s: float) -> None:
    """Looks until the condition holds; raises LimitError naming what did not come."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise LimitError(f"{what} did not come within {limit_s:.0f} s")
        time.sleep(LOOK_S)
