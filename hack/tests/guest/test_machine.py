"""What the guest begins with, and what is said where there is no QEMU or it says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_dev.errors import LabError, LimitError, NotAvailableError
from fairlead_dev.guest import machine


def program(folder: Path, text: str) -> str:
    path = folder / "qemu"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def boot(folder: Path, text: str, limit_s: float = 60) -> list[str]:
    """Of a stand-in for QEMU, which finds both serial lines as shell variables."""
    lines = "for each; do case $each in file:*console) console=${each#file:};; file:*reports) reports=${each#file:};; esac; done\n"
    return list(machine.boot(program(folder, lines + text), folder / "kernel", folder / "archive", folder, limit_s))


def test_whole_lines_are_taken_as_they_come_until_the_machine_is_off(tmp_path: Path) -> None:
    said = boot(tmp_path, r"""printf 'one\r\ntw' >"$reports"; printf 'o\r\nhalf' >>"$reports" """)
    assert said == ["one", "two"]


def test_a_silent_guest_is_ended_with_the_kernels_last_words(tmp_path: Path) -> None:
    with pytest.raises(LimitError, match="said nothing for 0 s; its console:\nKernel panic"):
        boot(tmp_path, """echo 'Kernel panic' >"$console"; exec sleep 600""", limit_s=0.4)


def test_a_machine_that_cannot_run_is_told_in_its_words(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="QEMU ended with 1:\nno such machine"):
        boot(tmp_path, "echo 'no such machine' >&2; exit 1")


def test_without_qemu_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for install in (False, True):
        with pytest.raises(NotAvailableError, match="apt-get install --no-install-recommends qemu-system-x86"):
            machine.find_qemu(install=install)


def test_the_first_program_runs_the_module_and_turns_the_machine_off() -> None:
    files = {member.name: member for member in machine.first_files("fairlead_dev.some.module")}
    first = files["init"].content.decode()
    assert first.index("python3.11 -m fairlead_dev.some.module >/dev/ttyS1") < first.index("poweroff -f")
    assert "checkout/fairlead_dev/errors.py" in files
    assert {"proc", "sys", "dev", "run", "tmp"} <= files.keys()
