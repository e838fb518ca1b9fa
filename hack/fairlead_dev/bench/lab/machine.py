"""The machine under the bench: packages that are compared with, its load, what it is."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from fairlead_dev.errors import LabError, NotAvailableError
from fairlead_dev.netlab.processes import run

APT_LIMIT_S = 300
MOST_BUSY_SHARE = 0.9
"""Of the processors' time: with all of it advisors and movers wait for one another, and a probe takes that for traffic."""
LIBUDT_HEADER = "/usr/include/udt/udt.h"
SYSTEM_PYTHON = "/usr/bin/python3"
LIBTORRENT_MODULE = "/usr/lib/python3/dist-packages/libtorrent.*.so"
"""For the system's Python; its name has the kind of processor."""
PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ss": "iproute2",
    "ethtool": "ethtool",
    "sysctl": "procps",
    "setpriv": "util-linux",
    "dd": "coreutils",
    "nft": "nftables",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "iperf3": "iperf3",
    "ping": "iputils-ping",
    "mptcpize": "mptcpize",
    "openssl": "openssl",
    "rclone": "rclone",
    "xrootd": "xrootd-server",
    "xrdcp": "xrootd-client",
    "globus-gridftp-server": "globus-gridftp-server-progs",
    "globus-url-copy": "globus-gass-copy-progs",
    "nuttcp": "nuttcp",
    "uftp": "uftp",
    "uftpd": "uftp",
    "g++": "g++",
    LIBUDT_HEADER: "libudt-dev",
    LIBTORRENT_MODULE: "python3-libtorrent",
}
"""Programs, and files of libraries, by the Debian package that brings them."""
TEST_BED = ("ip", "tc", "ss", "ethtool", "sysctl", "setpriv", "dd")


def missing(programs: Iterable[str]) -> list[str]:
    """Those of the programs, and of the files by a pattern of their whole path, that are not here."""
    return [program for program in programs if not (any(Path("/").glob(program[1:])) if program[0] == "/" else shutil.which(program))]


def install(programs: Iterable[str]) -> str | None:
    """Installs what is missing by apt; returns why that could not be done, if so. `need` checks again."""
    packages = sorted({PACKAGES[program] for program in missing(programs)})
    if not packages:
        return None
    if not shutil.which("apt-get"):
        return f"this is no Debian: install {', '.join(packages)} by hand"
    print(f"installing {', '.join(packages)}", flush=True)
    problem = None
    try:
        run(["apt-get", "update", "-q"], timeout_s=APT_LIMIT_S)
    except LabError as error:
        problem = str(error)
    for package in packages:
        # One by one: what cannot be had must not keep the others away.
        try:
            run(
                ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends", package],
                timeout_s=APT_LIMIT_S,
            )
        except LabError as error:
            problem = str(error)
    return problem


def need(*programs: str) -> None:
    """Raises NotAvailableError naming the packages of those programs that are not here."""
    lacking = missing(programs)
    if lacking:
        packages = " ".join(sorted({PACKAGES[program] for program in lacking}))
        raise NotAvailableError(f"{', '.join(lacking)} is missing: apt-get install {packages}")


def need_root() -> None:
    """Raises LabError for anybody else."""
    if os.geteuid() != 0:
        raise LabError("network namespaces need root: run it with sudo")


def version_of(command: list[str]) -> str:
    """The first number with dots in a program's output."""
    found = re.search(r"\d+(?:\.\d+)+\S*", run(command))
    return found.group(0) if found else "unknown"


def load() -> float:
    """Mean number of runnable processes over the last minute."""
    return os.getloadavg()[0]


def without_rest(busy: float) -> Iterator[str]:
    """The fault of a run during which the processors were `busy` for that share of the time, if it is one."""
    if busy > MOST_BUSY_SHARE:
        yield f"the processors were busy for {busy:.0%} of the time, at most {MOST_BUSY_SHARE:.0%}: run fewer side by side"


def busy_share(before: tuple[int, int], after: tuple[int, int]) -> float:
    """The share of all cores' time between two readings of `processor_ticks` that was not idle; what a hypervisor took counts as busy."""
    ticks = after[0] - before[0]
    return 1 - (after[1] - before[1]) / ticks if ticks > 0 else 0.0


def processor_ticks() -> tuple[int, int]:
    """Since the boot, of all cores: all, and idle or waiting for a disk."""
    ticks = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4]


def description() -> str:
    """Processor, cores, memory and kernel in a line."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    found = re.search(r"model name\s*: (.*)", cpuinfo)
    model = found.group(1) if found else platform.machine()
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} cores of {model}, {memory_gib:.0f} GiB, Linux {platform.release()}"


@contextlib.contextmanager
def scratch_folder(parent: Path, prefix: str, least_free_bytes: int = 0) -> Iterator[Path]:
    """A folder of this run, gone at its end, and those of runs that were killed. Servers of other accounts may pass through it.

    Raises LabError where `parent` has too little room.
    """
    for left in parent.glob(f"{prefix}*"):
        owner = left.name.removeprefix(prefix)
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = parent / f"{prefix}{os.getpid()}"
    if shutil.disk_usage(parent).free < least_free_bytes:
        raise LabError(f"{parent} has less than {least_free_bytes >> 30} GiB free: give another folder with --scratch")
    try:
        folder.mkdir(mode=0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
