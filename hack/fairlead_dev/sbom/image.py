"""The files of an image, read from its archive (`docker save`, or the local cluster's cache) without mounting anything."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from fairlead_dev.errors import CommandUsageError

_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"


@dataclass(frozen=True, slots=True)
class ArchivedImage:
    """An image: its name, the digest of its configuration, and the content of the wanted files by path without a leading `/`."""

    name: str
    configuration: str
    files: Mapping[str, bytes]


def read_image(archive: Path, wanted: Callable[[str], bool]) -> ArchivedImage:
    """The image of a docker archive. Later layers replace and remove what earlier ones hold. Raises CommandUsageError."""
    try:
        with tarfile.open(archive) as outer:
            manifest = json.loads(_member(outer, "manifest.json").read())[0]
            files: dict[str, bytes] = {}
            for layer in manifest["Layers"]:
                with tarfile.open(fileobj=_member(outer, layer)) as inner:
                    _add_layer(files, inner, wanted)
            names = manifest.get("RepoTags") or [archive.stem]
            return ArchivedImage(names[0], PurePosixPath(manifest["Config"]).name.removesuffix(".json"), files)
    except (OSError, tarfile.TarError, KeyError, IndexError, ValueError) as error:
        remedy = "give one written by `docker save IMAGE -o FILE`"
        raise CommandUsageError(f"{archive} is no image archive ({type(error).__name__}: {error}): {remedy}") from error


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(name)
    if found is None:
        raise KeyError(name)
    return found


def _add_layer(files: dict[str, bytes], layer: tarfile.TarFile, wanted: Callable[[str], bool]) -> None:
    added: dict[str, bytes] = {}
    for entry in layer:
        path = PurePosixPath(entry.name.removeprefix("./").lstrip("/"))
        if path.name == _OPAQUE:
            _remove(files, str(path.parent))
        elif path.name.startswith(_WHITEOUT):
            _remove(files, str(path.with_name(path.name.removeprefix(_WHITEOUT))))
        elif entry.isfile() and wanted(str(path)):
            added[str(path)] = _member(layer, entry.name).read()
        elif not entry.isdir():
            # A link in the place of a file: what it leads to is read under its own name.
            files.pop(str(path), None)
    files.update(added)


def _remove(files: dict[str, bytes], path: str) -> None:
    for known in [name for name in files if name == path or name.startswith(f"{path}/")]:
        del files[known]
