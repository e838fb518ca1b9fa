"""One running `fairlead-wan`, started, asked and ended."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

from fairlead_dev.checkout import BINARIES
from fairlead_dev.testbed.errors import LabError, UsageError
from fairlead_dev.testbed.lab.namespaces import DEVICE, Names, run
from fairlead_dev.testbed.scenario.model import Path as NetworkPath

PROGRAM_VARIABLE = "FAIRLEAD_WAN"
QUANTUM_US = (100, 500)
_QUANTUM_SHARE = 0.01
_PATIENCE_S = 15.0
_LONGEST_LINE_BYTES = 1 << 20


def find_program() -> Path:
    """The emulator: $FAIRLEAD_WAN, or the checkout's `build/bin`, or on the search path."""
    named = os.environ.get(PROGRAM_VARIABLE)
    built = BINARIES / "fairlead-wan"
    found = named or (str(built) if built.exists() else shutil.which("fairlead-wan"))
    if not found or not os.access(found, os.X_OK):
        raise UsageError(f"{named or 'fairlead-wan'}: no such program: build it with `make rust`, or name it in ${PROGRAM_VARIABLE}")
    return Path(found).resolve()


def version(program: Path) -> str:
    """The emulator's version."""
    return run([str(program), "--version"]).split()[-1]


def quantum_us(path: NetworkPath) -> int:
    """How late a packet may be on a busy path: a hundredth of the RTT and of the full queue, within limits.

    Waking up for every packet would cost the processor of several paths side by side.
    """
    least, most = QUANTUM_US
    return round(min(most, max(least, 1000 * _QUANTUM_SHARE * min(path.rtt_ms, path.full_queue_ms))))


class Emulator:
    """The process and its control socket."""

    def __init__(self, program: Path, names: Names, path: NetworkPath, *, seed: int, socket: Path, priority: int | None) -> None:
        self._socket = socket
        delay = f"{path.rtt_ms / 2:.6f}ms"
        self._command = [
            *("setpriv", "--pdeathsig", "SIGTERM", "--"),
            *(() if priority is None else ("chrt", "-f", str(priority))),
            *(str(program), "run", "--a", f"{names.a}:{DEVICE}", "--b", f"{names.b}:{DEVICE}"),
            *("--rate", str(path.rate_bps), "--delay", delay, "--buffer", str(path.queue_bytes)),
            *("--loss", f"{path.loss_ratio:.9f}", "--quantum", f"{quantum_us(path)}us", "--seed", str(seed), "--control", str(socket)),
        ]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, log: Path) -> None:
        """Return when packets flow."""
        with log.open("wb") as errors:
            self._process = await asyncio.create_subprocess_exec(*self._command, stdout=asyncio.subprocess.PIPE, stderr=errors)
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(_PATIENCE_S):
                line = await self._process.stdout.readline()
        except TimeoutError:
            line = b""
        if line.strip() != b"ready":
            await self.end()
            raise LabError(f"the emulator did not start: {_last_words(log)}")

    async def stats(self) -> dict[str, Any]:
        """Its counters now."""
        return await self._ask("stats")

    async def measure_lateness(self) -> None:
        """Forget how late packets were until now: slow start may be stormy, and nobody looks at it."""
        await self._ask("measure")

    async def _ask(self, command: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                reader, writer = await asyncio.open_unix_connection(self._socket, limit=_LONGEST_LINE_BYTES)
                try:
                    writer.write(json.dumps({"version": 1, "command": command}).encode() + b"\n")
                    answer = json.loads(await reader.readline())
                finally:
                    writer.close()
        except (OSError, TimeoutError, ValueError) as error:
            raise LabError(f"the emulator does not answer: {error!r}") from None
        if "result" not in answer:
            raise LabError(f"the emulator refused: {answer}")
        result: dict[str, Any] = answer["result"]
        return result

    async def end(self) -> None:
        """End it, by its handle; does nothing if it never ran or has ended."""
        if self._process is not None:
            await end_process(self._process)


def _last_words(log: Path) -> str:
    return log.read_text(errors="replace").strip() or "no word from it"


async def end_process(process: asyncio.subprocess.Process) -> None:
    """SIGTERM, then SIGKILL after five seconds, and wait."""
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(5):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
