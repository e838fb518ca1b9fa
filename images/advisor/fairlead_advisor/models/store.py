"""Model files: how one is read."""

import os
import re
import stat
from pathlib import Path

from fairlead_advisor.errors import ModelError
from fairlead_advisor.models.location import MODEL_FILE, newest_installed
from fairlead_advisor.models.model import MAXIMUM_BYTES, Model, load

_DIGEST = re.compile(r"([0-9a-fA-F]{64})(?:\s.*)?", re.DOTALL)


def find_model(path: Path | None) -> Model:
    """The model in `path`, or the newest installed one. Raises NoModelError if none is installed, ModelError if it cannot be used."""
    if path is None:
        path = newest_installed()
    if path.is_dir():
        path = path / MODEL_FILE
    content = _read(path, MAXIMUM_BYTES)
    try:
        return load(content, _expected_digest(path))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def digest_file(model: Path) -> Path:
    """Where the digest of `model` is kept, in the format of sha256sum."""
    return model.with_name(model.name + ".sha256")


def _expected_digest(model: Path) -> str:
    path = digest_file(model)
    try:
        text = _read(path, 4096).decode("ascii")
    except UnicodeDecodeError:
        text = ""
    found = _DIGEST.fullmatch(text)
    if not found:
        raise ModelError(f"its digest file {path.name} does not begin with a SHA-256 in hexadecimal: write one with sha256sum")
    return found[1]


def _read(path: Path, maximum: int) -> bytes:
    try:
        # Non-blocking, so that opening a named pipe does not wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        hint = "write it with sha256sum after you have made sure of the model" if path.suffix == ".sha256" else "name a model file"
        raise ModelError(f"{path}: no such file: {hint}") from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}") from None
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ModelError(f"{path}: is not a regular file: name a model file")
        if found.st_size > maximum:
            raise ModelError(f"{path}: has {found.st_size} bytes, at most {maximum} are read")
        return file.read(maximum + 1)
