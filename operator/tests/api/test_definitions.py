"""What the generated definitions bound, the API server and the operator bound alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

DEFINITIONS = sorted((Path(__file__).resolve().parents[3] / "crds").glob("*.yaml"))
EXACT = 2**53
"""Beyond it the API server, which compares numbers with bounds as floating-point ones, takes some that are out of bounds."""
INT64 = (-(2**63), 2**63 - 1)


def _bounds(schema: Any, where: str = "") -> Iterator[tuple[str, int]]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("minimum", "maximum") and isinstance(value, int):
                yield f"{where}.{key}", value
            yield from _bounds(value, f"{where}.{key}")
    elif isinstance(schema, list):
        for value in schema:
            yield from _bounds(value, where)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.stem)
def test_no_number_is_taken_by_the_api_server_and_refused_by_the_operator(definition: Path) -> None:
    bounds = _bounds(yaml.safe_load(definition.read_text())["spec"])
    assert [(where, bound) for where, bound in bounds if abs(bound) >= EXACT and bound not in INT64] == []


def test_there_are_bounds_to_look_at() -> None:
    assert len([bound for file in DEFINITIONS for bound in _bounds(yaml.safe_load(file.read_text())["spec"])]) > len(DEFINITIONS)
