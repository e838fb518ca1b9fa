"""Figures in the tables of a page, and whether they are those of a file of rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fairlead_dev.checkout import CHECKOUT

DATA = CHECKOUT / "docs" / "explanation" / "data"
_NAME = re.compile(r"`(\w+)`")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\w)")

Rows = Mapping[str, Mapping[str, Any]]


def page_text(page: str) -> str:
    return (CHECKOUT / "docs" / page).read_text(encoding="utf-8")


def rows_of(name: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads((DATA / name).read_text(encoding="utf-8"))}


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(text: str) -> Iterator[list[str]]:
    """The cells of every row of every table, without headings' rules."""
    for line in text.splitlines():
        if line.startswith("|") and not set(line) <= set("|-: "):
            yield cells_of(line)


def names_in(cell: str, rows: Rows) -> list[str]:
    """The rows that a cell names: `a_b`, `_c` are a_b and whichever of a_b_c, a_c and c there is a row of."""
    found: list[str] = []
    for name in _NAME.findall(cell):
        if name.startswith("_") and found:
            parts = found[0].split("_")
            names = ["_".join(parts[:kept]) + name for kept in range(len(parts), 0, -1)]
            found.append(next((one for one in names if one in rows), name))
        else:
            found.append(name)
    return found


def numbers_in(cell: str) -> list[str]:
    return _NUMBER.findall(cell.replace("*", ""))


def shows(text: str, value: float) -> bool:
    """Whether a number as it is written is `value`, rounded to as many digits."""
    digits = len(text.partition(".")[2])
    return abs(float(text) - value) <= 0.5 * 10**-digits + 1e-9
