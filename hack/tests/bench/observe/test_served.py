"""The operator's page is read as it is served."""

from __future__ import annotations

from prometheus_client.exposition import generate_latest

from fairlead.handlers.metrics import OperatorMetrics
from fairlead_dev.bench.observe.metrics import JOBS, cost_rows
from fairlead_dev.bench.observe.served import read_seconds


def test_what_is_read_over_http_is_the_page() -> None:
    metrics = OperatorMetrics()
    metrics.count_write("create", "pods")
    seconds, page = read_seconds(metrics, 3)
    assert page == generate_latest(metrics.registry)
    assert len(seconds) == 3 and min(seconds) > 0


def test_the_figures_keep_their_names_and_tell_what_writing_alone_takes() -> None:
    rows = {row.name: row for row in cost_rows()}
    assert rows.keys() == {"series_per_job", f"scrape_bytes_{JOBS}_jobs", f"scrape_s_{JOBS}_jobs"}
    assert rows[f"scrape_s_{JOBS}_jobs"].more["write_s"] > 0
