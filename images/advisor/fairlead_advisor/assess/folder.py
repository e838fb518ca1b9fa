"""Labelled traces as files in a folder, named `<path>__<class>__<seed>.csv`."""

import re
from dataclasses import dataclass
from pathlib import Path

from fairlead_advisor.errors import DataError
from fairlead_advisor.models.classes import CLASSES

MAXIMUM_FILES = 20_000

_NAME = re.compile(r"(?P<path>[^/]+?)__(?P<class_name>[^_/]+)__(?P<seed>[^_/]+)\.csv")


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """A trace file with what its name says: the path it was taken on, the class of the background, the seed of the run."""

    file: Path
    path: str
    class_name: str
    seed: str


def labelled_files(folder: Path) -> list[LabelledFile]:
    """The traces in `folder` by name; DataError if there is none, or if a CSV file's name is not one."""
    try:
        found = sorted(entry for entry in folder.iterdir() if entry.suffix == ".csv" and entry.name != "runs.csv")
    except FileNotFoundError:
        raise DataError(f"{folder}: no such directory: name one with trace files") from None
    except OSError as error:
        raise DataError(f"{folder}: cannot be read: {error.strerror}: name a directory with trace files") from None
    if not found:
        raise DataError(f"{folder}: holds no trace file: name them <path>__<class>__<seed>.csv, the class one of {', '.join(CLASSES)}")
    if len(found) > MAXIMUM_FILES:
        raise DataError(f"{folder}: holds {len(found)} trace files, at most {MAXIMUM_FILES} are read: split the folder")
    return [_labelled(entry) for entry in found]


def _labelled(file: Path) -> LabelledFile:
    named = _NAME.fullmatch(file.name)
    if not named:
        raise DataError(f"{file}: its name must be <path>__<class>__<seed>.csv, like lyon-turin__B1-C1__3.csv")
    if named["class_name"] not in CLASSES:
        raise DataError(f"{file}: {named['class_name']!r} in its name is no class: it must be one of {', '.join(CLASSES)}")
    return LabelledFile(file, named["path"], named["class_name"], named["seed"])
