"""What the fairness loop shows to Prometheus: links and tenants in bytes per second, as its last round found them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from fairlead.api.shared.errors import ReconcileError
from fairlead.core.fairness.model import Participant
from fairlead.core.fairness.round import RoundResult
from fairlead.core.fairness.rules import PolicyRules
from fairlead.core.fairness.summary import jobs_by_link, jobs_by_tenant, measured_jain, number_of
from fairlead.metrics import BITS_PER_BYTE, MetricCatalogue, MetricDescription

SHARING_METRICS: Final = MetricCatalogue("fairlead_operator")
_CAPACITY = SHARING_METRICS.gauge("link_capacity_bytes_per_second", "What the link carries.", "link")
_AVAILABLE = SHARING_METRICS.gauge(
    "link_available_bytes_per_second", "What jobs may have together: the capacity less headroom and others' traffic.", "link"
)
_FOREIGN = SHARING_METRICS.gauge("link_foreign_bytes_per_second", "Others' traffic; absent where it cannot be counted.", "link")
_GUARANTEE_RATIO = SHARING_METRICS.gauge(
    "link_guarantee_ratio", "How much of the guarantees on the link is kept: 1, or less where they exceed what is available.", "link"
)
_LINK_JOBS = SHARING_METRICS.gauge("link_jobs", "Jobs of the link.", "link")
_LINK_WAITING = SHARING_METRICS.gauge("link_jobs_waiting", "Jobs that wait for room and would cross the link.", "link")
_LINK_ALLOCATED = SHARING_METRICS.gauge("link_allocated_bytes_per_second", "What the jobs' caps add up to.", "link")
_LINK_MEASURED = SHARING_METRICS.gauge("link_measured_bytes_per_second", "What the jobs were measured to use.", "link")
_LINK_JAIN = SHARING_METRICS.gauge("link_jain_ratio", "Jain's index of measured rates per weight; absent while none is measured.", "link")
_TENANT_JOBS = SHARING_METRICS.gauge("tenant_jobs", "Jobs of the tenant.", "tenant")
_TENANT_WAITING = SHARING_METRICS.gauge("tenant_jobs_waiting", "Jobs of the tenant that wait for room on a link.", "tenant")
_TENANT_ALLOCATED = SHARING_METRICS.gauge("tenant_allocated_bytes_per_second", "What the jobs' caps add up to.", "tenant")
_TENANT_MEASURED = SHARING_METRICS.gauge("tenant_measured_bytes_per_second", "What the jobs were measured to use.", "tenant")
_TENANT_JAIN = SHARING_METRICS.gauge(
    "tenant_jain_ratio", "Jain's index of measured rates per weight; absent while none is measured.", "tenant"
)
_TENANT_WEIGHT = SHARING_METRICS.gauge("tenant_weight", "Weight of the tenant by the policy.", "tenant")
_TENANT_GUARANTEED = SHARING_METRICS.gauge(
    "tenant_guaranteed_bytes_per_second", "What the policy guarantees to the tenant on each link; 0 for nothing.", "tenant"
)
_TENANT_LIMIT = SHARING_METRICS.gauge(
    "tenant_limit_bytes_per_second", "The most that the tenant may have on each link; absent without a limit.", "tenant"
)
_PART_JOBS = SHARING_METRICS.gauge("link_tenant_jobs", "Jobs of the tenant on the link.", "link", "tenant")
_PART_ALLOCATED = SHARING_METRICS.gauge(
    "link_tenant_allocated_bytes_per_second", "What the caps of the tenant's jobs on the link add up to.", "link", "tenant"
)
_PART_MEASURED = SHARING_METRICS.gauge(
    "link_tenant_measured_bytes_per_second", "What the tenant's jobs on the link were measured to use.", "link", "tenant"
)
_WAITING = SHARING_METRICS.gauge("fairness_jobs_waiting", "Jobs that wait for room on a link.")
_APPROXIMATED = SHARING_METRICS.gauge("fairness_jobs_approximated", "Jobs whose share may not obey the rule of fair shares.")
_JAIN = SHARING_METRICS.gauge("fairness_jain_ratio", "Jain's index of measured rates per weight, all jobs; absent while none is measured.")
_ROUND_SECONDS = SHARING_METRICS.histogram("fairness_round_duration_seconds", "Time to share all links once.")
_ERRORS = SHARING_METRICS.counter("fairness_errors_total", "Rounds that failed, by kind of error.", "kind")
_ROUND_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)

_Values = Mapping[tuple[str, ...], float | None]


class FairnessMetrics(Collector):
    """The metrics of `SHARING_METRICS`; registers itself with `registry`. Shows links and tenants while `leads`."""

    def __init__(self, registry: CollectorRegistry, leads: Callable[[], bool] = lambda: True) -> None:
        self._leads = leads
        self._last: tuple[PolicyRules, RoundResult] | None = None
        self.round_seconds = _ROUND_SECONDS.histogram(registry, _ROUND_BUCKETS)
        self._errors = _ERRORS.counter(registry, zip(sorted(ReconcileError.kinds())))
        registry.register(self)

    def count_error(self, kind: str) -> None:
        """One more failed round."""
        self._errors.labels(kind).inc()

    def show(self, rules: PolicyRules | None, outcome: RoundResult | None) -> None:
        """Makes this round the one that is shown; None for none."""
        self._last = None if rules is None or outcome is None else (rules, outcome)

    def describe(self) -> Iterable[Metric]:
        """The gauges without a series."""
        return [described.gauges() for described in SHARING_METRICS if described.kind == "gauge"]

    def collect(self) -> Iterable[Metric]:
        """The gauges of the last round; none unless this operator leads."""
        if self._last is None or not self._leads():
            return
        rules, outcome = self._last
        for described, values in (
            *_of_links(rules, outcome),
            *_of_tenants(rules, outcome),
            *_of_parts(rules, outcome),
            *_of_all(rules, outcome),
        ):
            family = described.gauges()
            for labels, value in values.items():
                if value is not None and math.isfinite(value):
                    family.add_metric(labels, value)
            yield family


def _of_links(rules: PolicyRules, outcome: RoundResult) -> Iterable[tuple[MetricDescription, _Values]]:
    links = jobs_by_link(rules, outcome)
    yield _CAPACITY, {(name,): _bytes(link.capacity_bps) for name, link in rules.links.items()}
    yield _AVAILABLE, {(name,): _bytes(outcome.available_bps[name]) for name in links}
    yield _FOREIGN, {(name,): _bytes(rate_bps) for name, rate_bps in outcome.foreign_bps.items()}
    yield _GUARANTEE_RATIO, {(name,): link.guarantee_ratio for name, link in outcome.fair.links.items()}
    yield _LINK_JOBS, {(name,): number_of(jobs) for name, jobs in links.items()}
    yield _LINK_WAITING, {(name,): sum(name in outcome.routes[job.uid] for job in outcome.asking) for name in links}
    yield _LINK_ALLOCATED, {(name,): _allocated(jobs, outcome) for name, jobs in links.items()}
    yield _LINK_MEASURED, {(name,): _measured(jobs, outcome) for name, jobs in links.items()}
    yield _LINK_JAIN, {(name,): measured_jain(jobs, rules, outcome) for name, jobs in links.items()}


def _of_tenants(rules: PolicyRules, outcome: RoundResult) -> Iterable[tuple[MetricDescription, _Values]]:
    tenants = jobs_by_tenant(rules, outcome)
    waiting = [rules.tenant(job.namespace).name for job in outcome.asking]
    yield _TENANT_JOBS, {(name,): len(jobs) for name, jobs in tenants.items()}
    yield _TENANT_WAITING, {(name,): waiting.count(name) for name in tenants}
    yield _TENANT_ALLOCATED, {(name,): _allocated(jobs, outcome) for name, jobs in tenants.items()}
    yield _TENANT_MEASURED, {(name,): _measured(jobs, outcome) for name, jobs in tenants.items()}
    yield _TENANT_JAIN, {(name,): measured_jain(jobs, rules, outcome) for name, jobs in tenants.items()}
    yield _TENANT_WEIGHT, {(name,): tenant.weight for name, tenant in rules.tenants.items()}
    yield _TENANT_GUARANTEED, {(name,): _bytes(tenant.guarantee_bps) for name, tenant in rules.tenants.items()}
    yield _TENANT_LIMIT, {(name,): _bytes(tenant.limit_bps) for name, tenant in rules.tenants.items()}


def _of_parts(rules: PolicyRules, outcome: RoundResult) -> Iterable[tuple[MetricDescription, _Values]]:
    parts: dict[tuple[str, ...], list[Participant]] = defaultdict(list)
    for link, jobs in jobs_by_link(rules, outcome).items():
        for job in jobs:
            parts[link, rules.tenant(job.namespace).name].append(job)
    yield _PART_JOBS, {part: number_of(jobs) for part, jobs in parts.items()}
    yield _PART_ALLOCATED, {part: _allocated(jobs, outcome) for part, jobs in parts.items()}
    yield _PART_MEASURED, {part: _measured(jobs, outcome) for part, jobs in parts.items()}


def _of_all(rules: PolicyRules, outcome: RoundResult) -> Iterable[tuple[MetricDescription, _Values]]:
    yield _WAITING, {(): len(outcome.asking)}
    yield _APPROXIMATED, {(): outcome.fair.approximated}
    yield _JAIN, {(): measured_jain(outcome.sharing, rules, outcome)}


def _allocated(jobs: Iterable[Participant], outcome: RoundResult) -> float:
    return _bytes(sum(outcome.caps_bps[job.uid] for job in jobs))


def _measured(jobs: Iterable[Participant], outcome: RoundResult) -> float:
    return _bytes(sum(outcome.measured_bps.get(job.uid, 0.0) for job in jobs))


def _bytes(rate_bps: float) -> float:
    return rate_bps / BITS_PER_BYTE
