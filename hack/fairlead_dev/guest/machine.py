"""A machine that has a kernel, a first file system and two serial lines: one for the kernel, one for what its program reports."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.errors import LabError, LimitError, NotAvailableError
from fairlead_dev.guest import cpio
from fairlead_dev.netlab.processes import LOOK_S, Process, run, running

QEMU, PACKAGE = "qemu-system-x86_64", "qemu-system-x86"
APT_LIMIT_S = 900
MEMORY_MIB = 1024
ACCOUNT, ACCOUNT_ID = "mover", 65532
"""A user of the guest without any right, as in the movers' pods."""
_INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox ip link set lo up
export PATH=/bin:/usr/bin PYTHONDONTWRITEBYTECODE=1
cd /checkout
python3.11 -m {module} >/dev/ttyS1
/bin/busybox poweroff -f
"""
_FOLDERS = ("proc", "sys", "dev", "run", "tmp")
_CONSOLE_CHARS = 2500


def find_qemu(*, install: bool) -> str:
    """The program's path; installed by apt-get if that is asked for and possible. Raises NotAvailableError."""
    found = shutil.which(QEMU)
    if found is None and install and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"installing {PACKAGE}", flush=True)
        try:
            run(["apt-get", "update", "-q"], timeout_s=APT_LIMIT_S)
            command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", PACKAGE]
            run(["env", "DEBIAN_FRONTEND=noninteractive", *command], timeout_s=APT_LIMIT_S)
        except LabError as error:
            raise NotAvailableError(f"QEMU cannot be installed: apt-get install --no-install-recommends {PACKAGE}\n{error}") from error
        found = shutil.which(QEMU)
    if found is None:
        raise NotAvailableError(f"there is no QEMU: apt-get install --no-install-recommends {PACKAGE}")
    return found


def first_files(module: str) -> list[cpio.Member]:
    """The first program, which runs a Python module of the development tools and turns the machine off, and what that needs."""
    code = CHECKOUT / "hack"
    accounts = f"root:x:0:0::/:/bin/sh\n{ACCOUNT}:x:{ACCOUNT_ID}:{ACCOUNT_ID}::/:/bin/sh\n"
    return [
        cpio.file("init", _INIT.format(module=module).encode(), program=True),
        cpio.link("bin/sh", "busybox"),
        cpio.file("etc/passwd", accounts.encode()),
        *(cpio.folder(name) for name in _FOLDERS),
        *(cpio.file(f"checkout/{path.relative_to(code)}", path.read_bytes()) for path in (code / "fairlead_dev").rglob("*.py")),
    ]


def boot(qemu: str, kernel: Path, archive: Path, scratch: Path, silence_limit_s: float) -> Iterator[str]:
    """The lines that the guest's program reports, until the machine is off. Raises LimitError with the kernel's last words after a silence
    of that length."""
    reports, console = scratch / "reports", scratch / "console"
    reports.touch()
    console.touch()
    # Without KVM, which differs from machine to machine; behaviour does not need it.
    command = [qemu, "-accel", "tcg", "-cpu", "max", "-m", str(MEMORY_MIB), "-nodefaults", "-display", "none", "-no-reboot"]
    command += ["-kernel", str(kernel), "-initrd", str(archive), "-append", "console=ttyS0 quiet panic=-1"]
    command += ["-serial", f"file:{console}", "-serial", f"file:{reports}"]
    with reports.open(encoding="utf-8", errors="replace", newline="\n") as lines, running(Process(command, log=scratch / "log")) as machine:
        heard_s, begun = time.monotonic(), ""
        while True:
            is_running = machine.is_running
            begun += lines.read()
            *whole, begun = begun.split("\n")
            for line in whole:
                yield line.rstrip("\r")
            if whole:
                heard_s = time.monotonic()
            elif not is_running:
                break
            elif time.monotonic() - heard_s > silence_limit_s:
                raise LimitError(f"the guest said nothing for {silence_limit_s:.0f} s{last_words(console)}")
            else:
                time.sleep(LOOK_S)
        if machine.wait(0).exit_code:
            raise LabError(f"QEMU ended with {machine.wait(0).exit_code}{machine.log_tail()}")


def last_words(console: Path) -> str:
    """The end of what the kernel and the program's errors wrote, for a message."""
    text = console.read_text(errors="replace").replace("\r", "").strip()
    return f"; its console:\n{text[-_CONSOLE_CHARS:]}" if text else ""
