"""The files of sysfs and procfs below a root folder, as bounded text. What cannot be read is absent."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

_LONGEST = 16 << 10
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?")


class HostFiles:
    """Reads below `root`, which is `/` on a node."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def text(self, path: str) -> str | None:
        """The file's text without white space around it; None where there is none. Drivers answer with errors where they have nothing."""
        try:
            with (self._root / path).open("rb") as file:
                content = file.read(_LONGEST).decode(errors="replace").strip()
        except (OSError, ValueError):
            return None
        return content or None

    def number(self, path: str) -> int | None:
        """The file's whole number; None where there is none."""
        text = self.text(path)
        try:
            return None if text is None else int(text)
        except ValueError:
            return None

    def words(self, path: str) -> tuple[str, ...]:
        """The file's words."""
        return tuple((self.text(path) or "").split())

    def names(self, path: str) -> list[str]:
        """What a folder holds, in order; empty where there is none."""
        try:
            return sorted(entry.name for entry in (self._root / path).iterdir())
        except OSError:
            return []

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder."""
        return (self._root / path).is_dir()

    def target(self, path: str) -> Path | None:
        """Where a link leads in the end; None where there is none."""
        try:
            return (self._root / path).resolve(strict=True) if (self._root / path).is_symlink() else None
        except (OSError, RuntimeError):
            return None


def count_of_ranges(text: str | None, most: int) -> int | None:
    """How many numbers a list such as `0-3,8` has; None for anything else, and for none or more than `most`."""
    count = 0
    for part in (text or "").split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            return None
        first = int(found[1])
        count += int(found[2] or first) - first + 1
    return count if 0 < count <= most else None


def matching(kind: Any, text: str | None) -> str | None:
    """`text` if a field of that type can hold it: what a driver or another program wrote may be anything."""
    try:
        return None if text is None else str(_adapter(kind).validate_python(text))
    except ValidationError:
        return None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
