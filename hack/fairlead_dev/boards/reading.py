"""Boards as Grafana reads them: their panels and queries from JSON, with the variables filled in. Needs the standard library alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Board = Mapping[str, Any]
EVERY: Final = ".*"
_METRIC: Final = re.compile(r"\b(?:fairlead|process)[_:][a-zA-Z0-9_:]+")
_LABEL_VALUES: Final = re.compile(r"label_values\((?P<selector>.+),\s*(?P<label>\w+)\)")
_LABELS: Final = re.compile(r'\{[^}]*\}|"[^"]*"|\bby\s*\([^)]*\)|\b(?:on|ignoring|group_left|group_right)\s*\([^)]*\)')


@dataclass(frozen=True, slots=True)
class BoardQuery:
    """One query of a panel."""

    board: str
    panel: str
    panel_id: int
    ref: str
    expr: str
    instant: bool


@dataclass(frozen=True, slots=True)
class LabelQuery:
    """A variable's query: the values that a label has in the series of a selector."""

    selector: str
    label: str


def load(folder: Path) -> list[Board]:
    """The boards in a folder of JSON files, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def panels(board: Board) -> Iterator[Mapping[str, Any]]:
    """The panels that show something: those of rows too, rows themselves not."""
    for panel in board["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", ())
        else:
            yield panel


def queries(board: Board) -> list[BoardQuery]:
    """Every query of every panel, with the variables as they are written."""
    return [
        BoardQuery(
            board["title"],
            panel["title"],
            panel["id"],
            target["refId"],
            target["expr"],
            bool(target.get("instant")),
        )
        for panel in panels(board)
        for target in panel.get("targets", ())
    ]


def variables(board: Board) -> dict[str, str]:
    """The queries for the values of the board's variables, by name."""
    listed = board.get("templating", {}).get("list", ())
    return {each["name"]: each["query"]["query"] for each in listed if each["type"] == "query"}


def label_query(query: str) -> LabelQuery:
    """The parts of `label_values(selector, label)`, the one form that our variables have. Raises ValueError for any other."""
    found = _LABEL_VALUES.fullmatch(query)
    if found is None:
        raise ValueError(f"not of the form label_values(selector, label): {query}")
    return LabelQuery(found["selector"], found["label"])


def filled(expr: str, values: Mapping[str, str], *, range_s: int, rate_interval_s: int) -> str:
    """The expression as Grafana sends it: `$name` is the variable's value or everything, and the two intervals are seconds."""
    built_in = {"__range": f"{range_s}s", "__rate_interval": f"{rate_interval_s}s"}

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        return built_in.get(name) or values.get(name, EVERY)

    return re.sub(r"\$(\w+)", value, expr)


def metrics(expr: str) -> set[str]:
    """The names of the metrics that an expression asks for; the label names of groupings and selectors are none."""
    return set(_METRIC.findall(_LABELS.sub(" ", expr)))
