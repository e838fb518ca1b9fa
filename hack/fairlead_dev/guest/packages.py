"""What the guest is made of: Debian's packages by name, fetched with apt once and kept in the cache as a kernel and an archive.

Nothing is installed, and a second run needs no network.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.errors import LabError, NotAvailableError
from fairlead_dev.guest import cpio
from fairlead_dev.netlab.processes import run

PACKAGES = (
    "busybox-static",
    "libc6",
    "libcap-ng0",
    "libexpat1",
    "libffi8",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "python3.11-minimal",
    "util-linux",
    "zlib1g",
)
"""Beside the kernel: a shell for its first program, Python 3.11 with what it loads, and setpriv."""
KERNEL = re.compile(r"linux-image-6\.1\.(\d+)-(\d+)-amd64")
"""Debian 12's kernel; those for clouds and in real time lack modules."""
APT_LIMIT_S = 600
KEPT = re.compile(
    r"bin/busybox$|lib(64)?/(?!modules/)|usr/bin/(python3\.11|setpriv)$|usr/lib/|lib/modules/[^/]+/kernel/net/ipv4/tcp_\w+\.ko$"
)
"""What the guest has of the packages, by path."""
_IMAGE = re.compile(r"boot/vmlinuz-")
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


@dataclass(frozen=True, slots=True)
class GuestFiles:
    """What was made of the packages."""

    kernel: Path
    archive: Path
    """Everything else, as the kernel takes it."""
    modules: Mapping[str, tuple[str, ...]]
    """The kernel's modules for TCP in the archive, each with those of them that it needs."""


def newest_kernel(names: Iterable[str]) -> str | None:
    """The newest of Debian's 6.1 kernels among names of packages."""
    found = {tuple(map(int, match.groups())): name for name in names if (match := KERNEL.fullmatch(name))}
    return found[max(found)] if found else None


def depends(module: bytes) -> tuple[str, ...]:
    """The modules that a kernel module says it needs."""
    found = _DEPENDS.search(module)
    return tuple(name for name in found.group(1).decode().split(",") if name) if found else ()


def ensure(cache: Path, *, renew: bool = False) -> GuestFiles:
    """What the cache holds, made of the newest packages where it holds nothing or `renew` says so. Raises NotAvailableError."""
    place = place_of(cache)
    record = place / "modules.json"
    if renew or not record.exists():
        _make(place)
    modules = {name: tuple(needed) for name, needed in json.loads(record.read_text()).items()}
    return GuestFiles(place / "kernel", place / "archive", modules)


def place_of(cache: Path) -> Path:
    """The folder in the cache; what is made of other packages or files has another one."""
    return cache / "guest" / hashlib.sha256(repr((PACKAGES, KERNEL, KEPT)).encode()).hexdigest()[:12]


def _make(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="made-") as scratch:
        made = Path(scratch, place.name)
        made.mkdir()
        members, modules = list[cpio.Member](), dict[str, tuple[str, ...]]()
        for package in _fetch(Path(scratch)):
            print(f"guest: {package.stem}", flush=True)
            for member in _members(package):
                if _IMAGE.match(member.name):
                    (made / "kernel").write_bytes(member.content)
                elif KEPT.match(member.name):
                    members.append(member)
                    if member.name.endswith(".ko"):
                        modules[Path(member.name).stem] = depends(member.content)
        (made / "archive").write_bytes(cpio.archive(members))
        (made / "modules.json").write_text(json.dumps(modules, indent=1))
        shutil.rmtree(place, ignore_errors=True)
        made.rename(place)


def _fetch(folder: Path) -> list[Path]:
    """The packages' files in the folder. Raises NotAvailableError."""
    missing = [program for program in ("apt-get", "apt-cache", "dpkg-deb") if not shutil.which(program)]
    if missing:
        raise NotAvailableError(f"{', '.join(missing)} is missing: the guest is made of Debian 12's packages, so run this on Debian 12")
    try:
        if os.geteuid() == 0:
            run(["apt-get", "update", "-q"], timeout_s=APT_LIMIT_S)
        kernel = newest_kernel(run(["apt-cache", "pkgnames", "linux-image-6.1."]).split())
        if kernel is None:
            raise NotAvailableError("apt knows no package linux-image-6.1.*-amd64: run this on Debian 12, after `apt-get update`")
        run(["env", "--chdir", folder, "apt-get", "download", "-q", *PACKAGES, kernel], timeout_s=APT_LIMIT_S)
    except NotAvailableError:
        raise
    except LabError as error:
        remedy = "see that apt reaches Debian 12's packages (`apt-get update`), and run this again"
        raise NotAvailableError(f"the guest's packages cannot be had: {remedy}\n{error}") from error
    return sorted(folder.glob("*.deb"))


def _members(package: Path) -> Iterator[cpio.Member]:
    """The files and symbolic links in a package. Raises LabError."""
    unpacking = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    with unpacking, tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive:
        for entry in archive:
            name = entry.name.removeprefix("./")
            if entry.issym():
                yield cpio.link(name, entry.linkname)
            elif entry.isfile():
                content = archive.extractfile(entry)
                assert content is not None
                yield cpio.file(name, content.read(), program=bool(entry.mode & 0o100))
    if unpacking.returncode:
        raise LabError(f"{package.name} cannot be unpacked: dpkg-deb ended with {unpacking.returncode}")
