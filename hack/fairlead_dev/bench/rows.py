"""Rows of a bench: the table for people, the file for programs, and what is kept of a run that was interrupted."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

WIDTHS = {"name": 26, "value": 12, "unit": 8, "reference": 12, "ratio": 8, "target": 9}


@dataclass(frozen=True, slots=True)
class Goal:
    """What a row is to reach: at least or at most `bound`, or from `bound` to `upper`, of its ratio or its value."""

    kind: Literal["at_least", "at_most", "within"]
    bound: float
    of: Literal["ratio", "value"] = "ratio"
    upper: float = math.inf
    """Of `within` alone."""

    def reached(self, figure: float) -> bool:
        """Whether `figure` is on the right side of the bound, or between the two."""
        if self.kind == "within":
            return self.bound <= figure <= self.upper
        return figure >= self.bound if self.kind == "at_least" else figure <= self.bound

    def margin(self, figure: float | None) -> float | None:
        """How much better `figure` is than the bound, of two than the nearer one, as a ratio: 1 or more is reached. None without one."""
        if not figure or not self.bound:
            return None
        if self.kind == "within":
            return min(figure / self.bound, self.upper / figure)
        return figure / self.bound if self.kind == "at_least" else self.bound / figure

    def __str__(self) -> str:
        if self.kind == "within":
            return f"{self.bound:g}..{self.upper:g}"
        return f"{'>=' if self.kind == 'at_least' else '<='} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `value` is None when it could not be had; then `note` has the reason."""

    name: str
    value: float | None
    unit: str
    reference: float | None = None
    ratio: float | None = None
    note: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else is worth keeping, such as single runs and versions."""
    goal: Goal | None = None

    @property
    def ok(self) -> bool | None:
        """Whether the goal is reached; None without one."""
        if self.goal is None:
            return None
        figure = self.ratio if self.goal.of == "ratio" else self.value
        return figure is not None and self.goal.reached(figure)

    def to_json(self) -> dict[str, Any]:
        """The row's form in the file."""
        row: dict[str, Any] = {"name": self.name, "value": self.value, "unit": self.unit, "reference": self.reference, "ratio": self.ratio}
        if self.goal is not None:
            row |= {"target": str(self.goal), "ok": self.ok}
        if self.note:
            row["note"] = self.note
        return row | dict(self.more)


def rounded(values: Iterable[float]) -> list[float]:
    """Single runs, as they are kept beside a median."""
    return [round(value, 3) for value in values]


def not_available(name: str, unit: str, why: object) -> Row:
    """A row for what could not be measured here."""
    return Row(name, None, unit, note=f"not available: {why}")


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.0f}"


def heading() -> str:
    """The first line of the table."""
    return " ".join(f"{name:{'<' if name in ('name', 'unit') else '>'}{width}}" for name, width in WIDTHS.items()) + "  ok"


def line(row: Row) -> str:
    """The row's line of the table, with its note."""
    cells = [row.name, _figure(row.value), row.unit, _figure(row.reference), _figure(row.ratio), str(row.goal or "-")]
    shown = " ".join(
        f"{cell:{'<' if name in ('name', 'unit') else '>'}{width}}" for cell, (name, width) in zip(cells, WIDTHS.items(), strict=True)
    )
    verdict = {True: "yes", False: "NO", None: "-"}[row.ok]
    return f"{shown}  {verdict}" + (f"   {row.note}" if row.note else "")


def markdown(rows: Iterable[Mapping[str, Any]]) -> str:
    """The table of a written file, for the documentation."""
    lines = ["| row | value | | reference | ratio | target | reached |", "|---|--:|---|--:|--:|--:|---|"]
    for row in rows:
        reached = {True: "yes", False: "**no**", None: ""}[row.get("ok")]
        figures = [_figure(row[key]) if row[key] is not None else "" for key in ("value", "reference", "ratio")]
        lines.append(
            f"| `{row['name']}` | {figures[0]} | {row['unit']} | {figures[1]} | {figures[2]} | {row.get('target', '')} | {reached} |"
        )
    return "\n".join(lines)


def judged(rows: Iterable[Row], goals: Mapping[str, Goal]) -> list[Row]:
    """The rows with their goals, by name."""
    return [replace(row, goal=goals.get(row.name)) for row in rows]


def write(rows: Iterable[Row | Mapping[str, Any]], output: Path) -> None:
    """Writes the file, whole or not at all, and prints where it is."""
    write_whole(output, [row.to_json() if isinstance(row, Row) else dict(row) for row in rows])
    print(f"written to {output}")


def write_whole(path: Path, content: object) -> None:
    """Writes a JSON file so that it is never seen half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)


class RowStore:
    """Rows of the parts that are done, kept until the run is complete; of another program or setting they are void."""

    def __init__(self, path: Path, key: Mapping[str, str]) -> None:
        """`key` names what the rows depend on."""
        self._path, self._key = path, dict(key)
        self._parts: dict[str, list[dict[str, Any]]] = {}
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        if kept.get("key") == self._key:
            self._parts = kept["parts"]

    def get(self, part: str) -> list[Row] | None:
        """The rows of a part that is done."""
        rows = self._parts.get(part)
        return None if rows is None else [Row(**row) for row in rows]

    def put(self, part: str, rows: Sequence[Row]) -> None:
        """Keeps the rows of a part."""
        names = ("name", "value", "unit", "reference", "ratio", "note")
        self._parts[part] = [{name: getattr(row, name) for name in names} | {"more": dict(row.more)} for row in rows]
        write_whole(self._path, {"key": self._key, "parts": self._parts})

    def forget(self) -> None:
        """Nothing is kept any more."""
        self._parts = {}
        self._path.unlink(missing_ok=True)
