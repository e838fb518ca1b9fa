from pathlib import Path

import numpy as np
import pytest

from fairlead_advisor.errors import DataError, TraceError
from fairlead_advisor.probe.trace import write_trace
from fairlead_advisor.train.data import load_dataset
from tests.support.traces import steady

INDEX = "run,path,class,seed,split,rtt_ms\nr1,p1,B0-C0,1,train,40\nr2,p2,B1-C1,2,test_paths,80\n"


def write_arrays(folder: Path, name: str = "traces.npz", **changes: np.ndarray) -> None:
    arrays = {
        "offsets": np.array([0, 3, 5], dtype=np.int64),
        "send_time_us": np.array([0, 50_000, 100_000, 0, 20_000], dtype=np.uint32),
        "rtt_us": np.array([40_123, -1, 41_000, 80_000, 80_001], dtype=np.int32),
    }
    np.savez_compressed(folder / name, **(arrays | changes))


def test_a_data_set_of_arrays_is_read_run_by_run(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(INDEX)
    write_arrays(tmp_path)
    dataset = load_dataset(tmp_path)
    first, second = dataset.runs
    assert (first.name, first.path, first.class_name, first.seed, first.split, first.about) == (
        "r1",
        "p1",
        "B0-C0",
        "1",
        "train",
        {"rtt_ms": "40"},
    )
    assert list(first.trace.rows()) == [(0.0, 40.123), (0.05, None), (0.1, 41.0)]
    assert dataset.of_split("test_paths") == [second]
    assert dataset.sha256 == load_dataset(tmp_path).sha256


def test_several_archives_follow_each_other_by_name(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(INDEX)
    one = {"offsets": np.array([0, 1]), "send_time_us": np.array([7])}
    write_arrays(tmp_path, "traces-2.npz", **one, rtt_us=np.array([2_000]))
    write_arrays(tmp_path, "traces-1.npz", **one, rtt_us=np.array([1_000]))
    assert [run.trace.rtts_ms[0] for run in load_dataset(tmp_path).runs] == [1.0, 2.0]


def test_a_folder_of_traces_is_read_by_name(tmp_path: Path) -> None:
    write_trace(tmp_path / "p1__B1-B1__7.csv", steady(20))
    [run] = load_dataset(tmp_path).runs
    assert (run.name, run.path, run.class_name, run.seed, run.split) == ("p1__B1-B1__7", "p1", "B1-B1", "7", "train")
    assert len(run.trace) == 20


def test_another_content_has_another_digest(tmp_path: Path) -> None:
    path = tmp_path / "p1__B1-B1__7.csv"
    write_trace(path, steady(20))
    before = load_dataset(tmp_path).sha256
    write_trace(path, steady(21))
    assert load_dataset(tmp_path).sha256 != before


@pytest.mark.parametrize(
    ("index", "complaint"),
    [
        ("run,path\nr1,p1\n", "line 2: the columns class, seed, split must be filled in"),
        (INDEX.replace("r2", "r1"), "line 3: run 'r1' is there twice"),
        (INDEX.replace("B1-C1", "B9-C9"), "line 3: class 'B9-C9' must be one of"),
        (INDEX.replace("test_paths", "test"), "line 3: split 'test' must be one of train, test_seeds"),
        (INDEX.replace(",40", ""), "line 2: the columns"),
        (INDEX.replace(",40", ",40,1"), "line 2: the columns"),
        (INDEX + "r3,p3,B0-C0,1,train,40\n", "lists 3 runs, the traces.* beside it hold 2"),
        ("run,path,class,seed,split\n", "lists no runs"),
        ('"', "is not a CSV file"),
    ],
)
def test_a_broken_index_is_refused_by_line(tmp_path: Path, index: str, complaint: str) -> None:
    (tmp_path / "runs.csv").write_text(index)
    write_arrays(tmp_path)
    with pytest.raises(DataError, match=complaint) as refusal:
        load_dataset(tmp_path)
    assert "runs.csv" in str(refusal.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"offsets": np.array([0, 3, 6])},
        {"offsets": np.array([1, 3, 5])},
        {"offsets": np.array([0, 3, 3])},
        {"offsets": np.array(0)},
        {"rtt_us": np.zeros(4, dtype=np.int32)},
        {"send_time_us": np.array([0, 2, 1, 0, 1])},
        {"rtt_us": np.array([{}] * 5, dtype=object)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, np.ndarray]) -> None:
    (tmp_path / "runs.csv").write_text(INDEX)
    write_arrays(tmp_path, **changes)
    with pytest.raises(DataError, match=r"traces.npz"):
        load_dataset(tmp_path)


def test_missing_and_foreign_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(INDEX)
    with pytest.raises(DataError, match=r"no traces\*.npz"):
        load_dataset(tmp_path)
    (tmp_path / "traces.npz").write_bytes(b"not a zip")
    with pytest.raises(DataError, match="cannot be read as the arrays"):
        load_dataset(tmp_path)
    with pytest.raises(DataError, match="no such directory"):
        load_dataset(tmp_path / "missing")


def test_a_bad_trace_is_refused_by_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "p1__B1-B1__7.csv").write_text("send_time_s,rtt_ms\n0.0,NaN\n")
    with pytest.raises(TraceError, match="p1__B1-B1__7.csv: line 2: rtt_ms is 'NaN'"):
        load_dataset(tmp_path)
