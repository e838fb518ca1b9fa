"""What the page on Prometheus says of a run of `make bench-observe` is what that run wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_dev.bench.observe.__main__ import BENCH
from fairlead_dev.bench.rows import markdown
from fairlead_dev.checkout import CHECKOUT

PAGE = CHECKOUT / "docs" / "how-to" / "watch-with-prometheus.md"
RESULT = CHECKOUT / "docs" / "explanation" / "data" / "observe.json"


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(RESULT.read_text())}


def test_the_pages_table_is_that_of_the_run(rows: dict[str, dict[str, Any]]) -> None:
    assert markdown(rows.values()) in PAGE.read_text()


def test_the_figures_in_the_pages_words_are_those_of_the_run(rows: dict[str, dict[str, Any]]) -> None:
    series = rows["series_per_job"]
    text = " ".join(PAGE.read_text().split())
    of_mover = series["movers"] // 2
    assert (
        f"A job that runs adds {series['value']} series: {series['operator']:g} of the operator's, up to {of_mover} of each of its two"
        f" movers and {series['advisor']} of its advisor."
    ) in text
    assert f"The operator's page for 100 jobs at a time has {rows['scrape_bytes_100_jobs']['value'] // 1000} kB" in text


def test_the_run_was_whole_and_reached_what_was_promised(rows: dict[str, dict[str, Any]]) -> None:
    value = {name: row["value"] for name, row in rows.items()}
    assert value["metrics_existing"] == value["metrics_documented"] == value["metrics_value_tested"] > 0
    assert value["panels"] == value["panels_with_data"] > 0
    assert value["questions_answered"] == 10
    # Of runs since these are counted.
    assert rows.get("variables_with_values", {"ratio": 1})["ratio"] == 1
    assert value.get("monitoring_tests_failed", 0) == 0
    assert value["alerts"] == value["alerts_tested"] == value["runbooks"] > 0
    assert value["induced_failures_named"] >= 40
    assert value["scrape_s_100_jobs"] > 0


def test_the_table_for_the_page_is_printed_from_a_written_file(capsys: pytest.CaptureFixture[str], rows: dict[str, dict[str, Any]]) -> None:
    assert BENCH.main(["--markdown", str(RESULT)]) == 0
    assert capsys.readouterr().out.strip() == markdown(rows.values())
