"""Files that appear whole or not at all."""

import contextlib
import os
import secrets
import stat
from pathlib import Path

from fairlead_advisor.errors import OutputError


def write_atomically(path: Path, content: bytes) -> None:
    """Writes beside `path`, syncs and renames; OutputError, and nothing left behind, when that fails."""
    target = _target(path)
    temporary = _create_beside(path, target)
    try:
        with temporary.open("r+b") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def ensure_writable(path: Path) -> None:
    """Raises OutputError if `write_atomically` could not write `path` now; leaves nothing behind."""
    _create_beside(path, _target(path)).unlink()


def _target(path: Path) -> Path:
    """The file that `path` leads to, so that a rename replaces it and not a link to it."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OutputError(f"{path}: exists and is not a regular file: name a file that may be replaced")
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise OutputError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from None
    return path.resolve()


def _create_beside(path: Path, target: Path) -> Path:
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.tmp")
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    except FileNotFoundError:
        raise OutputError(f"{path}: cannot be written: the directory {target.parent} does not exist") from None
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}: choose a directory that this user may write") from None
    return temporary
