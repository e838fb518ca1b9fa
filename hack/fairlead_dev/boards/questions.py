"""What a person asks in front of the boards, and the panel that answers it (docs/how-to/read-the-boards.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairlead_dev.boards.answers import BoardAnswers, has_data
from fairlead_dev.boards.frame import DECISIONS, FAIRNESS, GOODPUT, OPERATOR, BoardName
from fairlead_dev.boards.reading import Board, queries


@dataclass(frozen=True, slots=True)
class BoardQuestion:
    """A question and where its answer is."""

    question: str
    board: BoardName
    panel: str
    ref: str
    """The query of the panel that answers it."""
    labels: frozenset[str] = frozenset()
    """What the answer is broken down by."""


QUESTIONS: Final = (
    BoardQuestion("Who has the link?", FAIRNESS, "Who has the link", "A", frozenset({"link", "tenant"})),
    BoardQuestion("Who is starved?", FAIRNESS, "Tenants", "B", frozenset({"tenant"})),
    BoardQuestion("Since when is it unfair?", FAIRNESS, "Jain's index over time", "A", frozenset({"link"})),
    BoardQuestion("Why does this job wait, and how long has it?", FAIRNESS, "Jobs that wait", "A", frozenset({"transferjob", "reason"})),
    BoardQuestion("What keeps this job from being faster?", GOODPUT, "What bounds each job", "A", frozenset({"transferjob", "by", "link"})),
    BoardQuestion("When is this job done?", GOODPUT, "Jobs that are not finished", "E", frozenset({"namespace", "transferjob"})),
    BoardQuestion("Does others' traffic take the link?", FAIRNESS, "Who has the link", "C", frozenset({"link"})),
    BoardQuestion("Are the guarantees kept?", FAIRNESS, "Guarantees kept", "A"),
    BoardQuestion(
        "Why does this job use this congestion control?",
        DECISIONS,
        "Decisions of the jobs that run",
        "A",
        frozenset({"transferjob", "background", "congestion_control", "decision"}),
    ),
    BoardQuestion("Does the operator keep up?", OPERATOR, "Oldest in the queue", "A"),
)


def answered(boards: Sequence[Board], found: BoardAnswers) -> set[str]:
    """The questions whose panel has a series with a number and the labels by which the answer is told apart."""
    series = {
        (query.board, query.panel, query.ref): found.of(board)[str(query.panel_id)][query.ref]
        for board in boards
        for query in queries(board)
    }
    return {
        each.question
        for each in QUESTIONS
        if any(has_data([one]) and each.labels <= one["metric"].keys() for one in series[each.board.title, each.panel, each.ref])
    }
