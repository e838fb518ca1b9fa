"""The files of an earlier commit, from which its images are built."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from pathlib import Path

from fairlead_dev.cluster.errors import ClusterError, CommandFailedError
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.cluster.machine import shell

TAG_LENGTH = 12


def layout_of(commit: str, paths: Layout) -> tuple[Layout, str]:
    """The layout in which a commit is built, its files in the cache, and the tag of its images. Raises ClusterError if there is none."""
    try:
        name = shell.run(["git", "-C", paths.repository, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"]).strip()
    except CommandFailedError as error:
        remedy = "give one of its history, which a shallow clone lacks until `git fetch --unshallow`"
        raise ClusterError(f"--of: this checkout has no commit {commit!r}; {remedy}") from error
    tag, earlier = name[:TAG_LENGTH], paths.cache / "earlier"
    folder = earlier / tag
    if not folder.exists():
        _extract(name, folder, paths.repository)
    # A target folder of its own: these files are older than what Cargo has made of others, and it would take that for theirs.
    return dataclasses.replace(paths, repository=folder, cargo_target=folder / "target"), tag


def _extract(commit: str, folder: Path, repository: Path) -> None:
    """It appears under its name only when whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        archive = staging / "files.tar"
        shell.run(["git", "-C", repository, "archive", "--format=tar", f"--output={archive}", commit])
        files = staging / "files"
        files.mkdir()
        shell.run(["tar", "-xf", archive, "-C", files])
        files.replace(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
