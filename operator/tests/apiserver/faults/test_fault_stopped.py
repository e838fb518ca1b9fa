"""Nothing of the suite is left when it is stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from control_plane import START_SECONDS, STARTS
from lab import eventually

from faults.workers import SCRIPT

pytestmark = pytest.mark.asyncio


@pytest.mark.long
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_stopped_suite_ends_its_workers_and_their_api_servers(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    # A shell has what it starts in the background ignore an interruption, the tests and their children too.
    command = ("env", "--default-signal=INT", sys.executable, str(SCRIPT), "run", "--workloads", "create", "--workers", "1")
    environment = {**os.environ, "TMPDIR": str(scratch)}
    suite = await asyncio.create_subprocess_exec(*command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    async def its_operator_runs() -> bool:
        assert suite.returncode is None, (await suite.communicate())[1].decode()
        return any(path.stat().st_size for path in scratch.glob("*/operator.log"))

    # On a busy machine its API server may be started more than once.
    await eventually(its_operator_runs, "an operator of the suite", within_seconds=STARTS * START_SECONDS)
    suite.send_signal(sent)
    _output, errors = await asyncio.wait_for(suite.communicate(), 120)
    assert suite.returncode == code, errors.decode()
    assert b"Traceback" not in errors
    looked = await asyncio.create_subprocess_exec("pgrep", "-fa", str(scratch))
    assert await looked.wait() == 1, "a process with a file in it is left"
    assert list(scratch.iterdir()) == []
