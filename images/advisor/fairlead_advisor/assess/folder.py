"""Labelled traces as files in a folder, named `<path>__<class>__<seed>.csv`, or `.jsonl` for a sidecar's record with what it sampled."""

import re
from dataclasses import dataclass
from pathlib import Path

from fairlead_advisor.errors import DataError, RecordError
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.probe.trace import Trace, read_trace
from fairlead_advisor.record.journal import read_record
from fairlead_advisor.record.samples import sampled_traces

MAXIMUM_FILES = 20_000

_TRACE, _RECORD = ".csv", ".jsonl"
# What the test bed and a sidecar leave beside traces.
_OTHERS = ("runs.csv", "decisions.jsonl")

_NAME = re.compile(r"(?P<path>[^/]+?)__(?P<class_name>[^_/]+)__(?P<seed>[^_/]+)\.(csv|jsonl)")


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """A file of traces with what its name gives: the path they were taken on, the class of the background, the seed of the run."""

    file: Path
    path: str
    class_name: str
    seed: str

    @property
    def is_record(self) -> bool:
        """Whether it is a record, whose surveys are as short as the answers were sure."""
        return self.file.suffix == _RECORD

    def traces(self) -> list[Trace]:
        """The one of a trace file, or those of every survey on record. TraceError, RecordError or DataError if there is none."""
        if not self.is_record:
            return [read_trace(self.file)]
        entries = read_record(self.file)
        try:
            found = sampled_traces(entries)
        except RecordError as error:
            raise RecordError(f"{self.file}: {error}") from None
        if not found:
            raise DataError(f"{self.file}: holds no samples of a path: its sidecar has not probed any, leave it out")
        return found


def labelled_files(folder: Path) -> list[LabelledFile]:
    """The files in `folder` by name; DataError if there is none, or if a trace's or record's name is not one."""
    return [labelled(file) for file in trace_files(folder)]


def trace_files(folder: Path) -> list[Path]:
    """The traces and records in `folder`, whatever their names say of them; DataError if there is none."""
    try:
        found = sorted(entry for entry in folder.iterdir() if entry.suffix in (_TRACE, _RECORD) and entry.name not in _OTHERS)
    except FileNotFoundError:
        raise DataError(f"{folder}: no such directory: name one with trace files") from None
    except OSError as error:
        raise DataError(f"{folder}: cannot be read: {error.strerror}: name a directory with trace files") from None
    if not found:
        raise DataError(f"{folder}: holds no trace file: name them <path>__<class>__<seed>.csv, the class one of {', '.join(CLASSES)}")
    if len(found) > MAXIMUM_FILES:
        raise DataError(f"{folder}: holds {len(found)} trace files, at most {MAXIMUM_FILES} are read: split the folder")
    return found


def labelled(file: Path) -> LabelledFile:
    """The file with what its name gives; DataError naming it if its name is not one."""
    named = _NAME.fullmatch(file.name)
    if not named:
        raise DataError(f"{file}: its name must be <path>__<class>__<seed>.csv (.jsonl of a record), like lyon-turin__B1-C1__3.csv")
    if named["class_name"] not in CLASSES:
        raise DataError(f"{file}: {named['class_name']!r} in its name is no class: it must be one of {', '.join(CLASSES)}")
    return LabelledFile(file, named["path"], named["class_name"], named["seed"])
