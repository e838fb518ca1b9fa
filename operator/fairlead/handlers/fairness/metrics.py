"""What the fairness loop shows to Prometheus: links and tenants in bytes per second, as its last round found them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from fairlead.core.fairness.model import Participant
from fairlead.core.fairness.round import RoundResult
from fairlead.core.fairness.rules import PolicyRules
from fairlead.core.fairness.summary import jobs_by_link, jobs_by_tenant, measured_jain

_BITS = 8
_ROUND_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)


class FairnessMetrics(Collector):
    """Registers itself with `registry`; metrics are named `<prefix>_link_*`, `<prefix>_tenant_*` and `<prefix>_fairness_*`."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        self._prefix = prefix
        self._last: tuple[PolicyRules, RoundResult] | None = None
        self.round_seconds = Histogram(
            f"{prefix}_fairness_round_duration_seconds", "Time to share all links once.", buckets=_ROUND_BUCKETS, registry=registry
        )
        self._errors = Counter(f"{prefix}_fairness_errors", "Rounds that failed, by kind of error.", ["kind"], registry=registry)
        registry.register(self)

    def count_error(self, kind: str) -> None:
        """One more failed round."""
        self._errors.labels(kind).inc()

    def show(self, rules: PolicyRules | None, outcome: RoundResult | None) -> None:
        """Makes this round the one that is shown; None for none."""
        self._last = None if rules is None or outcome is None else (rules, outcome)

    def collect(self) -> Iterable[Metric]:
        """The gauges of the last round."""
        if self._last is None:
            return
        rules, outcome = self._last
        links = jobs_by_link(rules, outcome)
        yield self._gauge(
            "link_capacity_bytes_per_second", "What the link carries.", _bytes(rules.links, lambda n: rules.links[n].capacity_bps)
        )
        yield self._gauge(
            "link_available_bytes_per_second",
            "What jobs may have together: the capacity less headroom and others' traffic.",
            _bytes(links, lambda name: outcome.available_bps[name]),
        )
        yield self._gauge(
            "link_foreign_bytes_per_second", "Others' traffic.", _bytes(outcome.foreign_bps, lambda n: outcome.foreign_bps[n])
        )
        yield from self._sharers("link", links, rules, outcome)
        yield from self._sharers("tenant", jobs_by_tenant(rules, outcome), rules, outcome)
        yield self._gauge("fairness_jobs_waiting", "Jobs that wait for room on a link.", [((), float(len(outcome.asking)))])
        yield self._gauge(
            "fairness_jobs_approximated",
            "Jobs whose share may not obey the rule of fair shares.",
            [((), float(outcome.fair.approximated))],
        )
        of_all = measured_jain(outcome.sharing, rules, outcome)
        if of_all is not None:
            yield self._gauge("fairness_jain_ratio", "Jain's index of measured rates per weight, all jobs.", [((), of_all)])

    def _sharers(self, kind: str, groups: dict[str, list[Participant]], rules: PolicyRules, outcome: RoundResult) -> Iterable[Metric]:
        caps, measured = outcome.memory.caps, outcome.measured_bps
        yield self._gauge(f"{kind}_jobs", f"Jobs of the {kind}.", [((name,), float(len(jobs))) for name, jobs in groups.items()], kind)
        yield self._gauge(
            f"{kind}_allocated_bytes_per_second",
            "What the jobs' caps add up to.",
            [((name,), sum(caps[job.uid].bps for job in jobs) / _BITS) for name, jobs in groups.items()],
            kind,
        )
        yield self._gauge(
            f"{kind}_measured_bytes_per_second",
            "What the jobs were measured to use.",
            [((name,), sum(measured.get(job.uid, 0.0) for job in jobs) / _BITS) for name, jobs in groups.items()],
            kind,
        )
        indices = {name: measured_jain(jobs, rules, outcome) for name, jobs in groups.items()}
        yield self._gauge(
            f"{kind}_jain_ratio",
            "Jain's index of measured rates per weight.",
            [((name,), index) for name, index in indices.items() if index is not None],
            kind,
        )

    def _gauge(self, name: str, help_text: str, values: Iterable[tuple[tuple[str, ...], float]], label: str = "link") -> Metric:
        samples = list(values)
        labels = [] if any(not key for key, _ in samples) else [label]
        gauge = GaugeMetricFamily(f"{self._prefix}_{name}", help_text, labels=labels)
        for key, value in samples:
            gauge.add_metric(key, value)
        return gauge


def _bytes(names: Iterable[str], rate_bps: Callable[[str], float]) -> list[tuple[tuple[str, ...], float]]:
    return [((name,), rate_bps(name) / _BITS) for name in names]
