"""Metrics, alerts and what reading them costs.

`metrics_value_tested` counts the metrics whose name stands beside an expected value in the tests that read their program's page; those
tests fail themselves where a described metric has none.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from prometheus_client.exposition import generate_latest

from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.core.observed import Observed
from fairlead.core.reports import MoverProgress, Reports
from fairlead.handlers.metrics import OperatorMetrics
from fairlead_advisor.record.metrics import ADVISOR_METRICS, AdvisorMetrics
from fairlead_dev import monitoring
from fairlead_dev.bench.observe.served import read_seconds
from fairlead_dev.bench.rows import Row
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.errors import LabError
from fairlead_dev.metrics import documented, sections

JOBS: Final = 100
_SCRAPES: Final = 15
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_PAGE: Final = CHECKOUT / "docs" / "reference" / "metrics.md"
_VALUE_TESTS: Final[Mapping[str, tuple[str, str]]] = {
    "Operator: sharing": ("operator/tests/handlers/fairness", "fairlead_operator_"),
    "Operator: jobs that are not finished": ("operator/tests/handlers/test_job_metrics.py", "fairlead_job_"),
    "Operator: jobs in sum": ("operator/tests/handlers/test_job_metrics.py", "fairlead_operator_"),
    "Operator: itself": ("operator/tests/handlers", "fairlead_operator_"),
    "Mover": ("images/mover/src/control/metrics.rs", "fairlead_mover_"),
    "Advisor": ("images/advisor/tests/record/test_advisor_metrics.py", "fairlead_advisor_"),
    "Node agent": ("operator/tests/agent/test_agent_serve.py", "fairlead_node_"),
    "Node guard": ("operator/tests/guard/test_serve.py", "fairlead_guard_"),
}


def rows() -> list[Row]:
    """The part's rows."""
    return [*metric_rows(), *alert_rows(), *cost_rows()]


def metric_rows() -> list[Row]:
    """How many metrics there are, are on the page, and stand in a test. Names that are missing are in the notes."""
    existing = set(documented())
    on_page = set(re.findall(r"^\| `(fairlead_[a-z_]+)` \|", _PAGE.read_text(), re.MULTILINE))
    tested = tested_metrics()
    untested = sorted(existing - tested)
    note = f"without a value in a test: {', '.join(untested)}" if untested else ""
    return [
        Row("metrics_existing", len(existing), "metrics"),
        Row("metrics_documented", len(existing & on_page), "metrics", len(existing)),
        Row("metrics_value_tested", len(existing & tested), "metrics", len(existing), note=note),
    ]


def tested_metrics() -> set[str]:
    """Metrics whose name, with its prefix or without, begins a string in the tests of its section."""
    found = set()
    for section in sections():
        place, prefix = _VALUE_TESTS[section.title]
        files = [CHECKOUT / place] if Path(place).suffix else sorted((CHECKOUT / place).rglob("test_*.py"))
        text = "\n".join(file.read_text() for file in files)
        for metric in section.metrics:
            if re.search(rf"""["']({prefix})?{metric.name.removeprefix(prefix)}(_sum|_count)?\\?["'{{ ]""", text):
                found.add(metric.name)
    return found


def alert_rows() -> list[Row]:
    """How many alerts there are, fire in a test, and have a runbook."""
    alerts = monitoring.alerts()
    return [
        Row("alerts", len(alerts), "alerts"),
        Row("alerts_tested", len(alerts & monitoring.tested_alerts()), "alerts", len(alerts)),
        Row("runbooks", len(alerts & monitoring.runbooks()), "pages", len(alerts)),
    ]


def cost_rows() -> list[Row]:
    """What a job adds to the operator's page, its movers' and its advisor's, and what the operator's page costs with many jobs."""
    empty, full = OperatorMetrics(), OperatorMetrics()
    for number in range(JOBS):
        full.jobs.note(_running_job(number), None, _NOW)
    page = generate_latest(full.registry)
    of_operator = (_samples(page) - _samples(generate_latest(empty.registry))) / JOBS
    of_movers = 2 * next(len(section.metrics) for section in sections() if section.title == "Mover")
    of_advisor = _advisor_series()
    written_s = []
    for _ in range(_SCRAPES):
        began = time.perf_counter()
        generate_latest(full.registry)
        written_s.append(time.perf_counter() - began)
    read_s, read = read_seconds(full, _SCRAPES)
    if len(read) != len(page):
        raise LabError(f"over HTTP the operator's page has {len(read)} bytes, and {len(page)} as it is written")
    about = "the operator's, one for each metric of a sender and a receiver, and the advisor's"
    series = {"operator": of_operator, "movers": of_movers, "advisor": of_advisor}
    return [
        Row("series_per_job", round(sum(series.values())), "series", note=about, more=series),
        Row(f"scrape_bytes_{JOBS}_jobs", len(page), "bytes", note="the operator's page, uncompressed"),
        Row(
            f"scrape_s_{JOBS}_jobs",
            round(statistics.median(read_s), 5),
            "s",
            note=f"median of {_SCRAPES}, to read the operator's page over HTTP",
            more={"write_s": round(statistics.median(written_s), 5)},
        ),
    ]


def _running_job(number: int) -> Observed:
    job = TransferJob.from_object(
        {
            "metadata": {
                "name": f"run-{number}",
                "namespace": f"lab-{number % 10}",
                "uid": f"uid-{number}",
                "resourceVersion": "1",
                "generation": 1,
                "creationTimestamp": _NOW.isoformat(),
            },
            "spec": {
                "source": {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}},
                "destination": {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}},
                "bandwidth": {"limit": "1G", "guarantee": "100M"},
            },
        }
    )
    status = TransferJobStatus.model_validate(
        {
            "phase": "Transferring",
            "attempts": 1,
            "bandwidth": {"allocated": "800M", "tenant": "physics", "boundBy": "Link", "bottleneck": "wan"},
            "endpoints": {"source": {"node": "dtn-a"}, "destination": {"node": "dtn-b"}},
        }
    )
    progress = MoverProgress("Transferring", 10**12, 10**9 + number, 0, 10, 1, 0, 1e8)
    return Observed(job=job.model_copy(update={"status": status}), reports=Reports(receiver=progress))


def _advisor_series() -> int:
    """What an advisor shows at its start, and one for each metric that has nothing to show then."""
    shown = [row for row in AdvisorMetrics().exposition().decode().splitlines() if row.startswith("fairlead")]
    names = {re.split("[{ ]", row)[0] for row in shown}
    return len(shown) + sum(described.full_name not in names for described in ADVISOR_METRICS)


def _samples(page: bytes) -> int:
    return sum(not row.startswith(b"#") for row in page.splitlines())
