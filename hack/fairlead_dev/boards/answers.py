"""What a Prometheus answers to the queries of a board. Needs the standard library alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairlead_dev.boards.prometheus import PrometheusApi
from fairlead_dev.boards.reading import Board, BoardQuery, filled, panels

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
    span_s = round(window.end_s - window.start_s)
    expr = filled(query.expr, chosen, range_s=span_s, rate_interval_s=window.rate_interval_s)
    if query.instant:
        return api.instant(expr, window.end_s)
    return api.range(expr, window.start_s, window.end_s, window.step_s)


def has_data(answer: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any value of an answer is a number."""
    samples = (sample for series in answer for sample in (*series.get("values", ()), *([series["value"]] if "value" in series else ())))
    return any(not math.isnan(float(value)) for _, value in samples)


def of_board(api: PrometheusApi, board: Board, chosen: Mapping[str, str], window: TimeWindow) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The answers to all queries of a board, by the panel's number and the query's letter."""
    return {
        str(panel["id"]): {
            target["refId"]: ask(
                api,
                BoardQuery(board["title"], panel["title"], panel["type"], target["refId"], target["expr"], "", bool(target.get("instant"))),
                chosen,
                window,
            )
            for target in panel.get("targets", ())
        }
        for panel in panels(board)
    }
