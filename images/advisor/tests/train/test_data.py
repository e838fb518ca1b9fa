import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from fairlead_advisor.errors import DataError, TraceError
from fairlead_advisor.probe.trace import write_trace
from fairlead_advisor.record.journal import EntryKind, Journal
from fairlead_advisor.record.samples import samples_json
from fairlead_advisor.train.data import load_dataset, load_datasets
from tests.support.traces import steady

RUNS = [
    {"name": "p1__B0-C0__s0", "path_id": "p1", "class": "B0-C0", "seed": "s0", "rtt_ms": 40.0},
    {"name": "p2__B1-C1__s1", "path_id": "p2", "class": "B1-C1", "seed": "s1", "rtt_ms": 80.0},
]


def write_index(folder: Path, runs: object = RUNS) -> None:
    text = "".join(json.dumps(run) + "\n" for run in runs) if isinstance(runs, list) else str(runs)
    (folder / "runs.jsonl.gz").write_bytes(gzip.compress(text.encode()))


def write_split(folder: Path, split: str = "train", **changes: np.ndarray) -> None:
    arrays = {
        "format": np.int64(1),
        "names": np.array([run["name"] for run in RUNS]),
        "start": np.array([0, 3, 5], dtype=np.int64),
        "rate_hz": np.array([20.0, 50.0]),
        "rtt_floor_ms": np.array([40.0, 80.0]),
        "rtt_step_ms": np.array([0.5, 0.001]),
        "rtt": np.array([0, 65535, 2, 0, 1], dtype=np.uint16),
        "lateness": np.array([0, 100, 0, 0, 0], dtype=np.uint16),
    }
    np.savez_compressed(folder / f"{split}.npz", **(arrays | changes))


def one(number: int) -> dict[str, np.ndarray]:
    """The arrays of a split that has one of the two runs."""
    first, after = ((0, 3), (3, 5))[number]
    return {
        "names": np.array([RUNS[number]["name"]]),
        "start": np.array([0, after - first]),
        "rate_hz": np.array([20.0]),
        "rtt_floor_ms": np.array([40.0]),
        "rtt_step_ms": np.array([1.0]),
        "rtt": np.zeros(after - first, dtype=np.uint16),
        "lateness": np.zeros(after - first, dtype=np.uint16),
    }


def test_the_compact_form_is_read_run_by_run(tmp_path: Path) -> None:
    write_index(tmp_path)
    write_split(tmp_path)
    dataset = load_dataset(tmp_path)
    first, second = dataset.runs
    assert (first.name, first.path, first.class_name, first.seed, first.split) == ("p1__B0-C0__s0", "p1", "B0-C0", "s0", "train")
    assert first.about["rtt_ms"] == 40
    assert list(first.trace.rows()) == [(0.0, 40.0), (pytest.approx(0.051), None), (0.1, 41.0)]
    assert list(second.trace.rows()) == [(0.0, 80.0), (0.02, pytest.approx(80.001))]
    assert dataset.sha256 == load_dataset(tmp_path).sha256


def test_requests_that_left_together_after_a_pause_are_read(tmp_path: Path) -> None:
    write_index(tmp_path)
    write_split(tmp_path, lateness=np.array([5000, 0, 0, 2000, 0], dtype=np.uint16))
    assert list(load_dataset(tmp_path).runs[0].trace.send_times_s) == pytest.approx([0.05, 0.05, 0.1])


def test_the_file_tells_the_split(tmp_path: Path) -> None:
    write_index(tmp_path)
    write_split(tmp_path, "test_paths", **one(1))
    with pytest.raises(DataError, match=r"no train.npz"):
        load_dataset(tmp_path)
    write_split(tmp_path, "train", **one(0))
    dataset = load_dataset(tmp_path)
    assert [(run.name, run.split) for run in dataset.runs] == [("p1__B0-C0__s0", "train"), ("p2__B1-C1__s1", "test_paths")]
    assert [run.path for run in dataset.of_split("test_paths")] == ["p2"]


def test_a_set_that_was_made_for_tests_alone_is_read_where_nothing_is_trained(tmp_path: Path) -> None:
    write_index(tmp_path, [run | {"split": "test_paths"} for run in RUNS])
    write_split(tmp_path, "test_paths")
    with pytest.raises(DataError, match=r"no train.npz"):
        load_dataset(tmp_path)
    assert {run.split for run in load_dataset(tmp_path, tests_alone=True).runs} == {"test_paths"}


def test_a_copy_without_the_training_file_is_no_set_for_tests_alone(tmp_path: Path) -> None:
    write_index(tmp_path, [RUNS[0] | {"split": "train"}, RUNS[1] | {"split": "test_paths"}])
    write_split(tmp_path, "test_paths", **one(1))
    with pytest.raises(DataError, match=r"no train.npz"):
        load_dataset(tmp_path, tests_alone=True)


def test_a_folder_of_traces_is_read_by_name(tmp_path: Path) -> None:
    write_trace(tmp_path / "p1__B1-B1__7.csv", steady(20))
    [run] = load_dataset(tmp_path).runs
    assert (run.name, run.path, run.class_name, run.seed, run.split) == ("p1__B1-B1__7", "p1", "B1-B1", "7", "train")
    assert len(run.trace) == 20


def test_what_a_sidecar_sampled_is_read_from_its_record(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "p1__B1-B1__7.jsonl", lambda: datetime(2026, 1, 1, tzinfo=UTC))
    for count in (20, 30):
        journal.followed(EntryKind.SURVEY, samples_json(steady(count)))
    runs = load_dataset(tmp_path).runs
    assert [(run.name, run.path, run.class_name, run.split, len(run.trace)) for run in runs] == [
        ("p1__B1-B1__7", "p1", "B1-B1", "train", 20),
        ("p1__B1-B1__7#1", "p1", "B1-B1", "train", 30),
    ]
    assert {run.recording for run in runs} == {"p1__B1-B1__7"}, "no fold has one of them, and another one the other"


def test_another_content_has_another_digest(tmp_path: Path) -> None:
    path = tmp_path / "p1__B1-B1__7.csv"
    write_trace(path, steady(20))
    before = load_dataset(tmp_path).sha256
    write_trace(path, steady(21))
    assert load_dataset(tmp_path).sha256 != before


@pytest.mark.parametrize(
    ("runs", "complaint"),
    [
        ([RUNS[0], RUNS[1] | {"class": "B9-C9"}], "run p2__B1-C1__s1: class 'B9-C9' must be one of"),
        ([RUNS[0] | {"path_id": "", "seed": ""}, RUNS[1]], "run p1__B0-C0__s0: lacks path_id, seed"),
        ([{"path_id": "p1"}], "is damaged"),
        ("{", "is damaged"),
        ("[1]\n", "is damaged"),
    ],
)
def test_a_broken_index_is_refused_by_run(tmp_path: Path, runs: object, complaint: str) -> None:
    write_index(tmp_path, runs)
    write_split(tmp_path)
    with pytest.raises(DataError, match=complaint) as refusal:
        load_dataset(tmp_path)
    assert "runs.jsonl.gz" in str(refusal.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"start": np.array([0, 3, 6])},
        {"start": np.array([1, 3, 5])},
        {"start": np.array([0, 5, 5])},
        {"start": np.array([0, 5])},
        {"start": np.array(0)},
        {"rate_hz": np.array([20.0])},
        {"rtt": np.zeros(4, dtype=np.uint16)},
        {"lateness": np.array([0, 65535, 0, 0, 0], dtype=np.uint16)},
        {"rtt": np.array([{}] * 5, dtype=object)},
        {"names": np.array(["p1__B0-C0__s0", "unknown"])},
        {"format": np.int64(2)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, np.ndarray]) -> None:
    write_index(tmp_path)
    write_split(tmp_path, **changes)
    with pytest.raises(DataError, match=r"train.npz"):
        load_dataset(tmp_path)


def test_missing_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such directory"):
        load_dataset(tmp_path / "missing")
    write_index(tmp_path)
    with pytest.raises(DataError, match=r"no train.npz"):
        load_dataset(tmp_path)
    (tmp_path / "train.npz").write_bytes(b"not a zip")
    with pytest.raises(DataError, match=r"train.npz: is damaged"):
        load_dataset(tmp_path)
    (tmp_path / "runs.jsonl.gz").write_bytes(b"not gzip")
    with pytest.raises(DataError, match=r"runs.jsonl.gz: is damaged"):
        load_dataset(tmp_path)


def test_a_bad_trace_is_refused_by_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "p1__B1-B1__7.csv").write_text("send_time_s,rtt_ms\n0.0,NaN\n")
    with pytest.raises(TraceError, match=r"p1__B1-B1__7.csv: line 2: rtt_ms is 'NaN'"):
        load_dataset(tmp_path)


def own_traces(folder: Path, *paths: str) -> Path:
    folder.mkdir()
    for path in paths:
        write_trace(folder / f"{path}__B0-C0__1.csv", steady())
    return folder


def test_several_data_sets_are_one(tmp_path: Path) -> None:
    first, second = own_traces(tmp_path / "first", "a", "b"), own_traces(tmp_path / "second", "c")
    both = load_datasets([first, second])
    assert [run.path for run in both.runs] == ["a", "b", "c"]
    assert both.sha256 != load_datasets([second, first]).sha256
    assert load_datasets([first]) == load_dataset(first)


def test_a_path_that_two_data_sets_have_is_refused(tmp_path: Path) -> None:
    first, second = own_traces(tmp_path / "first", "a", "b"), own_traces(tmp_path / "second", "b")
    with pytest.raises(DataError, match=f"^{second}: has the path b, which {first} has too"):
        load_datasets([first, second])


def test_of_a_whole_data_set_the_tests_are_trained_on_too(tmp_path: Path) -> None:
    own, tested = own_traces(tmp_path / "own", "a"), tmp_path / "tested"
    tested.mkdir()
    write_index(tested, [run | {"split": "test_paths"} for run in RUNS])
    write_split(tested, "test_paths")
    both = load_datasets([own], [tested])
    assert [(run.path, run.split) for run in both.runs] == [("a", "train"), ("p1", "train"), ("p2", "train")]
    assert load_datasets([], [tested]).sha256 != load_dataset(tested, tests_alone=True).sha256
    with pytest.raises(DataError, match=f"^{tested}: has the path p1"):
        load_datasets([own_traces(tmp_path / "other", "p1")], [tested])
