"""The boards as a cluster gets them: read back from the ConfigMaps that the chart renders."""

from __future__ import annotations

import copy
import json
import re
from itertools import combinations
from typing import Any

import pytest

from fairlead_dev.boards.reading import label_query, metrics, panels, queries, variables
from fairlead_dev.chart.render import objects
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.metrics import documented

from .conformance import faults

BUILT_IN_VARIABLES = {"__rate_interval", "__range"}
SERIES_OF_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")


def config_maps(**values: Any) -> list[dict[str, Any]]:
    made = objects({"dashboards": {"enabled": True, **values}})
    return [each for each in made if each["kind"] == "ConfigMap" and "-dashboard-" in each["metadata"]["name"]]


@pytest.fixture(scope="module")
def boards() -> dict[str, dict[str, Any]]:
    found = [json.loads(text) for each in config_maps() for text in each["data"].values()]
    return {board["uid"]: board for board in found}


def test_there_is_none_unless_asked_for() -> None:
    assert not [each for each in objects({}) if "-dashboard-" in each["metadata"]["name"]]


def test_the_sidecar_finds_each_board_by_its_label_in_the_namespace_that_is_named() -> None:
    made = config_maps(label="board", labelValue="yes", namespace="monitoring", annotations={"grafana_folder": "Fairlead"})
    assert len(made) == 4
    for each in made:
        assert each["metadata"]["labels"]["board"] == "yes"
        assert each["metadata"]["namespace"] == "monitoring"
        assert each["metadata"]["annotations"] == {"grafana_folder": "Fairlead"}
    assert {each["metadata"]["labels"]["grafana_dashboard"] for each in config_maps()} == {"1"}


def test_every_board_obeys_grafanas_schema(boards: dict[str, dict[str, Any]]) -> None:
    assert set(boards) == {"fairlead-goodput", "fairlead-fairness", "fairlead-decisions", "fairlead-operator"}
    for board in boards.values():
        assert faults(board) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda board: board.update(refresh=3), "refresh"),
        (lambda board: board["panels"][1]["gridPos"].update(h="8"), "h is '8'"),
        (lambda board: board["panels"][1]["options"].update(invented=1), "invented is unknown"),
        (lambda board: board["panels"][1]["fieldConfig"]["defaults"].update(units="s"), "units is unknown"),
        (lambda board: board["panels"][1]["targets"][0].update(query="up"), "query is unknown"),
    ],
)
def test_what_grafanas_schema_does_not_know_is_found(boards: dict[str, dict[str, Any]], change: Any, said: str) -> None:
    board = copy.deepcopy(boards["fairlead-operator"])
    change(board)
    assert said in "\n".join(faults(board))


def test_a_present_value_is_asked_for_now_and_not_found_in_the_past(boards: dict[str, dict[str, Any]]) -> None:
    for board in boards.values():
        present = {panel["id"] for panel in panels(board) if panel["type"] in ("stat", "bargauge", "table")}
        assert present
        assert [query.panel for query in queries(board) if query.panel_id in present and not query.instant] == []


def test_every_query_asks_for_documented_metrics_alone(boards: dict[str, dict[str, Any]]) -> None:
    page = (CHECKOUT / "docs" / "reference" / "metrics.md").read_text()
    documented = dict(re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \|", page, re.MULTILINE))
    for board in boards.values():
        for expr in [*(query.expr for query in queries(board)), *variables(board).values()]:
            named = {name for name in metrics(expr) if not name.startswith("process_")}
            assert named or "process_" in expr, expr
            for name in named:
                whole = SERIES_OF_HISTOGRAM.sub("", name)
                kind = documented.get(name) or documented.get(whole)
                assert kind is not None, f"{board['title']}: docs/reference/metrics.md lacks {name}"
                assert (kind == "histogram") == (name != whole and name not in documented), name


def test_every_variable_in_a_query_is_one_of_the_board(boards: dict[str, dict[str, Any]]) -> None:
    for board in boards.values():
        known = set(variables(board)) | BUILT_IN_VARIABLES
        for expr in [*(query.expr for query in queries(board)), *variables(board).values()]:
            assert set(re.findall(r"\$(\w+)", expr)) <= known, f"{board['title']}: {expr}"
        assert set(variables(board)) <= set(re.findall(r"\$(\w+)", json.dumps([query.expr for query in queries(board)])))


def test_the_columns_of_a_table_are_of_what_the_same_variables_choose(boards: dict[str, dict[str, Any]]) -> None:
    """Grafana merges them by their labels: one that is not restricted adds rows that have nothing else."""
    for board in boards.values():
        for panel in (each for each in panels(board) if each["type"] == "table"):
            used = {target["refId"]: set(re.findall(r"\$([a-z]+)", target["expr"])) for target in panel["targets"]}
            assert [ref for ref, names in used.items() if names != used["A"]] == [], f"{board['title']}, {panel['title']}: {used}"


def test_what_a_variable_offers_is_a_label_of_the_series_that_it_asks(boards: dict[str, dict[str, Any]]) -> None:
    labels = {name: metric.labels for name, metric in documented().items()}
    for board in boards.values():
        for query in variables(board).values():
            asked = label_query(query)
            (name,) = metrics(asked.selector)
            assert asked.label in labels[name], query


def test_links_lead_to_boards_and_variables_that_exist(boards: dict[str, dict[str, Any]]) -> None:
    found = 0
    for board in boards.values():
        assert [(link["type"], link["tags"], link["includeVars"], link["keepTime"]) for link in board["links"]] == [
            ("dashboards", ["fairlead"], True, True)
        ]
        assert board["tags"] == ["fairlead"]
        for panel in panels(board):
            for override in panel["fieldConfig"]["overrides"]:
                for link in next((each["value"] for each in override["properties"] if each["id"] == "links"), ()):
                    target = boards[re.match(r"/d/([\w-]+)\?", link["url"]).group(1)]  # type: ignore[union-attr]
                    assert set(re.findall(r"var-(\w+)=", link["url"])) <= set(variables(target))
                    titles = {each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]}
                    assert set(re.findall(r"__data\.fields\.(\w+)", link["url"])) <= titles
                    found += 1
    assert found >= 4


def test_panels_say_what_they_show_and_do_not_overlap(boards: dict[str, dict[str, Any]]) -> None:
    for board in boards.values():
        shown = list(panels(board))
        assert len({panel["title"] for panel in shown}) == len(shown)
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        for panel in shown:
            assert panel["description"].endswith("."), panel["title"]
            assert panel["type"] == "table" or panel["fieldConfig"]["defaults"]["unit"]
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        for one, other in combinations([panel["gridPos"] for panel in board["panels"]], 2):
            beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"], board["title"]
            assert one["x"] + one["w"] <= 24


def test_a_graph_of_ratios_says_how_far_its_axis_reaches(boards: dict[str, dict[str, Any]]) -> None:
    """Grafana draws series of zeros from 0 to 100, which are 10 000 %."""
    shown = [panel for board in boards.values() for panel in panels(board) if panel["type"] == "timeseries"]
    ratios = [panel["fieldConfig"]["defaults"] for panel in shown if panel["fieldConfig"]["defaults"]["unit"] == "percentunit"]
    assert len(ratios) > 5
    assert [panel for panel in ratios if panel.get("max") is None and not panel["custom"].get("axisSoftMax")] == []


def test_a_table_names_its_columns_and_formats_each_value(boards: dict[str, dict[str, Any]]) -> None:
    for board in boards.values():
        for panel in (each for each in panels(board) if each["type"] == "table"):
            merge, organize = panel["transformations"]
            assert (merge["id"], organize["id"]) == ("merge", "organize")
            values = ["Value"] if len(panel["targets"]) == 1 else [f"Value #{target['refId']}" for target in panel["targets"]]
            renamed, hidden = organize["options"]["renameByName"], organize["options"]["excludeByName"]
            assert all(value in renamed or hidden.get(value) for value in values), panel["title"]
            matched = {each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]}
            assert matched == set(renamed.values())
            assert panel["options"]["sortBy"][0]["displayName"] in matched
