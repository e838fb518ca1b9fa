import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from fairlead_dev.boards.answers import BoardAnswers, TimeWindow, ask_all, has_data
from fairlead_dev.boards.prometheus import PrometheusApi, PrometheusError
from fairlead_dev.errors import CommandUsageError

BOARD = {
    "uid": "one",
    "title": "board",
    "panels": [
        {
            "id": 2,
            "type": "table",
            "title": "both",
            "targets": [
                {"refId": "A", "expr": 'a{link=~"$link"}', "instant": True},
                {"refId": "B", "expr": "rate(b[$__rate_interval])", "instant": False},
            ],
        }
    ],
}


def test_instant_queries_are_asked_for_the_end_and_others_for_the_whole_time() -> None:
    asked: list[tuple[str, dict[str, list[str]]]] = []

    def fetch(path: str) -> bytes:
        parts = urlsplit(path)
        asked.append((parts.path, parse_qs(parts.query)))
        return json.dumps({"status": "success", "data": {"result": [{"metric": {}, "value": [1, str(len(asked))]}]}}).encode()

    answers = ask_all(PrometheusApi(fetch), [BOARD], {"link": "wan"}, TimeWindow(100, 1000, 10))
    assert asked == [
        ("/api/v1/query", {"query": ['a{link=~"wan"}'], "time": ["1000.000"]}),
        ("/api/v1/query_range", {"query": ["rate(b[40s])"], "start": ["100.000"], "end": ["1000.000"], "step": ["5"]}),
    ]
    assert answers.of(BOARD) == {"2": {"A": [{"metric": {}, "value": [1, "1"]}], "B": [{"metric": {}, "value": [1, "2"]}]}}


VARIABLES = {
    "templating": {
        "list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus"},
            {"name": "namespace", "type": "query", "query": {"query": "label_values(a, namespace)"}},
            {"name": "job", "type": "query", "query": {"query": 'label_values(a{namespace=~"$namespace"}, transferjob)'}},
        ]
    }
}


def test_variables_are_asked_as_grafana_does_with_what_is_chosen_of_others() -> None:
    asked: list[tuple[str, dict[str, list[str]]]] = []

    def fetch(path: str) -> bytes:
        parts = urlsplit(path)
        asked.append((parts.path, parse_qs(parts.query)))
        return json.dumps({"status": "success", "data": ["astro"] if "namespace" in parts.path else []}).encode()

    board = {**BOARD, **VARIABLES, "panels": []}
    found = ask_all(PrometheusApi(fetch), [board], {"namespace": "astro"}, TimeWindow(100, 1000, 10))
    when = {"start": ["100.000"], "end": ["1000.000"]}
    assert asked == [
        ("/api/v1/label/namespace/values", {"match[]": ["a"], **when}),
        ("/api/v1/label/transferjob/values", {"match[]": ['a{namespace=~"astro"}'], **when}),
    ]
    assert found.offers == {"one": {"namespace": ["astro"], "job": []}}
    assert found.variables_without_values(board) == ["job"]


def test_answers_come_back_from_their_file_and_tell_which_panels_are_empty(tmp_path: Path) -> None:
    panel = {"type": "stat", "id": 3, "title": "empty", "targets": [{"refId": "A", "expr": "c"}]}
    board = {**BOARD, "panels": [*BOARD["panels"], panel]}  # type: ignore[misc]
    number: list[dict[str, Any]] = [{"metric": {}, "value": [1, "1"]}]
    found = BoardAnswers(
        TimeWindow(100, 1000, 10), {"link": "wan"}, {"one": {"2": {"A": [], "B": number}, "3": {"A": []}}}, {"one": {"job": ["sky"]}}
    )
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(found.to_json()))
    assert BoardAnswers.read(file) == found
    assert found.panels_without_data(board) == ["empty"]
    file.write_text("[]")
    with pytest.raises(CommandUsageError, match="boards ask"):
        BoardAnswers.read(file)


@pytest.mark.parametrize(
    ("window", "step_s", "rate_s"),
    [
        pytest.param(TimeWindow(0, 900, 5), 5, 20, id="four scrapes"),
        pytest.param(TimeWindow(0, 86400, 15), 288, 303, id="a long time has long steps"),
    ],
)
def test_a_rate_is_taken_over_at_least_one_step(window: TimeWindow, step_s: float, rate_s: int) -> None:
    assert (window.step_s, window.rate_interval_s) == (step_s, rate_s)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([], False),
        ([{"metric": {}, "values": []}], False),
        ([{"metric": {}, "values": [[1, "NaN"]]}, {"metric": {}, "value": [1, "NaN"]}], False),
        ([{"metric": {}, "values": [[1, "NaN"], [2, "0"]]}], True),
        ([{"metric": {}, "value": [1, "3"]}], True),
    ],
)
def test_only_numbers_count_as_data(answer: list[dict[str, Any]], expected: bool) -> None:
    assert has_data(answer) is expected


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"<html>", "no Prometheus"), (b'{"status": "error", "error": "parse error"}', "parse error: up")],
)
def test_a_refusal_names_the_query(body: bytes, said: str) -> None:
    with pytest.raises(PrometheusError, match=said):
        PrometheusApi(lambda _: body).instant("up", 1)
