"""Running other programs, with failures whose message has the command and its output."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fairlead_dev.cluster.errors import ClusterError, CommandFailedError


def run(
    args: Sequence[str | Path],
    *,
    stdin: str | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> str:
    """Run to the end and return standard output; raises CommandFailedError with both outputs."""
    arguments = [str(arg) for arg in args]
    try:
        done = subprocess.run(
            arguments,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            cwd=cwd,
            env=_merged(env),
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise ClusterError(f"cannot run {arguments[0]!r}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"`{' '.join(arguments[:8])}` did not end within {timeout_s:g} s") from error
    if done.returncode != 0:
        raise CommandFailedError(arguments, done.returncode, done.stdout + done.stderr)
    return done.stdout


def succeeds(args: Sequence[str | Path], *, timeout_s: float | None = None) -> bool:
    """Whether the program can be run and ends with exit code 0 in time."""
    try:
        run(args, timeout_s=timeout_s)
    except ClusterError:
        return False
    return True


def run_logged(
    args: Sequence[str | Path],
    log: Path,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    watch: Callable[[Path], None] | None = None,
) -> None:
    """Run to the end with all output in `log`, calling `watch` about once a second; raises CommandFailedError naming the log."""
    arguments = [str(arg) for arg in args]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=cwd, env=_merged(env)
            )
        except FileNotFoundError as error:
            raise ClusterError(f"cannot run {arguments[0]!r}: {error.strerror}") from error
        try:
            while True:
                try:
                    exit_code = process.wait(timeout=1)
                    break
                except subprocess.TimeoutExpired:
                    if watch:
                        watch(log)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if exit_code != 0:
        raise CommandFailedError(arguments, exit_code, log.read_text(errors="replace"), log)


def wait_until(condition: Callable[[], bool], what: str, *, timeout_s: float, interval_s: float = 0.1) -> None:
    """Poll until the condition holds; raises ClusterError saying what did not happen."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what} within {timeout_s:g} s")
        time.sleep(interval_s)


def _merged(env: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if env is None else {**os.environ, **env}
