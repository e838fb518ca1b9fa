"""The boards as the files that the chart ships."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard as DashboardModel

from fairlead_dev.boards.decisions import decisions
from fairlead_dev.boards.fairness import fairness
from fairlead_dev.boards.frame import DECISIONS, FAIRNESS, GOODPUT, OPERATOR, BoardName
from fairlead_dev.boards.goodput import goodput
from fairlead_dev.boards.operator import operator

FOLDER: Final = Path("charts/fairlead/dashboards")
_BOARDS: Final[Mapping[BoardName, Callable[[], Dashboard]]] = {
    GOODPUT: goodput,
    FAIRNESS: fairness,
    DECISIONS: decisions,
    OPERATOR: operator,
}


def render() -> dict[Path, str]:
    """The JSON of each board, by its path from the repository's root."""
    encoder = JSONEncoder(indent=2, sort_keys=True)
    return {FOLDER / name.file: encoder.encode(_numbered(make().build())) + "\n" for name, make in _BOARDS.items()}


def _numbered(board: DashboardModel) -> DashboardModel:
    """With a number for each panel, by which links and pictures name it."""
    for number, panel in enumerate(board.panels or (), start=1):
        panel.id_val = number
    return board
