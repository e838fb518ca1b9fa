"""What the machine lacks, found and reported before anything is started."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.cluster.errors import ClusterError
from fairlead_dev.cluster.layout import MINIMUM_GO, MINIMUM_PYTHON, MINIMUM_RUST, Layout
from fairlead_dev.cluster.machine import shell
from fairlead_dev.cluster.machine.progress import BuildProgress

GIB = 1 << 30
NEEDED_MEMORY = 4 * GIB
NEEDED_DISK_WARM = 4 * GIB
NEEDED_DISK_COLD = 25 * GIB
"""Module and build caches of Go and Cargo, programs, images."""

TOOLS = {
    "buildah": ("buildah",),
    "mmdebstrap": ("mmdebstrap", "arch-test"),
    "iptables": ("iptables",),
    "nft": ("nftables",),
    "ip": ("iproute2",),
    "nsenter": ("util-linux",),
    "unshare": ("util-linux",),
    "setpriv": ("util-linux",),
    "setsid": ("util-linux",),
    "mount": ("mount",),
    "sysctl": ("procps",),
    "openssl": ("openssl",),
    "gcc": ("gcc", "libc6-dev"),
    "g++": ("g++",),
    "strip": ("binutils",),
    "pkg-config": ("pkg-config",),
    "ethtool": ("ethtool",),
    "filefrag": ("e2fsprogs",),
    "ping": ("iputils-ping",),
    "iperf3": ("iperf3",),
    "curl": ("curl",),
}
"""Programs by the Debian packages that bring them; the last five are for tests: of links, files, the emulated path and metrics."""

NETWORK_FEATURES = {
    "TUN devices": ["ip", "tuntap", "add", "dev", "probe0", "mode", "tun"],
    "veth pairs": ["ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"],
    "bridges": ["ip", "link", "add", "probe0", "type", "bridge"],
    "nftables": ["nft", "add table ip probe; add chain ip probe nat { type nat hook postrouting priority 100; }"],
}
"""What the kernel must offer, by a command that uses it in a network namespace of its own."""


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that is missing, and the remedy: Debian packages or words."""

    what: str
    packages: tuple[str, ...] = ()
    remedy: str = ""


def go_version(text: str) -> tuple[int, ...] | None:
    """The version in the answer of `go version`; None if it holds none."""
    found = re.search(r"\bgo(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in found.groups()) if found else None


def version_in(text: str) -> tuple[int, ...] | None:
    """The first version in what a program says of itself, as `cargo 1.85.0 (…)`; None if it says none."""
    found = re.search(r"\b(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in found.groups()) if found else None


def toolchain_lacks(layout: Layout) -> list[Lack]:
    """Rust and Python, where they are missing or too old."""
    lacks = [_too_old("Rust", "cargo", MINIMUM_RUST, layout, "https://rustup.rs, or `rustup update stable`")]
    # What the Makefile makes .venv with, where it is not made yet.
    if not (layout.repository / ".venv" / ".installed").exists():
        python = os.environ.get("PYTHON") or f"python{_dotted(MINIMUM_PYTHON)}"
        remedy = "install it with its module venv, or name another one: make PYTHON=/path/to/python3"
        lacks.append(_too_old("Python", python, MINIMUM_PYTHON, layout, remedy))
    return [lack for lack in lacks if lack]


def _too_old(language: str, program: str, minimum: tuple[int, ...], layout: Layout, remedy: str) -> Lack | None:
    wanted = f"{language} {_dotted(minimum)} or newer"
    if not shutil.which(program):
        return Lack(f"{wanted} (there is no program {program})", remedy=remedy)
    try:
        answer = shell.run([program, "--version"], cwd=layout.repository, timeout_s=60).strip()
    except ClusterError as error:
        return Lack(f"{wanted} ({error})", remedy=remedy)
    version = version_in(answer)
    return Lack(f"{wanted} (this is {answer})", remedy=remedy) if version is None or version < minimum else None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def report(lacks: Iterable[Lack]) -> str:
    """Everything that is missing at once, with one command for all packages."""
    lines = ["This machine lacks what the local cluster needs:"]
    packages = packages_of(lacks)
    for lack in lacks:
        remedy = f"Debian package {', '.join(lack.packages)}" if lack.packages else lack.remedy
        lines.append(f"  - {lack.what}" + (f": {remedy}" if remedy else ""))
    if packages:
        lines.append(f"Packages: apt-get install --no-install-recommends {' '.join(packages)}")
        lines.append("or let this tool install them: hack/cluster/cluster preflight --install")
    return "\n".join(lines)


def packages_of(lacks: Iterable[Lack]) -> list[str]:
    """The Debian packages to install, each once."""
    return sorted({package for lack in lacks for package in lack.packages})


def find_lacks(layout: Layout, *, cold: bool) -> list[Lack]:
    """Checks this machine; with `cold` programs must still be compiled."""
    programs = [*_tool_lacks(), *toolchain_lacks(layout)]
    if os.geteuid() != 0:
        # Without root the kernel's features cannot be tried out, so the rest would be guesses.
        return [Lack("root", remedy="run this as root (sudo hack/cluster/cluster …)"), *programs, *_resource_lacks(layout, cold=cold)]
    return [*programs, *_kernel_lacks(), *_resource_lacks(layout, cold=cold)]


def require(layout: Layout, progress: BuildProgress, *, cold: bool, install: bool) -> None:
    """Return if the machine has all it takes, after installing packages if asked; raises ClusterError with the whole list."""
    lacks = find_lacks(layout, cold=cold)
    packages = packages_of(lacks)
    if packages and install:
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise ClusterError(f"{report(lacks)}\n--install needs root and apt-get")
        _install(packages, layout, progress)
        lacks = find_lacks(layout, cold=cold)
    if lacks:
        raise ClusterError(report(lacks))


def _install(packages: list[str], layout: Layout, progress: BuildProgress) -> None:
    log = layout.logs / "apt.log"
    with progress.step(f"apt-get install {' '.join(packages)}", 60):
        shell.run_logged(["apt-get", "update", "-q"], log)
        environment = {"DEBIAN_FRONTEND": "noninteractive"}
        shell.run_logged(["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages], log, env=environment)


def _tool_lacks() -> list[Lack]:
    lacks = [Lack(f"the program {tool}", packages) for tool, packages in TOOLS.items() if not shutil.which(tool)]
    if not Path("/usr/include/seccomp.h").exists() and not shell.succeeds(["pkg-config", "--exists", "libseccomp"]):
        lacks.append(Lack("the headers of libseccomp, for runc", ("libseccomp-dev",)))
    if not Path("/usr/include/udt/udt.h").exists():
        lacks.append(Lack("libudt, with which the mover's UDT is tested", ("libudt-dev",)))
    wanted = _dotted(MINIMUM_GO)
    if not shutil.which("go"):
        lacks.append(Lack("the program go", remedy=f"Go {wanted} or newer from https://go.dev/dl"))
    else:
        text = shell.run(["go", "env", "GOVERSION"], env={"GOTOOLCHAIN": "local"})
        version = go_version(text)
        if version is None or version < MINIMUM_GO:
            lacks.append(Lack(f"Go {wanted} or newer (this is {text.strip()})", remedy="https://go.dev/dl"))
    return lacks


def _kernel_lacks() -> list[Lack]:
    if not Path("/proc/self/ns/net").exists() or not shutil.which("unshare"):
        return []
    if not shell.succeeds(["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "true"]):
        return [Lack("namespaces (network, mount, UTS, IPC, PID)", remedy="run on a machine or container that may create them")]
    lacks = []
    if not Path("/dev/net/tun").is_char_device():
        lacks.append(Lack("the device /dev/net/tun", remedy="mkdir -p /dev/net && mknod /dev/net/tun c 10 200"))
    for feature, probe in NETWORK_FEATURES.items():
        if shutil.which(probe[0]) and not shell.succeeds(["unshare", "--net", "--", *probe]):
            lacks.append(Lack(f"{feature} (tried `{' '.join(probe)}`)", remedy="a kernel that has them built in, or modprobe"))
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        lacks.append(Lack("overlayfs", remedy="modprobe overlay"))
    mounts = Path("/proc/mounts").read_text()
    if " /sys/fs/cgroup" not in mounts:
        lacks.append(Lack("control groups at /sys/fs/cgroup", remedy="mount them as the distribution does"))
    return lacks


def _resource_lacks(layout: Layout, *, cold: bool) -> list[Lack]:
    lacks = []
    available = _available_memory()
    if available < NEEDED_MEMORY:
        lacks.append(Lack(f"memory: {available / GIB:.1f} GiB are available", remedy=f"{NEEDED_MEMORY // GIB} GiB are needed"))
    existing = next(path for path in (layout.cache, *layout.cache.parents) if path.exists())
    free, needed = shutil.disk_usage(existing).free, NEEDED_DISK_COLD if cold else NEEDED_DISK_WARM
    if free < needed:
        remedy = f"{needed // GIB} GiB are needed; XDG_CACHE_HOME chooses another disk"
        lacks.append(Lack(f"disk space: {free / GIB:.1f} GiB are free under {existing}", remedy=remedy))
    if sys.platform != "linux":
        lacks.append(Lack("Linux"))
    return lacks


def _available_memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
