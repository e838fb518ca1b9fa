import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_advisor.errors import DataError
from fairlead_advisor.train.data import DatasetRun
from fairlead_advisor.train.validation import folds, groups_of
from tests.support.traces import steady


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=60).filter(lambda names: len(set(names)) > 1),
    st.integers(2, 6),
    st.integers(0, 9),
)
def test_no_group_is_on_both_sides_and_every_row_is_tested_once(groups: list[str], count: int, seed: int) -> None:
    tested: list[int] = []
    for training, testing in folds(groups, count, seed):
        assert not {groups[row] for row in training} & {groups[row] for row in testing}
        assert len(training) + len(testing) == len(groups)
        tested += testing.tolist()
    assert sorted(tested) == list(range(len(groups)))


def runs(*paths: str) -> list[DatasetRun]:
    return [DatasetRun(f"r{number}", path, "B0-C0", "1", "train", steady(2)) for number, path in enumerate(paths)]


def test_paths_are_held_out_when_there_are_enough_and_runs_otherwise() -> None:
    assert groups_of(runs(*"aabcde")) == (list("aabcde"), "path")
    assert groups_of(runs(*"aabcdd")) == ([f"r{number}" for number in range(6)], "run")


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(DataError, match=r"only 4 run\(s\) to train on, at least 5"):
        groups_of(runs(*"aabb"))
