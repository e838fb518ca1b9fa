"""Small image archives, as `docker save` writes them."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

DPKG = b"""Package: nftables
Status: install ok installed
Architecture: amd64
Version: 1.0.6-2+deb12u2

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9
Description: shared libraries
 Package: not-a-package
"""
OS_RELEASE = b'ID=debian\nVERSION_ID="12"\n'
SITE = "opt/fairlead/lib/python3.11/site-packages"
MOVER = b"\x7fELF...rustc version 1.95.0 (59807616e 2026-04-14)..."


def metadata(name: str, version: str, *more: str) -> bytes:
    return "\n".join((f"Name: {name}", f"Version: {version}", *more, "", "Version: 9.9 of the description", "")).encode()


def write_archive(path: Path, layers: Sequence[Mapping[str, bytes | None]], name: str = "localhost/fairlead-operator:dev") -> Path:
    """An archive with these layers; a path with None becomes a symbolic link."""
    with tarfile.open(path, "w") as outer:
        _add(
            outer,
            "manifest.json",
            json.dumps([{"Config": "c0ffee.json", "RepoTags": [name], "Layers": [f"{n}.tar" for n in range(len(layers))]}]).encode(),
        )
        for number, layer in enumerate(layers):
            content = io.BytesIO()
            with tarfile.open(fileobj=content, mode="w") as inner:
                for file, data in layer.items():
                    _add(inner, file, data)
            _add(outer, f"{number}.tar", content.getvalue())
    return path


def _add(archive: tarfile.TarFile, name: str, content: bytes | None) -> None:
    entry = tarfile.TarInfo(name)
    if content is None:
        entry.type, entry.linkname = tarfile.SYMTYPE, "elsewhere"
        archive.addfile(entry)
        return
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
