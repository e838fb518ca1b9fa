"""Cargo in a target folder that the machine's checkouts share; run as `hack/cargo ARGUMENT…`, with cargo's own arguments.

Cargo tells workspace members by their place in the workspace, and what is fresh by times of files, so that it takes the programs of one
checkout for those of another. Here a checkout that comes after another one has the workspace's packages built again, and none builds or
runs tests in the folder while another one does.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TextIO

from fairlead_dev.cluster.layout import Layout
from fairlead_dev.errors import DevError

LOCK, STAMP = ".fairlead-lock", ".fairlead-checkout"
OWN_PACKAGES = "fairlead-*"
"""The names of all packages of the workspace, and of no other."""


def rust_target() -> str:
    """The target that released programs are built for; naming it keeps build scripts free of the static flags."""
    return f"{platform.machine()}-unknown-linux-gnu"


def released(target: Path) -> Path:
    """The folder where cargo leaves them."""
    return target / rust_target() / "release"


@contextmanager
def in_turn(target: Path, checkout: Path, say: Callable[[str], None]) -> Iterator[None]:
    """The target folder is this checkout's until the block is left; its own commands may use it beside each other."""
    target.mkdir(parents=True, exist_ok=True)
    with (target / LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        # The kernel lets go of a lock before it gives another kind of it, so a third one may come in between.
        while _last_checkout(target) != str(checkout):
            fcntl.flock(lock, fcntl.LOCK_UN)
            _lock_alone(lock, say)
            if _last_checkout(target) != str(checkout):
                _forget_own_packages(target)
                (target / STAMP).write_text(str(checkout))
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def place(names: Sequence[str], release: Path, programs: Path) -> None:
    """Copy programs, and cargo's notes of their sources, from where cargo has left them; each is replaced as a whole, if it is another."""
    programs.mkdir(parents=True, exist_ok=True)
    for file in (file for name in names for file in (f"{name}.d", name)):
        source, copy = release / file, programs / file
        if file.endswith(".d") and not source.exists():
            copy.unlink(missing_ok=True)
            continue
        if copy.is_file() and not copy.is_symlink() and _seen(copy) == _seen(source):
            continue
        temporary = copy.with_name(f".{file}.{os.getpid()}")
        shutil.copy2(source, temporary)
        temporary.replace(copy)


def to_place(arguments: Sequence[str]) -> list[str]:
    """The packages whose programs a call of cargo builds for release."""
    pairs = list(pairwise(arguments))
    if arguments[:1] != ["build"] or "--release" not in arguments or ("--target", rust_target()) not in pairs:
        return []
    return [name for option, name in pairs if option == "-p"]


def _last_checkout(target: Path) -> str | None:
    try:
        return (target / STAMP).read_text()
    except FileNotFoundError:
        return None


def _lock_alone(lock: TextIO, say: Callable[[str], None]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("Waiting for another checkout's cargo to end …")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _forget_own_packages(target: Path) -> None:
    """With no fingerprint cargo builds a package again."""
    for profile in ("*", "*/*"):
        for fingerprint in target.glob(f"{profile}/.fingerprint/{OWN_PACKAGES}"):
            shutil.rmtree(fingerprint)


def _seen(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run to the end, as if this process were the command: what make has opened for it and all signals are passed on."""
    child = subprocess.Popen(command, env=environment, close_fds=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda received, _: child.send_signal(received))
    code = child.wait()
    return code if code >= 0 else 128 - code


def _say(text: str) -> None:
    print(f"cargo: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Cargo's exit code; programs that were built for release are in build/bin then."""
    try:
        paths = Layout.from_environment(os.environ)
        with in_turn(paths.cargo_target, paths.repository, _say):
            code = _run(["cargo", *arguments], {**os.environ, "CARGO_TARGET_DIR": str(paths.cargo_target)})
            if code == 0:
                place(to_place(arguments), released(paths.cargo_target), paths.checkout_programs)
    except (DevError, OSError) as error:
        _say(str(error))
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
