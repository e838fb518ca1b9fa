"""Every panel's query has an answer where what is documented has moved, and one that asks for what is not there is found."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from fairlead_dev.boards.files import FOLDER
from fairlead_dev.boards.reading import load, queries
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.monitoring import unanswered

FIRST = "fairlead_operator_link_jain_ratio"


def test_every_query_of_every_panel_has_an_answer() -> None:
    boards = load(CHECKOUT / FOLDER)
    assert sum(len(queries(board)) for board in boards) >= 60
    assert unanswered(boards) == ""


@pytest.mark.parametrize(
    "expr",
    [
        f'{FIRST}{{tenant="x"}}',
        f"{FIRST} * on (tenant) fairlead_operator_tenant_jobs",
        f"{FIRST} / ({FIRST} < 0)",
        f"0 * {FIRST} / 0",
    ],
    ids=["a label that it does not have", "a join that matches nothing", "a division by nothing", "no number"],
)
def test_a_query_without_an_answer_is_named(expr: str) -> None:
    board: dict[str, Any] = copy.deepcopy(dict(load(CHECKOUT / FOLDER)[0]))
    board["panels"] = [panel for panel in board["panels"] if panel["type"] != "row"][:1]
    board["panels"][0]["targets"][0]["expr"] = expr
    assert json.dumps(expr)[1:-1] in unanswered([board])
