"""Panels of the boards that have data, variables that offer something, and questions that are answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fairlead_dev.bench.rows import Row, not_available
from fairlead_dev.boards.answers import BoardAnswers
from fairlead_dev.boards.questions import QUESTIONS, answered
from fairlead_dev.boards.reading import Board, panels, variables

_UNITS: Final[Mapping[str, str]] = {"panels_with_data": "panels", "variables_with_values": "variables", "questions_answered": "questions"}


def rows(boards: Sequence[Board], found: BoardAnswers | None) -> list[Row]:
    """The part's rows, from the answers to all queries over the time of a run with traffic; without figures where it left none."""
    count = sum(1 for board in boards for _ in panels(board))
    if found is None:
        return [Row("panels", count, "panels"), *(not_available(name, unit, "the run left no answers") for name, unit in _UNITS.items())]
    empty = [f"{board['title']}: {title}" for board in boards for title in found.panels_without_data(board)]
    offering = sum(len(variables(board)) for board in boards)
    idle = [f"{board['title']}: {name}" for board in boards for name in found.variables_without_values(board)]
    unanswered = [each.question for each in QUESTIONS if each.question not in answered(boards, found)]
    return [
        Row("panels", count, "panels"),
        Row("panels_with_data", count - len(empty), "panels", count, (count - len(empty)) / count, more={"without_data": empty}),
        Row("variables_with_values", offering - len(idle), "variables", offering, 1 - len(idle) / offering, more={"without_values": idle}),
        Row(
            "questions_answered",
            len(QUESTIONS) - len(unanswered),
            "questions",
            len(QUESTIONS),
            1 - len(unanswered) / len(QUESTIONS),
            more={"unanswered": unanswered},
        ),
    ]
