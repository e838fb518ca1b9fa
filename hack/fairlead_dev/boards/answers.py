"""What a Prometheus answers to the queries of a board. Needs the standard library alone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from fairlead_dev.boards.prometheus import PrometheusApi
from fairlead_dev.boards.reading import Board, BoardQuery, filled, label_query, panels, queries, variables
from fairlead_dev.errors import CommandUsageError

POINTS: Final = 300
LEAST_STEP_S: Final = 5.0
SCRAPES_IN_RATE: Final = 4
"""Grafana's `$__rate_interval` is four scrape intervals, or the step and one interval if that is more."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The time that a board shows, in Unix time, and how often Prometheus scrapes."""

    start_s: float
    end_s: float
    scrape_s: float

    @property
    def step_s(self) -> float:
        """Time between two points of a graph."""
        return max(LEAST_STEP_S, math.ceil((self.end_s - self.start_s) / POINTS))

    @property
    def rate_interval_s(self) -> int:
        """The value of `$__rate_interval`."""
        return math.ceil(max(SCRAPES_IN_RATE * self.scrape_s, self.step_s + self.scrape_s))


def ask(api: PrometheusApi, query: BoardQuery, chosen: Mapping[str, str], window: TimeWindow) -> list[dict[str, Any]]:
    """The answer to one query, with the variables that are not chosen standing for everything."""
    expr = _filled(query.expr, chosen, window)
    if query.instant:
        return api.instant(expr, window.end_s)
    return api.range(expr, window.start_s, window.end_s, window.step_s)


def offered(api: PrometheusApi, board: Board, chosen: Mapping[str, str], window: TimeWindow) -> dict[str, list[str]]:
    """The values that each variable of a board offers, in view of what is chosen of the others."""
    asked = {name: label_query(_filled(query, chosen, window)) for name, query in variables(board).items()}
    return {name: api.label_values(each.selector, each.label, window.start_s, window.end_s) for name, each in asked.items()}


def _filled(expr: str, chosen: Mapping[str, str], window: TimeWindow) -> str:
    return filled(expr, chosen, range_s=round(window.end_s - window.start_s), rate_interval_s=window.rate_interval_s)


def has_data(answer: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any value of an answer is a number."""
    samples = (sample for series in answer for sample in (*series.get("values", ()), *([series["value"]] if "value" in series else ())))
    return any(not math.isnan(float(value)) for _, value in samples)


@dataclass(frozen=True, slots=True)
class BoardAnswers:
    """What was asked and answered."""

    window: TimeWindow
    chosen: Mapping[str, str]
    """Values of variables; those that are missing stood for everything."""
    by_board: Mapping[str, Mapping[str, Mapping[str, list[dict[str, Any]]]]]
    """By the board's identifier, the panel's number and the query's letter."""
    offers: Mapping[str, Mapping[str, list[str]]] = field(default_factory=dict)
    """The values of each variable, by the board's identifier."""

    def of(self, board: Board) -> Mapping[str, Mapping[str, list[dict[str, Any]]]]:
        """The answers of one board, by panel and query."""
        return self.by_board[board["uid"]]

    def answer(self, board: Board, query: BoardQuery) -> list[dict[str, Any]]:
        """The answer to one query of a board."""
        return self.of(board)[str(query.panel_id)][query.ref]

    def variables_without_values(self, board: Board) -> list[str]:
        """Names of the variables that offer nothing to choose."""
        offered_here = self.offers.get(board["uid"], {})
        return [name for name in variables(board) if not offered_here.get(name)]

    def panels_without_data(self, board: Board) -> list[str]:
        """Titles of the panels of which no query has a number for an answer."""
        found = self.of(board)
        return [panel["title"] for panel in panels(board) if not any(map(has_data, found[str(panel["id"])].values()))]

    def to_json(self) -> dict[str, Any]:
        """For a file."""
        return {"window": asdict(self.window), "chosen": dict(self.chosen), "answers": self.by_board, "offers": self.offers}

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> BoardAnswers:
        """From what `to_json` made. Raises KeyError and TypeError for anything else."""
        return cls(TimeWindow(**read["window"]), read["chosen"], read["answers"], read.get("offers", {}))

    @classmethod
    def read(cls, path: Path) -> BoardAnswers:
        """From a file. Raises CommandUsageError where it is none of answers."""
        try:
            return cls.from_json(json.loads(path.read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CommandUsageError(f"{path} has no answers for boards (make them with `boards ask`): {error}") from error


def ask_all(
    api: PrometheusApi, boards: Iterable[Board], chosen: Mapping[str, str], window: TimeWindow, *, over_time: bool = False
) -> BoardAnswers:
    """The answers to all queries of the boards, those of their variables too. `over_time`: also of tables and bars for the whole time, not
    for its end alone.

    Raises PrometheusError naming the query that is refused.
    """
    answers: dict[str, dict[str, dict[str, list[dict[str, Any]]]]] = {}
    offers = {}
    for board in boards:
        offers[board["uid"]] = offered(api, board, chosen, window)
        of_board = answers.setdefault(board["uid"], {})
        for query in queries(board):
            asked = replace(query, instant=query.instant and not over_time)
            of_board.setdefault(str(query.panel_id), {})[query.ref] = ask(api, asked, chosen, window)
    return BoardAnswers(window, chosen, answers, offers)
