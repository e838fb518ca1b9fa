from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairlead_advisor.assess.folder import LabelledFile, labelled_files
from fairlead_advisor.errors import DataError, RecordError
from fairlead_advisor.record.journal import EntryKind, Journal
from fairlead_advisor.record.samples import samples_json
from tests.support.traces import steady


def test_names_tell_path_class_and_seed(tmp_path: Path) -> None:
    for name in ("lyon_turin__B1-C1__3.csv", "a__b__C1-C1__x1.csv", "notes.txt", "runs.csv", "decisions.jsonl"):
        (tmp_path / name).touch()
    assert labelled_files(tmp_path) == [
        LabelledFile(tmp_path / "a__b__C1-C1__x1.csv", "a__b", "C1-C1", "x1"),
        LabelledFile(tmp_path / "lyon_turin__B1-C1__3.csv", "lyon_turin", "B1-C1", "3"),
    ]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("trace.csv", "its name must be <path>__<class>__<seed>.csv"),
        ("p__B1-C1.csv", "its name must be"),
        ("__B1-C1__1.csv", "its name must be"),
        ("p__B2-C0__1.csv", "'B2-C0' in its name is no class: it must be one of B0-C0, B0-C1"),
        ("p__b1-c1__1.csv", "'b1-c1' in its name is no class"),
    ],
)
def test_another_name_is_refused(tmp_path: Path, name: str, complaint: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(DataError, match=complaint) as refusal:
        labelled_files(tmp_path)
    assert name in str(refusal.value)


def test_a_record_has_the_traces_of_all_its_surveys(tmp_path: Path) -> None:
    record = tmp_path / "p__B1-C0__job-7.jsonl"
    journal = Journal(record, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    for count in (150, 300):
        journal.followed(EntryKind.SURVEY, samples_json(steady(count)))
        journal.followed(EntryKind.STREAMS, {"kept": 4})
    [item] = labelled_files(tmp_path)
    assert (item.path, item.class_name, item.seed, [len(trace) for trace in item.traces()]) == ("p", "B1-C0", "job-7", [150, 300])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"version":1,"kind":"end","number":1}\n', "holds no samples of a path"),
        (
            '{"version":1,"kind":"survey","at":"noon","send_times_s":[1],"rtts_ms":[]}\n',
            "the survey of noon has no samples that belong together",
        ),
        ("nonsense\n", "line 1: not JSON"),
    ],
)
def test_a_record_without_samples_is_refused_by_name(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "p__B1-C0__1.jsonl").write_text(text)
    [item] = labelled_files(tmp_path)
    with pytest.raises((DataError, RecordError), match=complaint) as refusal:
        item.traces()
    assert str(refusal.value).count("p__B1-C0__1.jsonl") == 1


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder, complaint in (
        (tmp_path, "holds no trace file"),
        (tmp_path / "no", "no such directory"),
        (tmp_path / "file", "cannot be read"),
    ):
        with pytest.raises(DataError, match=complaint):
            labelled_files(folder)
