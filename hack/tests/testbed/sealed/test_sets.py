"""Which paths are sealed."""

import json
from pathlib import Path

import pytest

from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.dataset.draw import draw_paths
from fairlead_dev.testbed.dataset.plan import plan_runs
from fairlead_dev.testbed.dataset.specification import DATASETS, Specification
from fairlead_dev.testbed.scenario.load import load_toml
from fairlead_dev.testbed.sealed.sets import CLASSIFIER, LIST, draw_sealed, load_sealed, sealed_ids, specification, write_sealed


def test_the_list_of_the_repository_is_what_its_seed_gives() -> None:
    assert load_sealed() == draw_sealed(specification())


def test_no_path_is_in_two_sets_or_in_a_data_set() -> None:
    sealed = load_sealed()
    paths = [path for one in sealed.sets for path in one.paths.values()]
    assert len(set(paths)) == len(paths) == len(sealed_ids())
    for name in ("full", "pilot"):
        data = load_toml(DATASETS / f"{name}.toml", Specification)
        known = {one.path for one in draw_paths(data)} | {one.path for one in data.fixed_paths}
        assert not known & set(paths)
        assert not {run.path_id for run in plan_runs(data)} & sealed_ids()


def test_what_is_recorded_of_the_classifiers_set_is_of_unseen_paths_alone() -> None:
    runs = plan_runs(specification())
    assert {run.path_id for run in runs} == load_sealed().of(CLASSIFIER).paths.keys()
    assert {run.split for run in runs} == {"test_paths"}


def test_a_list_that_was_changed_afterwards_is_refused(tmp_path: Path) -> None:
    content = json.loads(LIST.read_text())
    content["sets"]["decisions"]["paths"]["sealed-d0"]["rtt_ms"] += 1
    (tmp_path / "paths.json").write_text(json.dumps(content))
    with pytest.raises(CommandUsageError, match="was changed after it was sealed"):
        load_sealed(tmp_path / "paths.json")
    (tmp_path / "paths.json").write_text("{}")
    with pytest.raises(CommandUsageError, match="is no list of sealed paths"):
        load_sealed(tmp_path / "paths.json")


def test_a_sealed_set_is_not_drawn_again(tmp_path: Path) -> None:
    write_sealed(load_sealed(), tmp_path / "paths.json")
    assert load_sealed(tmp_path / "paths.json") == load_sealed()
    other = draw_sealed(specification().model_copy(update={"seed": 1}))
    assert other.sha256 != load_sealed().sha256
    with pytest.raises(CommandUsageError, match="never drawn again"):
        write_sealed(other, tmp_path / "paths.json")
