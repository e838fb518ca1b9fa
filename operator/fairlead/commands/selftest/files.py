"""The file that the self-test moves. Its content follows from a seed, so the other end knows it without being told."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

FILE = "data"
_CHUNK = 1 << 20


class WrongFileError(Exception):
    """The file is not what was written; the message says in what."""


def write(folder: Path, size: int, seed: str) -> None:
    """Writes the file into a new folder."""
    folder.mkdir()
    with (folder / FILE).open("xb") as file:
        for chunk in _chunks(size, seed):
            file.write(chunk)


def compare(folder: Path, size: int, seed: str) -> None:
    """Raises WrongFileError unless the file is there with exactly that content."""
    path = folder / FILE
    if not path.is_file():
        raise WrongFileError(f"{path} has not arrived")
    if path.stat().st_size != size:
        raise WrongFileError(f"{path} has {path.stat().st_size} bytes, not {size}")
    with path.open("rb") as file:
        for number, chunk in enumerate(_chunks(size, seed)):
            if file.read(len(chunk)) != chunk:
                raise WrongFileError(f"{path} differs after byte {number * _CHUNK}")


def remove(folder: Path) -> None:
    """Removes the folder, if it is there."""
    shutil.rmtree(folder, ignore_errors=True)


def _chunks(size: int, seed: str) -> Iterator[bytes]:
    for start in range(0, size, _CHUNK):
        yield hashlib.shake_128(f"{seed}/{start}".encode()).digest(min(_CHUNK, size - start))
