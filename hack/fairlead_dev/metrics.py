"""Every metric of every program, as each declares its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from fairlead.agent.serve import NODE_METRICS
from fairlead.guard.serve import GUARD_METRICS
from fairlead.handlers.fairness.metrics import SHARING_METRICS
from fairlead.handlers.job_metrics import JOB_COUNTERS, JOB_METRICS
from fairlead.handlers.metrics import OPERATOR_METRICS
from fairlead.metrics import MetricCatalogue
from fairlead_advisor.record.metrics import ADVISOR_METRICS
from fairlead_dev.checkout import CHECKOUT

MOVER_DESCRIPTIONS = CHECKOUT / "images" / "mover" / "src" / "control" / "metrics.json"


@dataclass(frozen=True, slots=True)
class DocumentedMetric:
    """A metric as the page shows it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True)
class Section:
    """The metrics of one program, and where it serves them."""

    title: str
    place: str
    metrics: tuple[DocumentedMetric, ...]


def sections() -> tuple[Section, ...]:
    """Every metric of every program."""
    mover = tuple(
        DocumentedMetric(each["name"], each["kind"], tuple(each["labels"]), each["help"])
        for each in json.loads(MOVER_DESCRIPTIONS.read_text())
    )
    advisor = tuple(DocumentedMetric(each.full_name, each.kind, each.labels, each.help) for each in ADVISOR_METRICS)
    return (
        Section(
            "Operator: sharing",
            "The operator's `/metrics`, port 9090, of the one that leads: links and tenants as of the last round.",
            _declared(SHARING_METRICS),
        ),
        Section(
            "Operator: jobs that are not finished",
            "The same port, of the operator that leads; each job's series vanish when it ends or is deleted.",
            _declared(JOB_METRICS),
        ),
        Section("Operator: jobs in sum", "The same port.", _declared(JOB_COUNTERS)),
        Section("Operator: itself", "The same port.", _declared(OPERATOR_METRICS)),
        Section("Mover", "`/metrics` on port `http` of each mover pod.", mover),
        Section("Advisor", "`/metrics` on port `advisor-http` of each sender pod. A gauge without a measurement is NaN.", advisor),
        Section("Node agent", "`/metrics` on port `nodeAgent.port` of each data transfer node.", _declared(NODE_METRICS)),
        Section("Node guard", "`/metrics` on port `nodeGuard.port` of each node.", _declared(GUARD_METRICS)),
    )


def documented() -> Mapping[str, DocumentedMetric]:
    """All metrics by name."""
    return {metric.name: metric for section in sections() for metric in section.metrics}


def _declared(catalogue: MetricCatalogue) -> tuple[DocumentedMetric, ...]:
    return tuple(DocumentedMetric(each.name, each.kind, each.labels, each.help) for each in catalogue)
