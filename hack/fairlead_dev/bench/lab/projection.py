"""A volume as the kubelet projects an annotation into it."""

from __future__ import annotations

from pathlib import Path


class Projection:
    """A folder with one file whose content changes as a whole: each content has a folder of its own, and one rename of a link shows it."""

    def __init__(self, volume: Path, name: str, content: str) -> None:
        """Makes the folder `volume` with the file `name`."""
        volume.mkdir(parents=True)
        self.file = volume / name
        self._volume, self._version = volume, 0
        self.show(content)
        self.file.symlink_to(Path("..data") / name)

    def show(self, content: str) -> None:
        """Replaces the file's content."""
        folder = self._volume / f"..{self._version}"
        self._version += 1
        folder.mkdir()
        (folder / self.file.name).write_text(content)
        fresh = self._volume / "..data_tmp"
        fresh.symlink_to(folder.name)
        fresh.replace(self._volume / "..data")
