"""What a schema says of a value, and that each field gets allowed and forbidden ones."""

from __future__ import annotations

from typing import Any

import pytest

from fuzz.schemas import violations
from fuzz.values import ABSENT, LONG, candidates

RATE = {"type": "string", "minLength": 1, "maxLength": 20, "pattern": r"^[0-9]{1,15}(\.[0-9]{1,3})?[kMGT]?$"}
COUNT = {"type": "integer", "format": "int64", "minimum": 1, "maximum": 64}
WORD = {"type": "string", "enum": ["TCP", "QUIC"]}
GROUPS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 3, "x-kubernetes-list-type": "set"}
LABELS = {"type": "object", "additionalProperties": {"type": "string", "maxLength": 3}, "minProperties": 1, "maxProperties": 2}
SHARES = {"x-kubernetes-int-or-string": True}
LINK = {"type": "object", "properties": {"name": RATE, "of": WORD | {"default": "TCP"}}, "required": ["name", "of"]}
LINKS = {"type": "array", "items": LINK, "maxItems": 2, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


@pytest.mark.parametrize(
    ("schema", "value", "is_allowed"),
    [
        (RATE, "64k", True),
        (RATE, "64k\n", False),
        (RATE, "", False),
        (RATE, "1" * 21, False),
        (RATE, 64, False),
        (COUNT, 1, True),
        (COUNT, 64, True),
        (COUNT, 0, False),
        (COUNT, 65, False),
        (COUNT, True, False),
        (COUNT, 1.5, False),
        ({"type": "integer"}, 2**63 - 1, True),
        ({"type": "integer"}, 2**63, False),
        (WORD, "TCP", True),
        (WORD, "tcp", False),
        ({"type": "boolean"}, False, True),
        ({"type": "boolean"}, 0, False),
        ({"type": "string", "format": "date-time"}, "2026-01-02T03:04:05Z", True),
        ({"type": "string", "format": "date-time"}, "2026-01-02", False),
        (GROUPS, [], True),
        (GROUPS, [0, 1, 2], True),
        (GROUPS, [0, 1, 2, 3], False),
        (GROUPS, [1, 1], False),
        (GROUPS, [None], False),
        (LABELS, {"a": "b"}, True),
        (LABELS, {}, False),
        (LABELS, {"a": "", "b": "", "c": ""}, False),
        (LABELS, {"a": "long"}, False),
        (SHARES, 3, True),
        (SHARES, "Spare", True),
        (SHARES, True, False),
        (LINK, {"name": "1G", "unknown": 1}, True),
        (LINK, {"name": "1G", "of": None}, True),
        (LINK, {"of": "TCP"}, False),
        (LINK, {"name": None}, False),
        (LINKS, [{"name": "1"}, {"name": "2"}], True),
        (LINKS, [{"name": "1"}, {"name": "1"}], False),
    ],
)
def test_a_schema_allows_what_it_says(schema: dict[str, Any], value: Any, is_allowed: bool) -> None:
    assert (not list(violations(schema, value))) is is_allowed


@pytest.mark.parametrize("schema", [RATE, COUNT, WORD, GROUPS, LABELS, SHARES, LINK])
def test_every_field_gets_allowed_and_forbidden_values_of_different_names(schema: dict[str, Any]) -> None:
    made = candidates(schema, {"name": "1G"} if schema is LINK else ABSENT)
    labels = [each.label for each in made]
    assert len(labels) == len(set(labels))
    assert {"absent", "null"} <= set(labels)
    verdicts = [not list(violations(schema, each.value)) for each in made if each.value is not ABSENT and each.value is not None]
    assert False in verdicts
    # Of an object's properties each has candidates of its own.
    assert True in verdicts or schema is LINK


@pytest.mark.parametrize(
    ("schema", "present", "values"),
    [
        (COUNT, ABSENT, [0, 1, 2, 63, 64, 65, -1, 2**63]),
        (RATE, ABSENT, ["111111111111111.111k", "a" * 21, "a" * LONG, "64k", "63999", "路" * 20]),
        (WORD, ABSENT, ["TCP", "QUIC", "tcp "]),
        (GROUPS, ABSENT, [[], [0, 1, 2], [0, 1, 2, 3], [0, 0], [None]]),
        (LABELS, ABSENT, [{}, {"a": "x"}, {"example.com/k0": "x", "example.com/k1": "x"}]),
        (LINKS, [{"name": "1G", "of": "QUIC"}], [[], [{"name": f"x{n}", "of": "QUIC"} for n in range(3)]]),
    ],
)
def test_bounds_and_what_lies_beyond_them_are_tried(schema: dict[str, Any], present: Any, values: list[Any]) -> None:
    made = [each.value for each in candidates(schema, present)]
    for value in values:
        assert value in made
