"""Programs that run for a part of a test and never longer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

END_TIMEOUT_S = 10.0


class ProgramError(RuntimeError):
    """A program did not do what a test needs of it; the message has its last words."""


@contextmanager
def running(command: tuple[str, ...], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The program until the block is left. Its output can be read, its errors go to `log`; a killed test takes it along."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            ("setpriv", "--pdeathsig", "SIGTERM", "--", *command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        )
    with process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def last_words(log: Path) -> str:
    """What a program said last."""
    return log.read_text(errors="replace").strip()[-400:] or "no word from it"
