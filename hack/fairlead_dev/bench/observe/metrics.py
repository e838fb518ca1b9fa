"""Metrics, alerts and what reading them costs.

`metrics_value_tested` counts the metrics whose name stands in a test of its program, so that a test that is not there is seen.
"""

from __future__ import annotations

import re
import statistics
import time
from datetime import UTC, datetime
from typing import Final

from prometheus_client.exposition import generate_latest

from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.core.observed import Observed
from fairlead.core.reports import MoverProgress, Reports
from fairlead.handlers.metrics import OperatorMetrics
from fairlead_dev import monitoring
from fairlead_dev.bench.rows import Row
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.metrics import documented, sections

JOBS: Final = 100
_SCRAPES: Final = 15
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_PAGE: Final = CHECKOUT / "docs" / "reference" / "metrics.md"
_TESTS: Final = ("operator/tests/**/*.py", "images/advisor/tests/**/*.py", "images/mover/src/control/metrics.rs", "images/mover/tests/*.rs")


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
    """Metrics whose name, with its prefix or as the advisor's and the mover's tests have it without, stands in a test."""
    texts = [path.read_text() for pattern in _TESTS for path in CHECKOUT.glob(pattern)]
    words = {word for text in texts for word in re.findall(r"[a-z_]{4,}", text)}
    own = {name for name in documented() if {name, f"{name}_sum", f"{name}_count"} & words}
    advisor = (CHECKOUT / "images/advisor/tests/record/test_advisor_metrics.py").read_text()
    return own | {name for name in documented() if f'"{name.removeprefix("fairlead_advisor_")}":' in advisor}


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
    programs = {section.title: len(section.metrics) for section in sections()}
    of_pods = 2 * programs["Mover"] + programs["Advisor"]
    seconds = []
    for _ in range(_SCRAPES):
        began = time.perf_counter()
        generate_latest(full.registry)
        seconds.append(time.perf_counter() - began)
    about = "one for each metric that a sender, a receiver and an advisor describe, beside the operator's"
    return [
        Row("series_per_job", round(of_operator + of_pods), "series", note=about, more={"operator": of_operator, "pods": of_pods}),
        Row(f"scrape_bytes_{JOBS}_jobs", len(page), "bytes", note="the operator's page, uncompressed"),
        Row(f"scrape_s_{JOBS}_jobs", round(statistics.median(seconds), 5), "s", note=f"median of {_SCRAPES}, to write the operator's page"),
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


def _samples(page: bytes) -> int:
    return sum(not row.startswith(b"#") for row in page.splitlines())
