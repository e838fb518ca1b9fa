"""Labelled runs: a data set of the test bed in its compact form, or a folder of one's own trace files and records.

The compact form is `runs.jsonl.gz`, a JSON object a run, and `<split>.npz`: hack/fairlead_dev/testbed/README.md documents it.
"""

import gzip
import hashlib
import io
import json
import zipfile
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairlead_advisor.assess.folder import labelled_files
from fairlead_advisor.errors import DataError
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.probe.trace import Trace

TRAIN = "train"
TEST_SPLITS = ("test_seeds", "test_paths", "test_kinds")
# Recorded under active probing: for the baselines of the paper, never for training or for the three tests.
ACTIVE = "active"
INDEX = "runs.jsonl.gz"

_FORMAT = 1
_PART = "#"
_LOST = 65_535
_LATENESS_UNIT_S = 1e-5
_LARGEST_INDEX_BYTES = 200_000_000
_LARGEST_SPLIT_BYTES = 2 * 1024**3
_ARRAYS = ("names", "start", "rate_hz", "rtt_floor_ms", "rtt_step_ms", "rtt", "lateness")


@dataclass(frozen=True, slots=True)
class DatasetRun:
    """One recording of one path under one background; `about` holds what else the data set knows of it."""

    name: str
    path: str
    class_name: str
    seed: str
    split: str
    trace: Trace
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def recording(self) -> str:
        """The file that it came from: what one record sampled several times is of one job."""
        return self.name.partition(_PART)[0]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Runs in the order of their files, and the SHA-256 over the files that they came from."""

    runs: Sequence[DatasetRun]
    sha256: str

    def of_split(self, split: str) -> list[DatasetRun]:
        """The runs of one split."""
        return [run for run in self.runs if run.split == split]


def load_dataset(folder: Path, *, tests_alone: bool = False) -> Dataset:
    """Reads either layout; DataError or TraceError, naming the file, if it is neither or broken. One's own are all `train`.

    With `tests_alone` a set that was recorded without runs of `train` is read too.
    """
    if (folder / INDEX).is_file():
        return _load_compact(folder, tests_alone)
    files = labelled_files(folder)
    runs = [
        DatasetRun(f"{item.file.stem}{_PART}{number}" if number else item.file.stem, item.path, item.class_name, item.seed, TRAIN, trace)
        for item in files
        for number, trace in enumerate(item.traces())
    ]
    return Dataset(runs, _digest([item.file for item in files]))


def load_datasets(folders: Sequence[Path], whole: Sequence[Path] = ()) -> Dataset:
    """Those of several folders as one; of those of `whole` the tests are `train` too.

    DataError as well for a path that two of them have: one may test what another trains on.
    """
    datasets = [*map(load_dataset, folders), *(_without_tests(load_dataset(folder, tests_alone=True)) for folder in whole)]
    if len(datasets) == 1:
        return datasets[0]
    known: dict[str, Path] = {}
    for folder, dataset in zip((*folders, *whole), datasets, strict=True):
        for path in {run.path for run in dataset.runs}:
            if (other := known.setdefault(path, folder)) is not folder:
                raise DataError(f"{folder}: has the path {path}, which {other} has too: leave one of them out, or rename it")
    digest = hashlib.sha256(" ".join(dataset.sha256 for dataset in datasets).encode())
    return Dataset([run for dataset in datasets for run in dataset.runs], digest.hexdigest())


def _without_tests(dataset: Dataset) -> Dataset:
    runs = [replace(run, split=TRAIN) if run.split in TEST_SPLITS else run for run in dataset.runs]
    return Dataset(runs, hashlib.sha256(f"whole {dataset.sha256}".encode()).hexdigest())


def _load_compact(folder: Path, tests_alone: bool) -> Dataset:
    about = _read_index(folder / INDEX)
    files = [file for split in (TRAIN, *TEST_SPLITS, ACTIVE) if (file := folder / f"{split}.npz").is_file()]
    # The index tells a set that was made without such runs from a copy that lacks their file.
    without_training = tests_alone and bool(files) and not any(run.get("split", TRAIN) == TRAIN for run in about.values())
    if not without_training and (not files or files[0].stem != TRAIN):
        raise DataError(f"{folder}: has {INDEX} but no {TRAIN}.npz: copy the whole data set")
    runs = [run for file in files for run in _read_split(file, about)]
    return Dataset(runs, _digest([folder / INDEX, *files]))


def _read_index(index: Path) -> dict[str, dict[str, Any]]:
    try:
        with gzip.open(index, "rb") as opened:
            text = opened.read(_LARGEST_INDEX_BYTES + 1)
        if len(text) > _LARGEST_INDEX_BYTES:
            raise DataError(f"{index}: unpacks to more than {_LARGEST_INDEX_BYTES} bytes: split the data set")
        lines = [json.loads(line) for line in text.splitlines()]
        runs = {str(line["name"]): dict(line) for line in lines}
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{index}: is damaged ({error}): copy or make the data set again") from None
    for name, run in runs.items():
        missing = [key for key in ("path_id", "class", "seed") if not run.get(key)]
        if missing:
            raise DataError(f"{index}: run {name}: lacks {', '.join(missing)}: make the data set again")
        if run["class"] not in CLASSES:
            raise DataError(f"{index}: run {name}: class {run['class']!r} must be one of {', '.join(CLASSES)}")
    return runs


def _read_split(file: Path, about: Mapping[str, Mapping[str, Any]]) -> list[DatasetRun]:
    arrays = _read_arrays(file)
    names, start = arrays["names"], arrays["start"]
    whole = start.ndim == 1 and len(start) == len(names) + 1 and start[0] == 0 and bool((np.diff(start) > 0).all())
    of_runs = all(len(arrays[name]) == len(names) for name in ("rate_hz", "rtt_floor_ms", "rtt_step_ms"))
    if not (whole and of_runs and len(arrays["rtt"]) == len(arrays["lateness"]) == start[-1]):
        raise DataError(f"{file}: its arrays do not fit together: copy or make the data set again")
    runs = []
    for number, name in enumerate(names.tolist()):
        if name not in about:
            raise DataError(f"{file}: run {name} is not in {INDEX}: the files are of different data sets")
        part = slice(int(start[number]), int(start[number + 1]))
        levels = arrays["rtt"][part].astype(np.float64)
        times_s = np.arange(len(levels)) / arrays["rate_hz"][number] + arrays["lateness"][part] * _LATENESS_UNIT_S
        rtts_ms = np.where(levels == _LOST, np.nan, arrays["rtt_floor_ms"][number] + arrays["rtt_step_ms"][number] * levels)
        # Requests that a pause of the host held up leave together, within the resolution of `lateness`.
        if not (np.diff(times_s) >= 0).all():
            raise DataError(f"{file}: the send times of run {name} are not in order: copy or make the data set again")
        entry = about[name]
        trace = Trace(_column(times_s), _column(rtts_ms))
        runs.append(DatasetRun(name, str(entry["path_id"]), entry["class"], str(entry["seed"]), file.stem, trace, entry))
    return runs


def _read_arrays(file: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(file) as archive:
            size = max(file.stat().st_size, sum(entry.file_size for entry in archive.infolist()))
        if size > _LARGEST_SPLIT_BYTES:
            raise DataError(f"{file}: has {size} bytes, at most {_LARGEST_SPLIT_BYTES} are read: split the data set")
        with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as arrays:
            if int(arrays["format"]) != _FORMAT:
                raise DataError(f"{file}: has format {int(arrays['format'])}, this program reads {_FORMAT}")
            return {name: arrays[name] for name in _ARRAYS}
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{file}: is damaged ({error}): copy or make the data set again") from None


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
