"""Every panel's query has an answer where what is documented has moved, and one that asks for what is not there is found."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fairlead_dev.boards.files import FOLDER
from fairlead_dev.boards.reading import load, queries
from fairlead_dev.checkout import BINARIES, CHECKOUT
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
        f'{FIRST}{{namespace=~"$namespace"}}',
    ],
    ids=[
        "a label that it does not have",
        "a join that matches nothing",
        "a division by nothing",
        "no number",
        "a variable that chooses by a label that it does not have",
    ],
)
def test_a_query_without_an_answer_is_named(expr: str) -> None:
    board: dict[str, Any] = copy.deepcopy(dict(load(CHECKOUT / FOLDER)[0]))
    board["panels"] = [panel for panel in board["panels"] if panel["type"] != "row"][:1]
    board["panels"][0]["targets"][0]["expr"] = expr
    said = unanswered([board])
    assert json.dumps(expr.replace("$namespace", "x"))[1:-1] in said


def test_an_administrator_sees_the_free_space_of_each_node_and_folder(tmp_path: Path) -> None:
    """Two agents on two nodes, as the chart's PodMonitor names their series: the one is nearly full."""
    free_bytes = {("dtn-a", "/data"): 4, ("dtn-b", "/data"): 50}
    (board,) = (each for each in load(CHECKOUT / FOLDER) if each["title"] == "Fairlead / Operator")
    expr = {query.panel: query.expr for query in queries(board)}

    def series(what: str, count_bytes: int, node: str, path: str) -> dict[str, str]:
        labels = f'namespace="guard",pod="agent-{node}",node="{node}",path="{path}",instance="{node}:9811"'
        return {"series": f"fairlead_node_storage_{what}_bytes{{{labels}}}", "values": f"{count_bytes}x10"}

    def samples(whole_bytes: int) -> list[dict[str, Any]]:
        return [{"labels": f'{{node="{node}",path="{path}"}}', "value": count / whole_bytes} for (node, path), count in free_bytes.items()]

    cases = [
        {"expr": expr["Free of the size"], "eval_time": "2m", "exp_samples": samples(100)},
        {"expr": expr["Free space"], "eval_time": "2m", "exp_samples": samples(1)},
    ]
    given = [series(what, count, *at) for at, free in free_bytes.items() for what, count in (("free", free), ("size", 100))]
    file = tmp_path / "space.yaml"
    file.write_text(json.dumps({"tests": [{"interval": "15s", "input_series": given, "promql_expr_test": cases}]}))
    done = subprocess.run([BINARIES / "promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
