"""Metrics of jobs: series of each unfinished job, which vanish with it, and counters that outlive jobs and so name namespaces alone."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from fairlead.api.reasons import ConditionType, MoverReason, Reason
from fairlead.api.transferjob import TransferJobStatus
from fairlead.api.transferjob.spec import GIVING_WAY, QUIC_CONTROLS, UDT_CONTROLS, Bandwidth
from fairlead.core.observed import Observed, Role
from fairlead.handlers.cache import ObjectKey
from fairlead.metrics import BITS_PER_BYTE, MetricCatalogue, MetricDescription

_JOB = ("namespace", "transferjob")
JOB_METRICS: Final = MetricCatalogue("fairlead_job")
_INFO = JOB_METRICS.gauge(
    "info",
    "1 for a job that is not finished, with what it was given: tenant, nodes, what its advisor decided and why.",
    *_JOB,
    *("tenant", "source_node", "destination_node", "protocol", "congestion_control", "background", "decision"),
)
_PHASE = JOB_METRICS.gauge("phase", "1 for the phase that the job is in.", *_JOB, "phase")
_PHASE_START = JOB_METRICS.gauge("phase_start_timestamp_seconds", "When the job entered its phase, in Unix time.", *_JOB)
_CREATED = JOB_METRICS.gauge("created_timestamp_seconds", "When the job was created, in Unix time.", *_JOB)
_WAITING = JOB_METRICS.gauge("waiting", "1 for what keeps the job from starting, by the reason of its condition.", *_JOB, "reason")
_BOUND = JOB_METRICS.gauge(
    "bound",
    "1 for what keeps the job's cap from being higher: JobLimit, TenantLimit or Link, and the link where that is.",
    *_JOB,
    *("by", "link"),
)
_ASKED = JOB_METRICS.gauge("asked_bytes_per_second", "The most that the job asks for, spec.bandwidth.limit; absent without it.", *_JOB)
_GUARANTEED = JOB_METRICS.gauge("guaranteed_bytes_per_second", "What the job asks to have in any case, spec.bandwidth.guarantee.", *_JOB)
_ALLOCATED = JOB_METRICS.gauge("allocated_bytes_per_second", "The cap in force; absent without one.", *_JOB)
_MEASURED = JOB_METRICS.gauge(
    "measured_bytes_per_second", "Rate at which the job's data arrives, of the last 10 s; absent while none flows.", *_JOB
)
_BYTES = JOB_METRICS.gauge("bytes", "Bytes of all files of the job; absent until its source was listed.", *_JOB)
_DELIVERED = JOB_METRICS.gauge(
    "delivered_bytes", "Bytes of the job that are at the destination, those of earlier attempts and those that were there included.", *_JOB
)
_LAST_PROGRESS = JOB_METRICS.gauge(
    "last_progress_timestamp_seconds",
    "When bytes of the job were last seen to arrive, or its movers last moved or read any, in Unix time; absent before the first.",
    *_JOB,
)
_ATTEMPTS = JOB_METRICS.gauge("attempts", "Attempts that the job has started.", *_JOB)
_CAP_EXCEEDED = JOB_METRICS.counter(
    "cap_exceeded_seconds_total", "Time in which more had arrived than the job's cap allows, since the operator started.", *_JOB
)

JOB_COUNTERS: Final = MetricCatalogue("fairlead_operator")
_FINISHED = JOB_COUNTERS.counter("jobs_finished_total", "Jobs that ended, by outcome and reason.", "namespace", "outcome", "reason")
_FAILED_ATTEMPTS = JOB_COUNTERS.counter("attempts_failed_total", "Attempts that failed, by reason.", "namespace", "reason")
_RESUMES = JOB_COUNTERS.counter("resumes_total", "Attempts that went on from what earlier ones had left.", "namespace")
_CORRUPTIONS = JOB_COUNTERS.counter("damaged_blocks_total", "Blocks that arrived damaged and were sent again.", "namespace")
_DELIVERED_TOTAL = JOB_COUNTERS.counter("delivered_bytes_total", "Payload bytes that were verified at destinations.", "namespace")
_CAP_EXCEEDED_TOTAL = JOB_COUNTERS.counter(
    "cap_exceeded_seconds_total", "Time in which more had arrived than a job's cap allows, of all jobs.", "namespace"
)
_DECISIONS = JOB_COUNTERS.counter(
    "decisions_total",
    "Decisions of advisors, by reason, class of the background and choice; class None where nothing was classified.",
    *("reason", "background", "congestion_control"),
)
_PHASE_SECONDS = JOB_COUNTERS.histogram("job_phase_duration_seconds", "How long jobs were in each phase, by the phase that ended.", "phase")

_PHASE_BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 14400, 86400)
LONGEST_STEP_SECONDS: Final = 60.0
"""Between two passes no more than this counts as time above the cap."""
OTHER: Final = "Other"
"""Stands for reports of movers and advisors that are none of the documented constants: labels stay few whatever they report."""
_NONE: Final = "None"
_NO_SERIES: Final[tuple[tuple[str, ...], float | None]] = ((), None)
_BACKGROUNDS: Final = frozenset({"B0-C0", "B0-C1", "B1-C0", "B1-C1", "B1-B1", "C1-C1"})
_DECISION_REASONS: Final = frozenset({"NoModel", "UserChoice", "ProbeFailed", "Classified", "Unsure", "Known", "InForce"})
_USUAL_DECISIONS: Final = (
    ("NoModel", _NONE, "cubic"),
    ("ProbeFailed", _NONE, "cubic"),
    *(("Unsure", background, "cubic") for background in sorted(_BACKGROUNDS)),
    *(
        (reason, background, control)
        for reason in ("Classified", "Known")
        for background in sorted(_BACKGROUNDS)
        for control in ("cubic", "bbr")
    ),
)
"""Those that an advisor makes by itself where the kernel has CUBIC and BBR."""
_OF_LINUX: Final = frozenset(
    {"bbr", "bic", "cdg", "cubic", "dctcp", "dctcp-reno", "highspeed", "htcp", "hybla", "illinois", "lp", "nv", "reno", "scalable"}
    | {"vegas", "veno", "westwood", "yeah"}
)
_CONGESTION_CONTROLS: Final = _OF_LINUX | GIVING_WAY | {*QUIC_CONTROLS, *UDT_CONTROLS}
_REASONS: Final = frozenset(str(reason) for reason in (*Reason, *MoverReason))


@dataclass(frozen=True, slots=True)
class _Standing:
    """What is shown of a job's status and spec. There may be ten thousand, of which the whole status would take ten times as much."""

    info: tuple[str, ...] = ()
    obstacle: str | None = None
    bound: tuple[str, str] | None = None
    asked_bps: float | None = None
    guaranteed_bps: float | None = None
    cap_bps: float | None = None
    attempts: int = 0


@dataclass(slots=True)
class _Job:
    """A job as its last pass left it, and how much of its attempt was counted."""

    uid: str
    standing: _Standing
    created: datetime
    phase: str
    phase_since: datetime
    entered: bool
    """Whether the entry into the phase was seen, or the phase is the first."""
    last_pass: datetime
    attempt: int = 0
    is_inherited: bool = False
    """Whether the attempt is older than this operator's knowledge of the job, and nobody has reported of it yet."""
    counted_bytes: int = 0
    counted_damaged: int = 0
    counted_resume: bool = False
    delivered_bytes: int | None = None
    total_bytes: int | None = None
    measured_bps: float | None = None
    last_progress: datetime | None = None
    exceeded_seconds: float = 0.0


class JobMetrics(Collector):
    """Takes in every pass over a job. Shows the jobs' series only while `leads`: they are the leader's to tell."""

    def __init__(self, registry: CollectorRegistry, leads: Callable[[], bool] = lambda: True) -> None:
        self._jobs: dict[ObjectKey, _Job] = {}
        self._leads = leads
        self._finished = _FINISHED.counter(registry)
        self._failed_attempts = _FAILED_ATTEMPTS.counter(registry)
        self._resumes = _RESUMES.counter(registry)
        self._damaged = _CORRUPTIONS.counter(registry)
        self._delivered = _DELIVERED_TOTAL.counter(registry)
        self._exceeded = _CAP_EXCEEDED_TOTAL.counter(registry)
        self._decisions = _DECISIONS.counter(registry, _USUAL_DECISIONS)
        self._phase_seconds = _PHASE_SECONDS.histogram(registry, _PHASE_BUCKETS)
        registry.register(self)

    def meet(self, observed: Observed, now: datetime) -> None:
        """A pass over the job is about to be carried out. The attempt that a job has when it is first met is none of this operator's; one
        that a pass starts is, also if that pass then fails."""
        self._known(observed, now)

    def note(self, observed: Observed, wanted: TransferJobStatus | None, now: datetime) -> None:
        """A pass over the job saw `observed` and left it with the status `wanted`; None for the one that it had."""
        job, before = observed.job, observed.job.status
        after = wanted if wanted is not None else before
        namespace, key = job.metadata.namespace, ObjectKey(job.metadata.namespace, job.metadata.name)
        self._count_news(namespace, before, after)
        known = self._known(observed, now)
        if known is None:
            return
        self._count_attempt(namespace, known, observed, now)
        self._count_excess(namespace, known, observed, now)
        phase = after.phase or "Pending"
        if phase != known.phase:
            if known.entered:
                self._phase_seconds.labels(known.phase).observe(max(0.0, (now - known.phase_since).total_seconds()))
            known.phase, known.phase_since, known.entered = phase, now, True
        known.standing, known.last_pass = _standing(after, job.spec.bandwidth or Bandwidth()), now
        if after.finished:
            del self._jobs[key]

    def drop(self, key: ObjectKey) -> None:
        """Forgets a job that is gone."""
        self._jobs.pop(key, None)

    def _known(self, observed: Observed, now: datetime) -> _Job | None:
        """What is known of the job; None if it had finished before it was first met."""
        metadata = observed.job.metadata
        key = ObjectKey(metadata.namespace, metadata.name)
        known = self._jobs.get(key)
        if known is not None and known.uid == metadata.uid:
            return known
        return None if observed.job.status.finished else self._begin(key, observed, now)

    def _begin(self, key: ObjectKey, observed: Observed, now: datetime) -> _Job:
        job, status = observed.job, observed.job.status
        is_first = status.phase is None
        created = job.metadata.creation_timestamp
        changes = [condition.last_transition_time for condition in status.conditions]
        since = created if is_first else max(changes, default=created)
        standing = _standing(status, job.spec.bandwidth or Bandwidth())
        known = _Job(job.metadata.uid, standing, created, status.phase or "Pending", since, is_first, now)
        # Also where it has ended: its receiver's verdict may still be there, and another operator has counted it.
        known.attempt, known.is_inherited = observed.latest_attempt, observed.latest_attempt > 0
        self._jobs[key] = known
        self._begin_counters(key.namespace)
        return known

    def _begin_counters(self, namespace: str) -> None:
        """Shows a namespace's counters before anything is to be counted: Prometheus sees no increase in a first sample."""
        for counter in (self._resumes, self._damaged, self._delivered, self._exceeded):
            counter.labels(namespace)
        self._finished.labels(namespace, ConditionType.SUCCEEDED.value, MoverReason.VERIFIED)

    def _count_news(self, namespace: str, before: TransferJobStatus, after: TransferJobStatus) -> None:
        if after.finished and not before.finished:
            outcome = ConditionType.SUCCEEDED if after.is_true(ConditionType.SUCCEEDED) else ConditionType.FAILED
            ending = after.condition(outcome)
            self._finished.labels(namespace, outcome.value, _one_of(_REASONS, ending.reason if ending else "")).inc()
        failure = after.last_failure
        if failure is not None and (before.last_failure is None or before.last_failure.attempt != failure.attempt):
            self._failed_attempts.labels(namespace, _one_of(_REASONS, failure.reason)).inc()
        decision = after.decision
        if decision is not None and (before.decision is None or before.decision.decided_at != decision.decided_at):
            background = _NONE if decision.background is None else _one_of(_BACKGROUNDS, decision.background.class_)
            reason, control = _one_of(_DECISION_REASONS, decision.reason), _one_of(_CONGESTION_CONTROLS, decision.congestion_control)
            self._decisions.labels(reason, background, control).inc()

    def _count_attempt(self, namespace: str, known: _Job, observed: Observed, now: datetime) -> None:
        if known.attempt != observed.latest_attempt:
            known.attempt, known.is_inherited = observed.latest_attempt, False
            known.counted_bytes, known.counted_damaged, known.counted_resume = 0, 0, False
        reported = _reported(observed)
        if reported is not None:
            self._count_reported(namespace, known, reported, now)
        known.last_progress = _later(known.last_progress, _last_work(observed, now))
        receiver, sender = observed.reports.receiver, observed.reports.sender
        known.measured_bps = receiver.rate_bytes_per_second * BITS_PER_BYTE if receiver is not None and receiver.flows else None
        if receiver is not None:
            known.delivered_bytes = receiver.bytes_transferred + receiver.bytes_skipped
            known.total_bytes = receiver.bytes_total if receiver.bytes_total is not None else sender.bytes_total if sender else None

    def _count_reported(self, namespace: str, known: _Job, reported: _Reported, now: datetime) -> None:
        if known.is_inherited:
            # What it had done before was done, and counted, under another operator.
            known.is_inherited = False
            known.counted_bytes, known.counted_damaged = reported.moved_bytes, reported.damaged_blocks
            known.counted_resume = reported.resumed_bytes > 0
        if reported.moved_bytes > known.counted_bytes:
            self._delivered.labels(namespace).inc(reported.moved_bytes - known.counted_bytes)
            known.counted_bytes, known.last_progress = reported.moved_bytes, now
        if reported.damaged_blocks > known.counted_damaged:
            self._damaged.labels(namespace).inc(reported.damaged_blocks - known.counted_damaged)
            known.counted_damaged = reported.damaged_blocks
        if reported.resumed_bytes > 0 and not known.counted_resume:
            self._resumes.labels(namespace).inc()
            known.counted_resume = True

    def _count_excess(self, namespace: str, known: _Job, observed: Observed, now: datetime) -> None:
        seconds = min(LONGEST_STEP_SECONDS, (now - known.last_pass) / timedelta(seconds=1))
        if observed.excess is not None and observed.excess.is_proven and seconds > 0:
            known.exceeded_seconds += seconds
            self._exceeded.labels(namespace).inc(seconds)

    def describe(self) -> Iterable[Metric]:
        """The families without a series."""
        return [described.family() for described in JOB_METRICS]

    def collect(self) -> Iterable[Metric]:
        """The series of the jobs that are not finished, one metric after the other: all at once would take as much memory as the jobs do.
        None unless this operator leads. May run in a thread of its own."""
        if not self._leads():
            return
        jobs = list(self._jobs.items())
        for described in JOB_METRICS:
            family, series_of = described.family(), _SERIES[described]
            for key, job in jobs:
                labels, value = series_of(job) or _NO_SERIES
                if value is not None and math.isfinite(value):
                    family.add_sample(described.name, dict(zip(described.labels, (*key, *labels), strict=True)), value)
            yield family


@dataclass(frozen=True, slots=True)
class _Reported:
    """What the receiver of the latest attempt says."""

    moved_bytes: int
    damaged_blocks: int
    resumed_bytes: int
    """What earlier attempts had left."""


def _reported(observed: Observed) -> _Reported | None:
    """Its verdict, or else its last report; None where it has said nothing."""
    receiver = observed.mover(Role.RECEIVER, observed.latest_attempt)
    verdict = receiver.verdict if receiver is not None else None
    if verdict is not None and (verdict.job, verdict.attempt) == (observed.job.metadata.uid, observed.latest_attempt):
        return _Reported(verdict.bytes_sent, verdict.blocks_damaged, verdict.bytes_resumed)
    progress = observed.reports.receiver
    return None if progress is None else _Reported(progress.arrived.count_bytes, progress.blocks_damaged, progress.bytes_resumed)


def _last_work(observed: Observed, now: datetime) -> datetime | None:
    """When either mover last did anything with data, by their reports; None where they do not say."""
    reports = observed.reports
    ages = [
        age_seconds + progress.seconds_since_progress
        for progress, age_seconds in ((reports.receiver, reports.receiver_age_seconds), (reports.sender, reports.sender_age_seconds))
        if progress is not None and progress.seconds_since_progress is not None
    ]
    return now - timedelta(seconds=min(ages)) if ages else None


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _standing(status: TransferJobStatus, wanted: Bandwidth) -> _Standing:
    ends, bandwidth, decision = status.endpoints, status.bandwidth, status.decision
    obstacles = (condition for condition in map(status.condition, (ConditionType.ACCEPTED, ConditionType.SCHEDULED)) if condition)
    bound_by = bandwidth.bound_by if bandwidth is not None else None
    info = (
        (bandwidth.tenant or "") if bandwidth is not None else "",
        (ends.source.node or "") if ends is not None and ends.source is not None else "",
        (ends.destination.node or "") if ends is not None and ends.destination is not None else "",
        status.protocol or (decision.protocol if decision is not None else ""),
        decision.congestion_control if decision is not None else "",
        decision.background.class_ if decision is not None and decision.background is not None else "",
        decision.reason if decision is not None else "",
    )
    return _Standing(
        info=tuple(map(sys.intern, info)),
        obstacle=next((condition.reason for condition in obstacles if condition.status == "False"), None),
        bound=(bound_by, bandwidth.bottleneck or "") if bandwidth is not None and bound_by is not None else None,
        asked_bps=wanted.limit_bps,
        guaranteed_bps=wanted.guarantee_bps or None,
        cap_bps=status.cap_bps,
        attempts=status.attempts or 0,
    )


_Series = tuple[tuple[str, ...], float | None] | None


def _one(value: float | None) -> _Series:
    """A series without labels of its own; none where there is no value."""
    return ((), value)


_SERIES: Final[Mapping[MetricDescription, Callable[[_Job], _Series]]] = {
    _INFO: lambda job: (job.standing.info, 1.0),
    _PHASE: lambda job: ((job.phase,), 1.0),
    _PHASE_START: lambda job: _one(job.phase_since.timestamp()),
    _CREATED: lambda job: _one(job.created.timestamp()),
    _WAITING: lambda job: None if job.standing.obstacle is None else ((job.standing.obstacle,), 1.0),
    _BOUND: lambda job: None if job.standing.bound is None else (job.standing.bound, 1.0),
    _ASKED: lambda job: _one(_bytes(job.standing.asked_bps)),
    _GUARANTEED: lambda job: _one(_bytes(job.standing.guaranteed_bps)),
    _ALLOCATED: lambda job: _one(_bytes(job.standing.cap_bps)),
    _MEASURED: lambda job: _one(_bytes(job.measured_bps)),
    _BYTES: lambda job: _one(job.total_bytes),
    _DELIVERED: lambda job: _one(job.delivered_bytes),
    _LAST_PROGRESS: lambda job: _one(None if job.last_progress is None else job.last_progress.timestamp()),
    _ATTEMPTS: lambda job: _one(job.standing.attempts),
    _CAP_EXCEEDED: lambda job: _one(job.exceeded_seconds),
}
"""What each metric shows of a job: at most one series."""


def _bytes(rate_bps: float | None) -> float | None:
    return None if rate_bps is None else rate_bps / BITS_PER_BYTE


def _one_of(known: frozenset[str], reported: str) -> str:
    return reported if reported in known else OTHER
