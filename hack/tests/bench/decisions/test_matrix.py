from collections import Counter

import pytest

from fairlead_advisor.models.answer import CLASSES
from fairlead_dev.bench.decisions.__main__ import BUDGET
from fairlead_dev.bench.decisions.matrix import (
    CHANGING,
    COUNTS,
    FULL,
    MAIN,
    NEVER_DRAWN,
    SUBSET,
    TRANSFER,
    Matrix,
    Policy,
    background_of,
    cells,
    interleaved,
    kind_of_path,
    known_paths,
    matching,
    policies_with,
    right_choice,
    sealed_matrix,
)
from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.dataset.specification import DATASETS, Specification
from fairlead_dev.testbed.runs.packing import next_to_start
from fairlead_dev.testbed.runs.record import scenario_digest
from fairlead_dev.testbed.scenario.expand import single_flows
from fairlead_dev.testbed.scenario.load import load_toml
from fairlead_dev.testbed.sealed.sets import DECISIONS, load_sealed

from .made import PATHS, cell

DATASET = load_toml(DATASETS / "full.toml", Specification)
PER_PATH = (len(CLASSES) - 1) * len(MAIN) + len(policies_with("B0-C0"))
PRINTS = {policy: str(policy) * 20 for policy in Policy}


def test_the_rule_is_bbr_where_bbr_is() -> None:
    assert {name: right_choice(name) for name in CLASSES} == {
        "B0-C0": "cubic",
        "B0-C1": "cubic",
        "B1-C0": "bbr",
        "B1-C1": "bbr",
        "B1-B1": "bbr",
        "C1-C1": "cubic",
    }


def test_the_subset_has_every_class_once_and_every_policy_in_it() -> None:
    planned = cells(SUBSET, known_paths(DATASET), PRINTS)
    stationary = Counter((one.scene.name, one.policy) for one in planned if one.scene.stationary)
    assert stationary == Counter({(name.lower(), policy): 1 for name in CLASSES for policy in policies_with(name)})
    assert all(one.seconds >= 90 for one in planned)


def test_the_whole_matrix_has_all_classes_on_known_unseen_and_never_drawn_paths() -> None:
    planned = cells(FULL, known_paths(DATASET), PRINTS)
    paths = {one.path_id for one in planned}
    assert {"overlay-1"} | NEVER_DRAWN.keys() <= paths
    kinds = Counter(kind_of_path(path_id, DATASET) for path_id in paths)
    assert sum(kinds.values()) >= 6
    assert min(kinds["unseen"], kinds["never drawn"], kinds["known"]) >= 2
    per_path = Counter(one.path_id for one in planned if one.scene.stationary)
    assert set(per_path.values()) == {PER_PATH}


def test_every_cell_has_a_folder_and_a_scenario_of_its_own() -> None:
    planned = cells(FULL, known_paths(DATASET), PRINTS)
    assert len({one.name for one in planned}) == len({scenario_digest(one.scenario) for one in planned}) == len(planned)


def test_every_cell_is_repeated_equally_often_in_blocks_of_random_order() -> None:
    planned = cells(FULL, known_paths(DATASET), PRINTS)
    order = interleaved(planned, 3)
    assert Counter((one.path_id, one.scene.name, one.policy) for one in order).keys() == {
        (one.path_id, one.scene.name, one.policy) for one in planned
    }
    blocks = [order[start : start + len(planned)] for start in range(0, len(order), len(planned))]
    assert [{one.number for one in block} for block in blocks] == [{1}, {2}, {3}]
    places = [[(one.path_id, one.scene.name, one.policy) for one in block] for block in blocks]
    assert places[0] != places[1] != places[2]
    assert order == interleaved(planned, 3), "the same seed gives the same order"
    # No policy is all of the morning: in each half of a block every one has between a third and two thirds of its runs.
    half = Counter(one.policy for one in blocks[0][: len(planned) // 2])
    whole = Counter(one.policy for one in blocks[0])
    assert all(1 / 3 < half[policy] / whole[policy] < 2 / 3 for policy in MAIN)


def test_a_sealed_matrix_has_every_class_on_every_sealed_path() -> None:
    paths = load_sealed().of(DECISIONS).paths
    planned = cells(sealed_matrix(paths), known_paths(DATASET), PRINTS)
    assert Counter(one.path_id for one in planned if one.scene.stationary) == Counter(dict.fromkeys(paths, PER_PATH))
    assert len({one.path_id for one in planned if not one.scene.stationary}) == 3
    assert {kind_of_path(path_id, DATASET) for path_id in paths} == {"sealed"}


def test_the_background_changes_on_sealed_paths_that_span_their_rtts() -> None:
    paths = load_sealed().of(DECISIONS).paths
    chosen = sealed_matrix(paths).changing
    assert [paths[path_id].rtt_ms for path_id in chosen] == [1.2, 15.9, 177.7]
    assert sealed_matrix(dict(reversed(paths.items()))).changing == chosen


def test_one_stream_is_measured_in_every_cell_when_it_is_asked_for() -> None:
    planned = cells(SUBSET, known_paths(DATASET), PRINTS)
    more = set(cells(SUBSET, known_paths(DATASET), PRINTS, extra=(Policy.ONE_STREAM,))) - set(planned)
    assert {one.policy for one in more} == {Policy.ONE_STREAM}
    assert {(one.path_id, one.scene) for one in more} == {(one.path_id, one.scene) for one in planned}


def test_all_policies_meet_the_same_background() -> None:
    backgrounds = {background_of(cell("B1-C1", policy).scenario).flows for policy in Policy}
    assert len(backgrounds) == 1
    assert TRANSFER not in {flow.name for flow in next(iter(backgrounds))}


@pytest.mark.parametrize("background", CLASSES)
def test_the_background_is_one_flow_a_source_from_before_the_transfer_to_its_end(background: str) -> None:
    scenario = background_of(cell(background).scenario)
    flows = single_flows(scenario)
    named = Counter(flow.flow.congestion_control for flow in flows)
    wanted = {"B0-C0": "", "B0-C1": "c", "B1-C0": "b", "B1-C1": "bc", "B1-B1": "bb", "C1-C1": "cc"}[background]
    assert named == Counter({"c": "cubic", "b": "bbr"}[letter] for letter in wanted)
    assert all(flow.start_s < 0 and flow.stop_s == scenario.duration_s for flow in flows)


@pytest.mark.parametrize("scene", CHANGING, ids=lambda scene: scene.name)
def test_bbr_arrives_after_a_minute_and_leaves_after_two(scene: object) -> None:
    matrix = Matrix((), ("new-30",), CHANGING, 200.0)
    one = next(one for one in cells(matrix, PATHS, PRINTS) if one.scene is scene)
    visitor = next(flow for flow in one.scenario.flows if flow.name == "visitor-bbr")
    assert (visitor.start_s, visitor.stop_s, visitor.congestion_control) == (60, 120, "bbr")
    assert [right for _, right in one.scene.rights()] == ["cubic", "bbr", "cubic"]


def test_where_there_is_nobody_to_harm_more_streams_are_the_rivals_and_the_wrong_choice_is_none() -> None:
    assert policies_with("B0-C0") == (Policy.CUBIC, Policy.PAPER, Policy.PAPER_OWN_PATH, Policy.OURS, *COUNTS, Policy.FALCON)
    assert all(policies_with(name) == MAIN for name in CLASSES[1:])


@pytest.mark.parametrize("path_id", ["overlay-1", "sealed-d5"])
def test_a_run_of_a_fast_path_has_nothing_beside_it(path_id: str) -> None:
    fast, slow = (cells(Matrix(((one, "B1-C0"),), (), (), 90.0), known_paths(DATASET), PRINTS)[0].scenario for one in (path_id, "new-30"))
    assert next_to_start([fast], [], BUDGET) == 0
    assert next_to_start([fast, slow], [fast], BUDGET) is None
    assert next_to_start([fast, slow], [slow], BUDGET) == 1


def test_other_programs_make_other_scenarios_of_the_same_name() -> None:
    before, after = cell(fingerprint="a" * 64), cell(fingerprint="b" * 64)
    assert before.name == after.name
    assert scenario_digest(before.scenario) != scenario_digest(after.scenario)


def test_a_path_that_is_not_there_is_named() -> None:
    with pytest.raises(CommandUsageError, match="p99"):
        cells(Matrix((("p99", "B0-C0"),), (), (), 90.0), PATHS, PRINTS)


def test_a_text_in_no_name_is_told_with_what_there_is() -> None:
    planned = [cell(policy=policy) for policy in Policy]
    assert matching(planned, "__ours") == (cell(policy=Policy.OURS),)
    with pytest.raises(CommandUsageError, match="new-30__b1-c0__cubic"):
        matching(planned, "nothing-like-it")
