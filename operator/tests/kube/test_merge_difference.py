from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.kube.apply import merge_difference

_LEAVES = st.one_of(st.booleans(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=3))
_OBJECTS = st.recursive(
    st.dictionaries(st.sampled_from("abcd"), _LEAVES, max_size=4),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), st.one_of(_LEAVES, inner), max_size=4),
    max_leaves=12,
)


def _merge(target: Any, patch: Any) -> Any:
    """RFC 7386, word for word."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result


@given(_OBJECTS, _OBJECTS)
def test_the_patch_makes_one_of_the_other(current: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert _merge(current, merge_difference(current, wanted)) == wanted


@given(_OBJECTS)
def test_there_is_no_patch_between_equals(current: dict[str, Any]) -> None:
    assert merge_difference(current, current) == {}


@pytest.mark.parametrize(
    ("current", "wanted", "patch"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, {"a": [1, 2, 3]}),
        ({"a": {"b": 1}}, {"a": 5}, {"a": 5}),
        ({}, {"a": {}}, {"a": {}}),
    ],
)
def test_says_only_what_changes(current: dict[str, Any], wanted: dict[str, Any], patch: dict[str, Any]) -> None:
    assert merge_difference(current, wanted) == patch
