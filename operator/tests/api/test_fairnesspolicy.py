"""The model of FairnessPolicy: selectors, parts of a capacity, and objects that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.fairnesspolicy import FairnessPolicy
from fairlead.api.fairnesspolicy.spec import NamespaceSelector, SharedLink
from fairlead.api.shared.errors import InvalidResourceError
from fairlead.api.shared.quantity import RateError, parse_part

LABELS = {"team": "astro", "tier": "gold"}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"matchLabels": {"team": "astro"}}, True),
        ({"matchLabels": {"team": "bio"}}, False),
        ({"matchLabels": {"team": "astro", "absent": "x"}}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}]}, True),
        ({"matchExpressions": [{"key": "absent", "operator": "In", "values": ["gold"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]}, False),
        ({"matchExpressions": [{"key": "absent", "operator": "NotIn", "values": ["gold"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, False),
        ({"matchLabels": {"team": "astro"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_a_selector_matches_as_kubernetes_selectors_do(selector: dict[str, Any], expected: bool) -> None:
    assert NamespaceSelector.model_validate(selector).matches(LABELS) is expected


@pytest.mark.parametrize(("text", "expected"), [("10%", 10**9), ("0%", 0), ("12.5%", 1_250_000_000), ("500M", 500_000_000), ("0", 0)])
def test_a_part_is_a_percentage_of_the_whole_or_a_rate(text: str, expected: int) -> None:
    assert parse_part(text, 10**10) == expected


@pytest.mark.parametrize("text", ["100%", "-1%", "%", "ten%", "10 %", "5Q"])
def test_a_part_that_cannot_be_read_is_named_with_how_to_write_it(text: str) -> None:
    with pytest.raises(RateError, match="write"):
        parse_part(text, 10**10)


def test_a_link_tells_the_parts_of_its_capacity_in_bits_per_second() -> None:
    link = SharedLink.model_validate(
        {"name": "wan", "interfaces": [{"node": "n", "name": "eth0", "direction": "Transmit"}], "capacity": "10G", "headroom": "1G"}
    )
    assert (link.headroom_bps(10**10), link.floor_bps(10**10)) == (10**9, 10**9)


def test_an_object_that_cannot_be_read_says_which_field() -> None:
    metadata = {"name": "site", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    with pytest.raises(InvalidResourceError, match=r"spec\.links\.0\.capacity"):
        FairnessPolicy.from_object({"metadata": metadata, "spec": {"links": [{"name": "x", "networkPath": "a-b", "capacity": "fast"}]}})
