"""Where runs take place: a namespace of an API server, and operators that are started in an instant."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fairlead.handlers.timings import Timings
from fairlead.kube.client import KubeClient

HERE = Path(__file__).resolve().parent


class OperatorProcess:
    """One operator. It is no child of this process, and is known by a file descriptor of it."""

    def __init__(self, pid: int) -> None:
        self._descriptor = os.pidfd_open(pid)
        self.ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._note_end)

    def _note_end(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)
        self.ended.set()

    def send(self, number: signal.Signals) -> None:
        """Sends it a signal, unless it has ended."""
        if not self.ended.is_set():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    async def end(self, number: signal.Signals) -> None:
        """Sends it a signal and waits for its end."""
        self.send(number)
        await self.ended.wait()


class ForkServer:
    """What operators are forked from. `folder` has another package `fairlead` than the one that is installed, if it is given."""

    def __init__(self, folder: Path = HERE) -> None:
        self._program = folder / "forkserver.py"
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Starts it, which takes as long as an operator's start."""
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(sys.executable, str(self._program), stdin=pipe, stdout=pipe)
        await self._line()

    async def operator(self, words: Sequence[str], log: Path, timings: Timings, clock_off_seconds: float = 0.0) -> OperatorProcess:
        """A new operator, whose clock is wrong by so much."""
        assert self._process is not None and self._process.stdin is not None
        wanted = {"words": list(words), "log": str(log), "timings": asdict(timings), "clock_off_seconds": clock_off_seconds}
        async with self._lock:
            self._process.stdin.write(json.dumps(wanted).encode() + b"\n")
            return OperatorProcess(int(await self._line()))

    async def stop(self) -> None:
        """Ends it, and with it the operators that are left."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _line(self) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._program} ended: its message is above")
        return line


@dataclass(frozen=True)
class Bed:
    """One place for runs, one after the other. `server` is the API server, with the operator's certificate; `folder` is for logs."""

    client: KubeClient
    namespace: str
    server: str
    ca: Path
    certificate: Path
    key: Path
    folder: Path
    forkserver: ForkServer
    flags: Mapping[str, str]
    """What the operator is given in every run."""
