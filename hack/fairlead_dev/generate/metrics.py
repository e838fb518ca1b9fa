"""The reference page of all metrics, from what each program declares of its own."""

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

_HEAD = """# Metrics
Generated from the programs' own descriptions by `make generate`.

All are in base units: seconds, bytes, and ratios from 0 to 1. Rates of payload and of the network are
in bytes per second, where resources have bits. Counters begin at 0 when their process does.

Series that live as long as their program have labels with few values: namespaces, links, tenants,
phases and documented reasons. A job's own series, and those of its movers and advisor, are there while
the job is not finished, and vanish with it. With the chart's PodMonitors a mover's and an advisor's
series have the labels `namespace`, `transferjob`, `role`, `node` and `pod` from their pod; the movers
themselves name no job. The operator's series of jobs have `namespace` and `transferjob` of their own.

[How to watch a cluster](../how-to/watch-with-prometheus.md) says how they are collected, and which
rules and alerts the chart has.
"""


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
            "Operator: sharing", "The operator's `/metrics`, port 9090: links and tenants as of the last round.", _declared(SHARING_METRICS)
        ),
        Section(
            "Operator: jobs that are not finished",
            "The same port; each job's series vanish when it ends or is deleted.",
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


def render() -> str:
    """docs/reference/metrics.md."""
    parts = [_HEAD]
    for section in sections():
        rows = "\n".join(
            f"| `{metric.name}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels) or '-'} | {metric.help} |"
            for metric in section.metrics
        )
        parts.append(f"## {section.title}\n{section.place}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n{rows}\n")
    parts.append("The operator and the advisor have Python's and the process's usual metrics besides (`python_*`, `process_*`).\n")
    return "\n".join(parts)


def _declared(catalogue: MetricCatalogue) -> tuple[DocumentedMetric, ...]:
    return tuple(DocumentedMetric(each.name, each.kind, each.labels, each.help) for each in catalogue)
