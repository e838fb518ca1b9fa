"""Runs the command as users do, in a process of its own."""

import asyncio
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass

PATIENCE_S = 240.0
"""How long anything is waited for: a machine that is slow and busy with other things gets there, so only a hang fails."""


@dataclass(frozen=True)
class Outcome:
    exit_code: int
    stdout: str
    stderr: str


async def start(*arguments: object, environment: Mapping[str, str] | None = None) -> asyncio.subprocess.Process:
    """`environment` None: this process's own."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "fairlead_advisor",
        *(str(argument) for argument in arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        # A test run in the background of a script has SIGINT ignored, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


async def finish(process: asyncio.subprocess.Process) -> Outcome:
    stdout, stderr = await process.communicate()
    assert process.returncode is not None
    return Outcome(process.returncode, stdout.decode(), stderr.decode())


async def run(*arguments: object) -> Outcome:
    return await finish(await start(*arguments))
