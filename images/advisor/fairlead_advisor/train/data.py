"""Labelled runs: a data set of the test bed (`runs.csv` with `traces*.npz`), or a folder of one's own trace files."""

import csv
import hashlib
import itertools
import zipfile
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fairlead_advisor.assess.folder import labelled_files
from fairlead_advisor.errors import DataError
from fairlead_advisor.models.classes import CLASSES
from fairlead_advisor.probe.trace import Trace, read_trace

SPLITS = ("train", "test_seeds", "test_paths", "test_kinds")
INDEX = "runs.csv"

_NEEDED = ("run", "path", "class", "seed", "split")
_MAXIMUM_BYTES = 2 * 1024**3
_LARGEST_INDEX_BYTES = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class Run:
    """One recording of one path under one background; `about` holds what else the index tells of it."""

    name: str
    path: str
    class_name: str
    seed: str
    split: str
    trace: Trace
    about: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Runs in the order of the index, and the SHA-256 over the files that they came from."""

    runs: Sequence[Run]
    sha256: str

    def of_split(self, split: str) -> list[Run]:
        """The runs of one split."""
        return [run for run in self.runs if run.split == split]


def load_dataset(folder: Path) -> Dataset:
    """Reads either layout; DataError or TraceError, naming the file, if it is neither or broken."""
    if (folder / INDEX).is_file():
        return _load_arrays(folder)
    files = labelled_files(folder)
    runs = [Run(item.file.stem, item.path, item.class_name, item.seed, "train", read_trace(item.file)) for item in files]
    return Dataset(runs, _digest([item.file for item in files]))


def _load_arrays(folder: Path) -> Dataset:
    index = folder / INDEX
    rows = _read_index(index)
    archives = sorted(folder.glob("traces*.npz"))
    if not archives:
        raise DataError(f"{folder}: has {INDEX} but no traces*.npz: copy the whole data set")
    traces = [trace for archive in archives for trace in _read_archive(archive)]
    if len(traces) != len(rows):
        raise DataError(f"{index}: lists {len(rows)} runs, the traces*.npz beside it hold {len(traces)}: copy the whole data set")
    runs = [
        Run(row["run"], row["path"], row["class"], row["seed"], row["split"], trace, {k: v for k, v in row.items() if k not in _NEEDED})
        for row, trace in zip(rows, traces, strict=True)
    ]
    return Dataset(runs, _digest([index, *archives]))


def _read_index(index: Path) -> list[dict[str, str]]:
    if index.stat().st_size > _LARGEST_INDEX_BYTES:
        raise DataError(f"{index}: has more than {_LARGEST_INDEX_BYTES} bytes: split the data set")
    try:
        with index.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{index}: is not a CSV file ({error})") from None
    seen: set[str] = set()
    for line, row in enumerate(rows, start=2):
        missing = [name for name in _NEEDED if not row.get(name)]
        if missing or None in row.values() or None in row:
            raise DataError(f"{index}: line {line}: the columns {', '.join(missing or _NEEDED)} must be filled in, one value a column")
        if row["class"] not in CLASSES:
            raise DataError(f"{index}: line {line}: class {row['class']!r} must be one of {', '.join(CLASSES)}")
        if row["split"] not in SPLITS:
            raise DataError(f"{index}: line {line}: split {row['split']!r} must be one of {', '.join(SPLITS)}")
        if row["run"] in seen:
            raise DataError(f"{index}: line {line}: run {row['run']!r} is there twice")
        seen.add(row["run"])
    if not rows:
        raise DataError(f"{index}: lists no runs")
    return rows


def _read_archive(path: Path) -> list[Trace]:
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > _MAXIMUM_BYTES:
            raise DataError(f"{path}: unpacks to {size} bytes, at most {_MAXIMUM_BYTES} are read: split the data set")
        with np.load(path, allow_pickle=False) as arrays:
            offsets, send_time_us, rtt_us = (arrays[name] for name in ("offsets", "send_time_us", "rtt_us"))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: cannot be read as the arrays offsets, send_time_us and rtt_us ({error})") from None
    whole = offsets.ndim == 1 and len(offsets) > 0 and offsets[0] == 0 and (np.diff(offsets) > 0).all()
    if not (whole and len(send_time_us) == len(rtt_us) == offsets[-1]):
        raise DataError(f"{path}: offsets do not fit the samples: make the data set again")
    traces = []
    for first, after in itertools.pairwise(offsets):
        times_us = send_time_us[first:after].astype(np.float64)
        if not (np.diff(times_us) > 0).all():
            raise DataError(f"{path}: the send times of the run at sample {first} are not in order: make the data set again")
        rtts_us = rtt_us[first:after].astype(np.float64)
        traces.append(Trace(_column(times_us / 1e6), _column(np.where(rtts_us < 0, np.nan, rtts_us / 1e3))))
    return traces


def _column(values: "np.ndarray[Any, np.dtype[np.float64]]") -> "array[float]":
    column: array[float] = array("d")
    column.frombytes(np.ascontiguousarray(values, dtype=np.float64).tobytes())
    return column


def _digest(files: Sequence[Path]) -> str:
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            whole.update(f"{file.name}\0{hashlib.file_digest(opened, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()
