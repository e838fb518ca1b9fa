"""Nothing of a run is left, however its runner ends."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead_dev.netlab.namespaces import NAMESPACES
from fairlead_dev.testbed.lab.namespaces import PREFIX, Names, remove_abandoned, run_namespaces
from fairlead_dev.testbed.runs.record import RecordingLab
from fairlead_dev.testbed.scenario.model import EmulatorKind
from fairlead_dev.testbed.scenario.model import Path as NetworkPath


def namespaces_of(pid: int) -> list[str]:
    return [path.name for path in NAMESPACES.glob(f"{PREFIX}-{pid}-*")]


def processes_naming(text: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and text.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_until(condition: Callable[[], object], what: str, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture
def runner(bench: RecordingLab, tmp_path: Path) -> "subprocess.Popen[str]":
    """A run that has begun: its emulator is there."""
    # A shell has what it starts in the background ignore an interruption, the tests and their children too.
    runner = ("env", "--default-signal=INT", sys.executable, "-m", "fairlead_dev.testbed")
    process = subprocess.Popen(
        [*runner, "run", "constant-tcp", "--seconds", "60", "--output", str(tmp_path / "run")],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_until(lambda: processes_naming(f"{PREFIX}-{process.pid}-0-a:wan0"), "the emulator did not start")
    return process


@pytest.mark.parametrize(("sent", "exit_code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_runner_ends_its_processes_and_removes_its_namespaces(
    runner: "subprocess.Popen[str]", sent: signal.Signals, exit_code: int, tmp_path: Path
) -> None:
    runner.send_signal(sent)
    _output, errors = runner.communicate(timeout=240)
    assert runner.returncode == exit_code, errors
    assert "Traceback" not in errors
    assert namespaces_of(runner.pid) == []
    assert processes_naming(f"{PREFIX}-{runner.pid}-") == []
    assert list(tmp_path.iterdir()) == []


def test_a_killed_runner_leaves_no_process_and_the_next_one_removes_its_namespaces(runner: "subprocess.Popen[str]") -> None:
    runner.kill()
    runner.communicate(timeout=240)
    wait_until(lambda: not processes_naming(f"{PREFIX}-{runner.pid}-"), "the emulator outlived its runner")
    remove_abandoned()
    assert namespaces_of(runner.pid) == []


@pytest.mark.parametrize("emulator", ["fairlead-wan", "kernel"])
async def test_namespaces_are_gone_when_making_them_was_cancelled(bench: RecordingLab, emulator: EmulatorKind) -> None:
    names = Names.of(os.getpid(), 999)
    path = NetworkPath(rate_bps=10_000_000, rtt_ms=10, buffer_bdp=1, emulator=emulator)

    async def make() -> None:
        async with run_namespaces(names, path):
            await asyncio.sleep(3600)

    making = asyncio.create_task(make())
    await asyncio.sleep(0)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert not [name for name in names.of_path(path) if (NAMESPACES / name).exists()]
