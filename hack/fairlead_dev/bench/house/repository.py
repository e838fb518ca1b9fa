"""The tracked files of a checkout."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_READ = (".py", ".rs", ".md", ".toml", ".ini", ".sh", ".mk")


@dataclass(frozen=True, slots=True)
class TrackedTree:
    """The texts of code, scripts and pages by path from the root, and every tracked file and folder."""

    texts: dict[PurePosixPath, str]
    files: frozenset[PurePosixPath]
    import_contracts: str


def read_tree(root: Path) -> TrackedTree:
    """What git tracks beneath `root`, as it is in the working folder. Raises CalledProcessError outside of a checkout."""
    listing = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    paths = [PurePosixPath(name) for name in listing.split("\0") if name and (root / name).is_file()]
    contents = {path: (root / path).read_text() for path in paths if path.suffix in _READ or _is_script(root / path)}
    folders = {parent for path in paths for parent in path.parents}
    linter = root / ".importlinter"
    return TrackedTree(contents, frozenset({*paths, *folders}), linter.read_text() if linter.is_file() else "")


def _is_script(file: Path) -> bool:
    with file.open("rb") as opened:
        return file.name.startswith(("Makefile", "Dockerfile")) or opened.read(2) == b"#!"
