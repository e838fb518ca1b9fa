"""What the generated definitions bound, the API server and the operator bound alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

DEFINITIONS = sorted((Path(__file__).resolve().parents[3] / "crds").glob("*.yaml"))
EXACT = 2**53
"""Beyond it not every integer is a floating-point number, as which the API server keeps a bound."""


def _bounds(schema: Any, where: str = "") -> Iterator[tuple[str, int]]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("minimum", "maximum") and isinstance(value, int):
                yield f"{where}.{key}", value
            yield from _bounds(value, f"{where}.{key}")
    elif isinstance(schema, list):
        for value in schema:
            yield from _bounds(value, where)


def _is_kept(bound: int) -> bool:
    """Whether the API server compares with this very bound: it makes a signed number of 64 bits of the floating-point one."""
    return abs(bound) < EXACT or (int(float(bound)) == bound and -(2**63) <= bound < 2**63)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.stem)
def test_the_api_server_and_the_operator_take_the_same_numbers(definition: Path) -> None:
    bounds = _bounds(yaml.safe_load(definition.read_text())["spec"])
    assert [(where, bound) for where, bound in bounds if not _is_kept(bound)] == []


@pytest.mark.parametrize(("bound", "is_kept"), [(2**53, True), (2**53 + 1, False), (2**62, True), (2**63 - 1, False), (2**63, False)])
def test_bounds_that_the_api_server_would_change_are_found(bound: int, *, is_kept: bool) -> None:
    assert _is_kept(bound) is is_kept


def test_there_are_bounds_to_look_at() -> None:
    assert len([bound for file in DEFINITIONS for bound in _bounds(yaml.safe_load(file.read_text())["spec"])]) > len(DEFINITIONS)
