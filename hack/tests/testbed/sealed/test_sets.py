"""Which paths are sealed."""

import json
from pathlib import Path as FilePath

import pytest
from pydantic import ValidationError

from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.dataset.draw import draw_paths
from fairlead_dev.testbed.dataset.plan import plan_runs
from fairlead_dev.testbed.dataset.specification import DATASETS, Specification
from fairlead_dev.testbed.scenario.load import load_toml
from fairlead_dev.testbed.scenario.model import Path
from fairlead_dev.testbed.sealed.engine_paths import EnginePath, EngineSetSpecification, draw_engine_paths
from fairlead_dev.testbed.sealed.sets import (
    CLASSIFIER_2,
    ENGINES,
    ENGINES_LIST,
    LIST,
    PURPOSES,
    RECORDED_AS,
    SealedSet,
    draw_engines,
    draw_sealed,
    draw_second,
    engine_specification,
    list_with,
    load_lists,
    load_sealed,
    sealed_engine_paths,
    sealed_ids,
    specification,
    write_sealed,
)

FIRST_SHA256 = "5c4bfd4b040de6b828a56bd4a4f248b989cc1e24f68977057c0dc4357b57e511"
SECOND_SHA256 = "69556ee79f76bacea71b8dfdb37ea9de6bb360177ba0a54f4eeee6fc377f48a6"
ENGINES_SHA256 = "67c3bfea1f8aadabfa06bd563d5caf13fb870aa8f2f71f9e99ac2f691079b8e4"


def test_the_lists_of_the_repository_are_what_their_seeds_give() -> None:
    drawn = draw_sealed(specification()), draw_engines(engine_specification()), draw_second(specification(CLASSIFIER_2))
    assert load_lists() == drawn


def test_a_list_that_was_sealed_stays_as_it_is_whatever_is_sealed_after_it() -> None:
    assert [sealed.sha256 for sealed in load_lists()] == [FIRST_SHA256, ENGINES_SHA256, SECOND_SHA256]


def test_every_set_is_found_with_its_list() -> None:
    assert {name for name in PURPOSES if list_with(name).of(name).purpose == PURPOSES[name]} == set(PURPOSES)
    assert list_with(ENGINES).sha256 == ENGINES_SHA256


def test_no_path_is_in_two_sets_or_in_a_data_set() -> None:
    paths = [Path(**path.model_dump(include=Path.model_fields.keys())) for one in all_sets() for path in one.paths.values()]
    assert len(set(paths)) == len(paths) == len(sealed_ids())
    for name in ("full", "short", "pilot", "kernel-queue-twin", "fair-queue"):
        data = load_toml(DATASETS / f"{name}.toml", Specification)
        known = {one.path for one in draw_paths(data)} | {one.path for one in data.fixed_paths}
        assert not known & set(paths)
        assert not {run.path_id for run in plan_runs(data)} & sealed_ids()


def all_sets() -> list[SealedSet]:
    return [one for sealed in load_lists() for one in sealed.sets]


@pytest.mark.parametrize("name", RECORDED_AS)
def test_what_is_recorded_of_a_set_of_the_classifier_is_of_unseen_paths_alone(name: str) -> None:
    runs = plan_runs(specification(name))
    assert {run.path_id for run in runs} == list_with(name).of(name).paths.keys()
    assert {run.split for run in runs} == {"test_paths"}


def test_the_classifiers_second_set_is_like_the_first() -> None:
    first, second = (specification(name).model_dump() for name in RECORDED_AS)
    differing = {"name", "seed", "drawn_paths"}
    assert {key for key in first if first[key] != second[key]} == differing
    assert {key for key, value in first["drawn_paths"].items() if value != second["drawn_paths"][key]} == {"prefix"}


def test_a_list_that_was_changed_afterwards_is_refused(tmp_path: FilePath) -> None:
    content = json.loads(LIST.read_text())
    content["sets"]["decisions"]["paths"]["sealed-d0"]["rtt_ms"] += 1
    (tmp_path / "paths.json").write_text(json.dumps(content))
    with pytest.raises(CommandUsageError, match="was changed after it was sealed"):
        load_sealed(tmp_path / "paths.json")
    (tmp_path / "paths.json").write_text("{}")
    with pytest.raises(CommandUsageError, match="is no list of sealed paths"):
        load_sealed(tmp_path / "paths.json")


def test_a_sealed_set_is_not_drawn_again(tmp_path: FilePath) -> None:
    write_sealed(load_sealed(), tmp_path / "paths.json")
    assert load_sealed(tmp_path / "paths.json") == load_sealed()
    other = draw_sealed(specification().model_copy(update={"seed": 1}))
    assert other.sha256 != load_sealed().sha256
    with pytest.raises(CommandUsageError, match="never drawn again"):
        write_sealed(other, tmp_path / "paths.json")


def test_a_cap_that_was_changed_afterwards_is_noticed_too(tmp_path: FilePath) -> None:
    content = json.loads(ENGINES_LIST.read_text())
    capped = next(path for path in content["sets"][ENGINES]["paths"].values() if "cap_bps" in path)
    capped["cap_bps"] += 100_000
    (tmp_path / "engines.json").write_text(json.dumps(content))
    with pytest.raises(CommandUsageError, match="was changed after it was sealed"):
        load_sealed(tmp_path / "engines.json", EnginePath)


def test_the_paths_for_the_choice_of_protocol_are_of_every_kind() -> None:
    drawn = engine_specification()
    paths = list(sealed_engine_paths().values())
    assert sum(path.loss_ratio > 0 for path in paths) == 4
    assert (sum(path.police_udp is not None for path in paths), sum(path.udp_blocked for path in paths)) == (2, 1)
    assert sum(path.bars_udp for path in paths) == 3
    assert sum(path.cap_bps is not None for path in paths) == drawn.capped
    for path in paths:
        assert 50e6 <= path.rate_bps <= 300e6 and 5 <= path.rtt_ms <= 200 and path.loss_ratio <= 0.003
        assert path.buffer_bdp is not None and 0.5 <= path.buffer_bdp <= 3
        assert path.police_udp is None or 5e6 <= path.police_udp.rate_bps <= 20e6
        assert path.cap_bps is None or 0.49 <= path.cap_bps / path.rate_bps <= 0.96


def test_another_seed_gives_other_paths_for_the_choice_of_protocol() -> None:
    other = draw_engine_paths(engine_specification().model_copy(update={"seed": 1}))
    assert len(other) == 8
    assert not set(other.values()) & set(sealed_engine_paths().values())


def test_more_paths_of_a_kind_than_there_are_paths_are_refused() -> None:
    content = engine_specification().model_dump()
    for wrong in ({"capped": 9}, {"udp_policed": 8}):
        with pytest.raises(ValidationError, match="must not exceed"):
            EngineSetSpecification(**{**content, **wrong})
