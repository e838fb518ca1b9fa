"""The pictures by their paths from the repository's root."""

from __future__ import annotations

from pathlib import Path

from fairlead_dev.pictures.architecture import architecture
from fairlead_dev.pictures.loop import loop
from fairlead_dev.pictures.shares import shares

FOLDER = Path("docs/explanation/pictures")


def render() -> dict[Path, str]:
    """Every drawn picture."""
    return {FOLDER / "architecture.svg": architecture(), FOLDER / "loop.svg": loop(), FOLDER / "shares.svg": shares()}
