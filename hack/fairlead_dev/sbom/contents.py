"""What is in an image: Debian packages, Python packages, the interpreter, and the mover's crates."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesHeaderParser
from email.policy import compat32

from packageurl import PackageURL

MOVER = "usr/local/bin/fairlead-mover"
_OS_RELEASE = ("etc/os-release", "usr/lib/os-release")
_DPKG_STATUS = "var/lib/dpkg/status"
_VIRTUAL_ENVIRONMENT = "opt/fairlead/pyvenv.cfg"
_DISTRIBUTION = re.compile(r"(?:.*/)?[^/]+\.dist-info/METADATA")
_RUSTC = re.compile(rb"rustc version (\d+\.\d+\.\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """One part of an image. `kind` and `namespace` are those of its package URL; `licence` is as the package states it, empty if not."""

    kind: str
    name: str
    version: str
    namespace: str = ""
    licence: str = ""
    qualifiers: tuple[tuple[str, str], ...] = ()
    sha256: str = ""

    @property
    def url(self) -> PackageURL:
        """Its package URL (purl)."""
        return PackageURL(self.kind, self.namespace or None, self.name, self.version, dict(self.qualifiers))


def is_evidence(path: str) -> bool:
    """Whether the file says what is in the image."""
    return path in {MOVER, _DPKG_STATUS, _VIRTUAL_ENVIRONMENT, *_OS_RELEASE} or _DISTRIBUTION.fullmatch(path) is not None


def packages_of(files: Mapping[str, bytes]) -> list[Package]:
    """The packages that an image's files name, sorted and each once."""
    return sorted({*_debian(files), *_python(files), *_interpreter(files), *_toolchain(files)})


def _debian(files: Mapping[str, bytes]) -> Iterator[Package]:
    status = files.get(_DPKG_STATUS)
    if status is None:
        return
    release = _assignments(next((files[path] for path in _OS_RELEASE if path in files), b""))
    distribution = f"{release.get('ID', 'debian')}-{release.get('VERSION_ID', 'unknown')}"
    for paragraph in status.strip().split(b"\n\n"):
        fields = BytesHeaderParser(policy=compat32).parsebytes(paragraph)
        if str(fields.get("Status", "")).endswith(" installed"):
            qualifiers = (("arch", str(fields["Architecture"])), ("distro", distribution))
            yield Package("deb", str(fields["Package"]), str(fields["Version"]), release.get("ID", "debian"), qualifiers=qualifiers)


def _python(files: Mapping[str, bytes]) -> Iterator[Package]:
    for path, content in files.items():
        if _DISTRIBUTION.fullmatch(path):
            fields = BytesHeaderParser(policy=compat32).parsebytes(content)
            yield Package("pypi", canonical(str(fields["Name"])), str(fields["Version"]), licence=_licence(fields))


def _interpreter(files: Mapping[str, bytes]) -> Iterator[Package]:
    """Python itself, which is no package of Debian's in the public base image."""
    version = _assignments(files.get(_VIRTUAL_ENVIRONMENT, b"")).get("version")
    if version:
        yield Package("generic", "cpython", version, licence="PSF-2.0")


def _toolchain(files: Mapping[str, bytes]) -> Iterator[Package]:
    """Rust's standard library, which is part of every program of it."""
    mover = files.get(MOVER)
    if mover is not None and (found := _RUSTC.search(mover)):
        yield Package("generic", "rust-std", found[1].decode(), licence="MIT OR Apache-2.0")


def digest_of_mover(files: Mapping[str, bytes]) -> str | None:
    """SHA-256 of the mover's program, None in other images."""
    return hashlib.sha256(files[MOVER]).hexdigest() if MOVER in files else None


def canonical(name: str) -> str:
    """A Python package's name as PyPI compares it [PEP 503]."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _licence(fields: Message) -> str:
    """By `License-Expression` [PEP 639], else the older field if it is one line."""
    stated = str(fields.get("License-Expression") or fields.get("License") or "").strip()
    return "" if "\n" in stated or len(stated) > 100 or stated.upper() == "UNKNOWN" else stated


def _assignments(content: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in content.decode(errors="replace").splitlines())
    return {key.strip(): value.strip().strip('"') for key, separator, value in pairs if separator}
