"""What outlives jobs has series whose number does not grow with the jobs that there were."""

from __future__ import annotations

import pytest

from fairlead_dev.metrics import DocumentedMetric, sections

BOUNDED = {
    "namespace": "the cluster's namespaces",
    "tenant": "the policy's tenants",
    "link": "the policy's links",
    "phase": "phases of a job",
    "outcome": "ends of a job",
    "reason": "documented reasons",
    "background": "classes of the classifier",
    "congestion_control": "what kernels and the mover offer",
    "kind": "kinds of errors",
    "verb": "verbs of the API server",
    "resource": "resources that the operator writes",
    "path": "pages of a mover; file systems in nodeAgent.storagePaths",
    "interface": "interfaces of the node",
    "by": "ways to hold a sender",
}
"""Labels of what outlives jobs, with what bounds their values. None names a job, a pod or a UID."""

OF_A_JOB = {"Operator: jobs that are not finished"}
"""Sections whose series vanish with their job, as operator/tests/handlers/test_job_metrics.py holds."""
OF_ITS_POD = {"Mover", "Advisor"}
"""Sections of programs that end with an attempt, whose job and pod Prometheus adds."""
OF_A_SENDER = {
    "fairlead_guard_sender_loose",
    "fairlead_guard_cap_bytes_per_second",
    "fairlead_guard_dropped_packets_total",
    "fairlead_guard_dropped_bytes_total",
}
"""Metrics whose series vanish with the sender's pod, as operator/tests/guard/test_serve.py holds."""


def _outliving() -> list[DocumentedMetric]:
    return [
        metric
        for section in sections()
        if section.title not in OF_A_JOB | OF_ITS_POD
        for metric in section.metrics
        if metric.name not in OF_A_SENDER
    ]


@pytest.mark.parametrize("metric", _outliving(), ids=lambda metric: metric.name)
def test_a_metric_that_outlives_jobs_has_labels_with_few_values(metric: DocumentedMetric) -> None:
    assert set(metric.labels) <= BOUNDED.keys()


def test_the_tables_name_only_what_there_is() -> None:
    assert {label for metric in _outliving() for label in metric.labels} == BOUNDED.keys()
    assert {section.title for section in sections()} >= OF_A_JOB | OF_ITS_POD
    assert {metric.name for section in sections() for metric in section.metrics} >= OF_A_SENDER


@pytest.mark.parametrize("title", sorted(OF_ITS_POD))
def test_a_program_of_one_attempt_does_not_name_its_job(title: str) -> None:
    (metrics,) = (section.metrics for section in sections() if section.title == title)
    assert not {label for metric in metrics for label in metric.labels} & {"namespace", "transferjob", "job", "pod", "uid", "attempt"}


def test_what_belongs_to_one_job_or_pod_has_no_label_but_its_names_and_bounded_ones() -> None:
    named = {"namespace", "transferjob", "pod"}
    described = {"source_node", "destination_node", "protocol", "decision"}
    for section in sections():
        for metric in section.metrics:
            if section.title in OF_A_JOB or metric.name in OF_A_SENDER:
                assert set(metric.labels) <= BOUNDED.keys() | named | described, metric.name
