"""One running `fairlead-wan`, started, asked and ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairlead_dev.errors import LabError
from fairlead_dev.netlab.processes import run
from fairlead_dev.testbed.lab.namespaces import DEVICE, Names
from fairlead_dev.testbed.scenario.model import Path as NetworkPath
from fairlead_dev.wan.emulator import run_command, treatment_options

QUANTUM_US = (100, 500)
_QUANTUM_SHARE = 0.01
_PATIENCE_S = 240.0
_LONGEST_LINE_BYTES = 1 << 20
_DROPPED_UNSENT = ("buffer", "codel", "police", "police_udp")


def version(program: Path) -> str:
    """The emulator's version."""
    return run([str(program), "--version"]).split()[-1]


def quantum_us(path: NetworkPath) -> int:
    """How late a packet may be on a busy path: a hundredth of the RTT and of the full queue, within limits.

    Waking up for every packet would cost the processor of several paths side by side.
    """
    least, most = QUANTUM_US
    return round(min(most, max(least, 1000 * _QUANTUM_SHARE * min(path.rtt_ms, path.full_queue_ms))))


def path_options(path: NetworkPath) -> tuple[str, ...]:
    """What `fairlead-wan` is told of a path; where the queue and the loss are the kernel's, the delay alone."""
    if path.emulator == "kernel":
        return ("--rate", "unlimited", "--delay", f"{path.rtt_ms / 2:.6f}ms", "--quantum", f"{quantum_us(path)}us")
    return (
        *("--rate", str(path.rate_bps), "--delay", f"{path.rtt_ms / 2:.6f}ms", "--buffer", str(path.queue_bytes)),
        *("--loss", f"{path.loss_ratio:.9f}", "--quantum", f"{quantum_us(path)}us"),
        *treatment_options(
            path.queue,
            police=path.police.written if path.police else None,
            police_udp=path.police_udp.written if path.police_udp else None,
            thin_acks=path.thin_acks,
        ),
    )


def dropped_unsent(direction: Mapping[str, Any]) -> int:
    """The packets that queue and policers dropped; a direction's counters of an older emulator lack some."""
    return sum(int(direction.get(f"packets_dropped_{why}", 0)) for why in _DROPPED_UNSENT)


class Emulator:
    """The process and its control socket."""

    def __init__(self, program: Path, names: Names, path: NetworkPath, *, seed: int, socket: Path, priority: int | None) -> None:
        self._socket = socket
        one, other = names.path_ends(path)
        ends = (f"{one}:{DEVICE}", f"{other}:{DEVICE}")
        command = run_command(program, ends, socket, (*path_options(path), "--seed", seed), priority)
        self._command = ("setpriv", "--pdeathsig", "SIGTERM", "--", *command)
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
        """Forget how late packets were until now: slow start comes in bursts, and is not measured."""
        await self._ask("measure")

    async def _ask(self, command: str) -> dict[str, Any]:
        question = json.dumps({"version": 1, "command": command}).encode() + b"\n"
        try:
            async with asyncio.timeout(_PATIENCE_S):
                # The emulator gives up on whoever connects and then says nothing for two seconds, as where this process stands still.
                line = b""
                while not line:
                    line = await self._answer(question)
                answer = json.loads(line)
        except (OSError, TimeoutError, ValueError) as error:
            raise LabError(f"the emulator does not answer: {error!r}") from None
        if "result" not in answer:
            raise LabError(f"the emulator refused: {answer}")
        result: dict[str, Any] = answer["result"]
        return result

    async def _answer(self, question: bytes) -> bytes:
        """Its answer, empty where it has given up on the connection."""
        reader, writer = await asyncio.open_unix_connection(self._socket, limit=_LONGEST_LINE_BYTES)
        try:
            writer.write(question)
            return await reader.readline()
        except (BrokenPipeError, ConnectionResetError):
            return b""
        finally:
            writer.close()

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
