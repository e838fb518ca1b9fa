from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fairlead_dev.errors import LabError, LimitError
from fairlead_dev.netlab.processes import Process, run, running, wait_until

PATIENCE_S = 240.0


def python(code: str, tmp_path: Path) -> Process:
    return Process([sys.executable, "-c", code], log=tmp_path / "log")


def test_use_of_the_machine_is_that_of_the_process(tmp_path: Path) -> None:
    code = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    usage = python(code, tmp_path).succeed(PATIENCE_S)
    assert usage.cpu_s >= 0.3
    assert usage.wall_s >= 0.3


def test_its_peak_of_memory_is_noted(tmp_path: Path) -> None:
    with running(python("import time; held = bytearray(64 << 20); time.sleep(600)", tmp_path)) as process:
        wait_until(lambda: process.look() >= 64 << 20, "its memory", PATIENCE_S)
        assert process.stop().peak_rss_bytes >= 64 << 20


def test_a_failure_tells_what_the_program_said(tmp_path: Path) -> None:
    process = python("import sys; sys.exit('no space')", tmp_path)
    with pytest.raises(LabError, match="ended with 1:\nno space"):
        process.succeed(PATIENCE_S)


def test_past_its_limit_it_is_told_and_can_be_ended(tmp_path: Path) -> None:
    with running(python("import time; time.sleep(600)", tmp_path)) as process, pytest.raises(LimitError):
        process.wait(0.1)
    assert not process.is_running
    assert process.stop().exit_code != 0


def test_nothing_of_a_server_that_forks_is_left(tmp_path: Path) -> None:
    code = "import os, time\nif os.fork() == 0: print(os.getpid(), flush=True)\ntime.sleep(600)"
    with running(python(code, tmp_path)):
        wait_until(lambda: bool((tmp_path / "log").read_text().strip()), "the child", PATIENCE_S)
        child = int((tmp_path / "log").read_text())
    wait_until(lambda: not Path(f"/proc/{child}/exe").exists(), "the end of the child", PATIENCE_S)


def test_a_program_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no program nonsense-program"):
        Process(["nonsense-program"], log=tmp_path / "log")
    with pytest.raises(LabError, match="no program nonsense-program"):
        run(["nonsense-program"])
