"""The processes of a run: agents, which get a plan and report at their end, and programs under test."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead_dev.errors import LabError
from fairlead_dev.netlab.namespaces import NAMESPACES
from fairlead_dev.testbed.lab.emulator import end_process

AGENT_PATIENCE_S = 240.0
"""With an agent's first word, and with its last once its run is over."""
_LONGEST_LINE_BYTES = 1 << 24


class Processes:
    """Whatever a run started, each with a log in `work`; `end` ends what still runs, the last one first."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._agents: list[asyncio.subprocess.Process] = []

    async def start_agent(self, name: str, module: str, plan: Mapping[str, Any]) -> None:
        """Start a module with the protocol of the test bed's agents (`fairlead_dev.testbed.agents.channel`), and wait until it is ready."""
        process = await self._start(name, [sys.executable, "-m", module], asyncio.subprocess.PIPE)
        assert process.stdin is not None
        self._agents.append(process)
        process.stdin.write(json.dumps(plan).encode() + b"\n")
        if (await self._line(name, AGENT_PATIENCE_S)).strip() != b"ready":
            raise LabError(f"{name} did not start: {self.last_words(name)}")

    def release(self, start_ns: int) -> None:
        """Send all agents the time at which the recording starts, on the monotonic clock."""
        for process in self._agents:
            assert process.stdin is not None
            process.stdin.write(f"{start_ns}\n".encode())

    async def result(self, name: str, patience_s: float) -> Any:
        """What an agent reports at its end."""
        line = await self._line(name, patience_s)
        if not line:
            raise LabError(f"{name} failed: {self.last_words(name)}")
        await self._running[name].wait()
        return json.loads(line)

    async def start_program(self, name: str, command: Sequence[object], namespace: str, priority: int | None) -> None:
        """Start a program in a network namespace; it ends with this process at the latest."""
        words = [
            *("nsenter", f"--net={NAMESPACES / namespace}", "--", "setpriv", "--pdeathsig", "SIGTERM", "--"),
            *(() if priority is None else ("chrt", "-f", str(priority))),
            *(str(word) for word in command),
        ]
        await self._start(name, words, asyncio.subprocess.DEVNULL)

    async def _start(self, name: str, words: Sequence[str], pipe: int) -> asyncio.subprocess.Process:
        with self._log(name).open("wb") as log:
            output = asyncio.subprocess.PIPE if pipe == asyncio.subprocess.PIPE else log
            self._running[name] = process = await asyncio.create_subprocess_exec(
                *words, stdin=pipe, stdout=output, stderr=log, limit=_LONGEST_LINE_BYTES
            )
        return process

    def require_running(self, *names: str) -> None:
        """LabError with the last words of a program that should still run and does not."""
        for name in names:
            if (code := self._running[name].returncode) is not None:
                raise LabError(f"{name} ended with {code} before its time: {self.last_words(name)}")

    async def stop(self, name: str) -> None:
        """End a program as Kubernetes does."""
        await end_process(self._running[name])

    def last_words(self, name: str) -> str:
        """The last line that it has written."""
        lines = self._log(name).read_text(errors="replace").strip().splitlines()
        return lines[-1][-400:] if lines else "no word from it"

    async def end(self) -> None:
        """End whichever still run."""
        for process in reversed(self._running.values()):
            await end_process(process)

    async def _line(self, name: str, patience_s: float) -> bytes:
        output = self._running[name].stdout
        assert output is not None
        try:
            async with asyncio.timeout(patience_s):
                return await output.readline()
        except TimeoutError:
            raise LabError(f"{name} said nothing for {patience_s:.0f} s: {self.last_words(name)}") from None

    def _log(self, name: str) -> Path:
        return self._work / f"{name}.log"
