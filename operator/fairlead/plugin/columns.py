"""Tables that fit the terminal: columns that matter least leave first, and only what may be cut is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

DrawnCell = Text | ProgressBar

_BETWEEN: Final = 2
_BAR_CHARACTERS: Final = 24


@dataclass(frozen=True, slots=True)
class FittedColumn:
    """One column. Widths are in characters."""

    title: str
    rank: int = 0
    """0 stays; where there is no room for all, the highest leaves first."""
    right: bool = False
    least: int | None = None
    """The width to which it may be narrowed; None if it is shown in full or not at all."""


class FittedTable:
    """A table of single lines, as wide as the terminal at most."""

    def __init__(self, columns: Sequence[FittedColumn], rows: Sequence[Sequence[DrawnCell]]) -> None:
        self._columns = columns
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        natural = [max([cell_len(column.title), *map(_width, cells)]) for column, cells in zip(self._columns, self._cells(), strict=True)]
        widths = fitted(self._columns, natural, options.max_width)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for index, width in widths.items():
            column = self._columns[index]
            table.add_column(column.title, justify="right" if column.right else "left", no_wrap=True, overflow="ellipsis", width=width)
        for row in self._rows:
            table.add_row(*(row[index] for index in widths))
        yield table

    def _cells(self) -> list[list[DrawnCell]]:
        return [[row[index] for row in self._rows] for index in range(len(self._columns))]


def bar(part: float, style: str, finished_style: str | None = None) -> ProgressBar:
    """A bar as wide as its column; `part` is from 0 to 1."""
    return ProgressBar(total=1.0, completed=min(max(part, 0.0), 1.0), complete_style=style, finished_style=finished_style or style)


def fitted(columns: Sequence[FittedColumn], natural: Sequence[int], room: int) -> dict[int, int]:
    """The width of each column that is shown, by its index. `natural` has the widths at which nothing is cut."""
    least = [width if column.least is None else min(width, column.least) for column, width in zip(columns, natural, strict=True)]
    shown = list(range(len(columns)))
    while (spare := room - sum(least[index] + _BETWEEN for index in shown) + _BETWEEN) < 0:
        leaves = max(shown, key=lambda index: (columns[index].rank, index))
        if columns[leaves].rank == 0:
            break
        shown.remove(leaves)
    cut = sum(natural[index] - least[index] for index in shown)
    part = min(1.0, max(spare, 0) / cut) if cut else 1.0
    return {index: least[index] + int((natural[index] - least[index]) * part) for index in shown}


def _width(cell: DrawnCell) -> int:
    return cell.cell_len if isinstance(cell, Text) else _BAR_CHARACTERS
