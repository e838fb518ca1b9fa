"""Transitions as text, what they make of an object, and which of them a sample has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fuzz.scenes import NAMESPACE, SCENES, everything, placed
from fuzz.transitions import Transition, TransitionError, find, is_allowed, read_path, sample, shown, transitions_of
from fuzz.values import ABSENT

BODY = {"spec": {"links": [{"name": "out"}], "suspend": True}}
SCHEMA = {
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "suspend": {"type": "boolean"},
                "bandwidth": {"type": "object", "properties": {"weight": {"type": "integer", "minimum": 1}}},
                "links": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
            },
        },
        "status": {"type": "object"},
    }
}


@pytest.mark.parametrize("text", ["spec", "spec.bandwidth.limit", "spec.links[0].interfaces[12].name"])
def test_a_path_is_what_its_text_says(text: str) -> None:
    assert shown(read_path(text)) == text


@pytest.mark.parametrize(
    ("path", "value", "after"),
    [
        ("spec.suspend", ABSENT, {"links": [{"name": "out"}]}),
        ("spec.suspend", None, {"links": [{"name": "out"}], "suspend": None}),
        ("spec.links[0].name", "in", {"links": [{"name": "in"}], "suspend": True}),
        ("spec.links[0]", ABSENT, {"links": [], "suspend": True}),
        ("spec.bandwidth.weight", 7, {"links": [{"name": "out"}], "suspend": True, "bandwidth": {"weight": 7}}),
        ("spec", {}, {}),
    ],
)
def test_one_field_changes_and_the_object_that_was_given_does_not(path: str, value: Any, after: dict[str, Any]) -> None:
    before = {"spec": {"links": [{"name": "out"}], "suspend": True}}
    assert Transition("job-new", read_path(path), "x", value).applied(BODY) == {"spec": after}
    assert before == BODY


def test_every_field_has_transitions_and_none_leaves_the_object_as_it_is() -> None:
    made = transitions_of("job-new", SCHEMA, BODY, ["spec"])
    assert {shown(each.path) for each in made} == {
        *("spec", "spec.suspend", "spec.bandwidth", "spec.bandwidth.weight", "spec.links", "spec.links[0].name"),
    }
    assert len({str(each) for each in made}) == len(made)
    # The API server drops a null.
    assert all(json.dumps(each.applied(BODY)) != json.dumps(BODY) for each in made if each.value is not None)
    assert all(each.is_allowed is is_allowed(SCHEMA, each.applied(BODY)) for each in made)
    assert {each.is_allowed for each in made} == {True, False}


@pytest.mark.parametrize(
    ("path", "value", "text", "does"),
    [
        ("spec.bandwidth.limit", "1", "spec.bandwidth.limit: Invalid value", True),
        ("spec.bandwidth.limit", "1", "bandwidth must not be that", True),
        ("spec.source.node", "nowhere", "there is no node nowhere", True),
        ("spec.source.node", "nowhere", "something is wrong", False),
        ("spec.bandwidth.limit", "", "something is wrong", False),
    ],
)
def test_whether_a_message_names_the_field_or_the_value(path: str, value: Any, text: str, does: bool) -> None:
    assert Transition("job-new", read_path(path), "x", value).names(text) is does


def test_a_transition_is_found_by_its_text_and_another_text_is_refused_with_the_reason() -> None:
    every = everything()
    assert len({str(each) for each in every}) == len(every)
    for each in every[:: len(every) // 50]:
        assert find(every, str(each)) is each
    with pytest.raises(TransitionError, match="is no transition"):
        find(every, "job-live")
    with pytest.raises(TransitionError, match=r"of this field there are .*rate-64k"):
        find(every, "job-live@spec.bandwidth.limit=rate")


def test_a_sample_is_the_same_for_one_seed_takes_each_field_first_and_keeps_scenes_together() -> None:
    every = everything()
    places = {(each.scene, each.path, each.is_allowed) for each in every}
    first = sample(every, 7, len(places))
    assert {(each.scene, each.path, each.is_allowed) for each in first} == places
    assert first == sample(every, 7, len(places))
    assert first != sample(every, 8, len(places))
    assert set(map(str, sample(every, 7, None))) == set(map(str, every))
    scenes = [each.scene for each in first]
    assert [scene for number, scene in enumerate(scenes) if scene not in scenes[:number]] == list(dict.fromkeys(scenes)) == list(SCENES)


@pytest.mark.parametrize("scene", SCENES.values(), ids=lambda scene: scene.name)
def test_what_a_scene_is_set_with_is_allowed_and_its_kind_has_much_to_try(scene: Any) -> None:
    assert is_allowed(scene.schema, placed(scene.target, "lab-0"))
    allowed = [each for each in scene.transitions if each.is_allowed]
    assert 100 < len(allowed) < len(scene.transitions)
    assert not scene.is_live or any(body["metadata"]["name"] == scene.name_of_target for _, body in scene.fixtures)


def test_a_scene_is_placed_in_the_namespace_of_its_run() -> None:
    assert NAMESPACE not in str([placed(body, "lab-0") for scene in SCENES.values() for _, body in scene.fixtures])
