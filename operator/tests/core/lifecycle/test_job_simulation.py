"""Whole lives of jobs: `decide` against a small model of the cluster that keeps pods, time and the object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

import pytest
from job_builders import (
    ENDPOINT,
    LASTING_STAGES,
    NOW,
    SETTINGS,
    UID,
    make_failure,
    make_job,
    make_progress,
    make_reports,
    make_verdict,
    observe,
    seconds,
    with_plan_applied,
)

from fairlead.api import names
from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.core.lifecycle import decide
from fairlead.core.observed import MoverPod, PodPhase, Role
from fairlead.core.plan import CreatePod, EmitEvent, Plan
from fairlead.core.reports import Reports, Verdict
from fairlead.core.settings import OperatorSettings

Script = dict[tuple[Role, int], Verdict]


@dataclass
class Cluster:
    """Pods become ready in the step after their creation, probe, transfer, and end as the script says.

    Without a word in the script they succeed.
    """

    job: TransferJob
    script: Script = field(default_factory=dict)
    settings: OperatorSettings = SETTINGS
    step_seconds: float = 1.0
    probe_steps: int = 2
    transfer_steps: int = 4
    never_ready: frozenset[Role] = frozenset()
    now: datetime = NOW
    pods: dict[str, MoverPod] = field(default_factory=dict)
    events: list[EmitEvent] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    writes: int = 0
    gone: bool = False
    steps_up: int = 0
    log: list[CreatePod] = field(default_factory=list)
    credentials: set[int] = field(default_factory=set)
    """Attempts whose Secret exists."""

    def step(self) -> Plan:
        """One pass and the effects of its plan, then the pods move on."""
        plan = decide(observe(self.job, *self.pods.values(), reports=self._reports(), settings=self.settings), self.now)
        self._apply(plan)
        self._move_pods()
        self.now += seconds(self.step_seconds)
        return plan

    def run(self, until: Callable[[Cluster], bool], most: int = 600) -> None:
        for _ in range(most):
            if until(self):
                return
            self.step()
        pytest.fail(f"never happened; last status {self.job.status.to_object()}")

    def request_deletion(self) -> None:
        metadata = self.job.metadata.model_copy(update={"deletion_timestamp": self.now})
        self.job = self.job.model_copy(update={"metadata": metadata})

    def live(self, role: Role) -> list[MoverPod]:
        return [pod for pod in self.pods.values() if pod.role is role and pod.verdict is None]

    def _pair(self) -> list[MoverPod]:
        return [
            pod for pod in self.pods.values() if pod.role is not Role.CLEANER and pod.ready and pod.verdict is None and not pod.deleting
        ]

    def _reports(self) -> Reports:
        ready = {pod.role for pod in self._pair()}
        if Role.RECEIVER not in ready:
            return Reports()
        if Role.SENDER not in ready:
            return Reports(receiver_endpoint=ENDPOINT)
        done = 1000 * max(self.steps_up - self.probe_steps, 0) // self.transfer_steps
        return make_reports(make_progress(min(done, 1000)), decided=self.steps_up >= self.probe_steps)

    def _apply(self, plan: Plan) -> None:
        assert not (plan.creates and self.job.deleting and any(create.role is not Role.CLEANER for create in plan.creates))
        self.credentials |= {creation.attempt for creation in plan.credentials}
        for delete in plan.deletes:
            self.pods[delete.name] = replace(self.pods[delete.name], deleting=True)
        self.credentials -= {ended.attempt for ended in plan.ended_credentials}
        for create in plan.creates:
            assert create.role is Role.CLEANER or self.credentials == {create.attempt}, "a mover has its own attempt's credentials"
            assert plan.finalizer or names.FINALIZER in self.job.metadata.finalizers, "no mover runs before the finalizer holds the job"
            self._create(create)
        self.job = with_plan_applied(observe(self.job), plan).job
        if plan.status is not None:
            self.writes += 1
            assert plan.status.phase is not None
            if not self.phases or self.phases[-1] != plan.status.phase:
                self.phases.append(plan.status.phase)
        assert not (is_finished(self) and self.credentials), "credentials that outlive their attempt"
        self.events += plan.events
        if plan.delete_job and not self.job.deleting:
            self.request_deletion()
        self.gone = self.job.deleting and names.FINALIZER not in self.job.metadata.finalizers

    def _create(self, create: CreatePod) -> None:
        name = names.child_name(self.job.metadata.name, UID, create.role.value, create.attempt)
        if name in self.pods:
            return
        assert not self.live(create.role), f"a second live {create.role}"
        self.log.append(create)
        self.pods[name] = MoverPod(
            name=name,
            uid=f"{name}-uid",
            resource_version="1",
            role=create.role,
            attempt=create.attempt,
            phase=PodPhase.PENDING,
            ready=False,
            deleting=False,
            created_at=self.now,
            node=create.node,
            address=None,
            port_base=create.port_base,
            verdict=None,
        )

    def _move_pods(self) -> None:
        for name, pod in list(self.pods.items()):
            if pod.deleting:
                del self.pods[name]
            elif pod.role is Role.CLEANER and pod.phase is PodPhase.RUNNING:
                self._end(pod, make_verdict(reason="Cleaned", attempt=0))
            elif pod.phase is PodPhase.PENDING and pod.role not in self.never_ready:
                self.pods[name] = replace(pod, phase=PodPhase.RUNNING, ready=True)
        self.steps_up = self.steps_up + 1 if len(self._pair()) == 2 else 0
        if self.steps_up > self.probe_steps + self.transfer_steps:
            for pod in self._pair():
                self._end(
                    pod,
                    self.script.get((pod.role, pod.attempt), make_verdict(attempt=pod.attempt, bytes_total=1000, bytes_transferred=1000)),
                )

    def _end(self, pod: MoverPod, verdict: Verdict) -> None:
        phase = PodPhase.SUCCEEDED if verdict.verdict == "Succeeded" else PodPhase.FAILED
        self.pods[pod.name] = replace(pod, phase=phase, ready=False, verdict=verdict, exit_code=0)


def is_finished(cluster: Cluster) -> bool:
    return cluster.job.status.is_true("Succeeded") or cluster.job.status.is_true("Failed")


def reasons(cluster: Cluster) -> list[str]:
    return [event.reason for event in cluster.events]


def test_a_job_that_meets_no_trouble_goes_through_every_phase_and_tells_each_once() -> None:
    cluster = Cluster(make_job())
    cluster.run(is_finished)
    assert cluster.phases == ["Pending", "Probing", "Transferring", "Verifying", "Succeeded"]
    assert reasons(cluster) == ["MoversStarted", "PathProbed", "Succeeded"]
    assert [(create.role, create.attempt) for create in cluster.log] == [(Role.RECEIVER, 1), (Role.SENDER, 1)]
    assert cluster.job.status.progress is not None
    assert cluster.job.status.progress.percent == 100


def test_stages_that_do_not_last_cost_no_writes_and_change_nothing_of_the_end() -> None:
    told, brief = (Cluster(make_job(), settings=settings, step_seconds=0.2) for settings in (SETTINGS, LASTING_STAGES))
    for cluster in (told, brief):
        cluster.run(is_finished)
    assert told.phases == ["Pending", "Probing", "Transferring", "Verifying", "Succeeded"]
    assert brief.phases == ["Pending", "Probing", "Transferring", "Succeeded"]
    assert brief.writes <= told.writes - 1
    assert brief.job.status.phase == told.job.status.phase
    assert brief.job.status.pods == told.job.status.pods
    assert set(reasons(brief)) <= set(reasons(told))


def test_a_job_that_succeeded_lets_go_of_its_finalizer_without_a_cleaner_and_then_rests() -> None:
    cluster = Cluster(make_job())
    cluster.run(is_finished)
    cluster.run(lambda c: names.FINALIZER not in c.job.metadata.finalizers)
    written = cluster.writes
    plans = [cluster.step() for _ in range(30)]
    assert cluster.writes == written
    assert plans[-1] == Plan()
    assert all(create.role is not Role.CLEANER for create in cluster.log)


def test_a_lost_peer_is_followed_by_a_second_attempt_after_the_pause() -> None:
    cluster = Cluster(make_job(), script={(role, 1): make_failure("PeerLost", retry=True) for role in (Role.SENDER, Role.RECEIVER)})
    cluster.run(is_finished)
    status = cluster.job.status
    assert status.is_true("Succeeded")
    assert (status.attempts, status.failures) == (2, 1)
    assert status.last_failure is not None
    assert status.last_failure.reason == "PeerLost"
    assert reasons(cluster) == ["MoversStarted", "PathProbed", "AttemptFailed", "MoversStarted", "PathProbed", "Succeeded"]
    started = [pod for pod in cluster.pods.values() if pod.attempt == 2]
    assert min(pod.created_at for pod in started) >= status.last_failure.time + SETTINGS.backoff_first


def test_failures_beyond_the_backoff_limit_end_the_job_and_clean_the_destination() -> None:
    failures = {(role, attempt): make_failure("ChecksumMismatch", retry=True, attempt=attempt) for role in Role for attempt in range(1, 9)}
    cluster = Cluster(make_job(backoffLimit=2), script=failures)
    cluster.run(is_finished)
    failed = cluster.job.status.condition("Failed")
    assert failed is not None
    assert failed.reason == "BackoffLimitExceeded"
    assert "ChecksumMismatch" in failed.message
    assert cluster.job.status.attempts == 3
    cluster.run(lambda c: names.FINALIZER not in c.job.metadata.finalizers)
    assert cluster.log[-1].role is Role.CLEANER


def test_a_receiver_that_never_comes_up_is_named_within_ten_seconds_and_fails_the_job_in_the_end() -> None:
    cluster = Cluster(make_job(backoffLimit=0), never_ready=frozenset({Role.RECEIVER}))
    cluster.run(lambda c: _reason(c.job.status, "MoversReady") == "ReceiverNotReady", most=10)
    cluster.run(is_finished)
    failed = cluster.job.status.condition("Failed")
    assert failed is not None
    assert "ReceiverNotReady" in failed.message
    assert reasons(cluster).count("MoversNotReady") == 1


@pytest.mark.parametrize("steps", range(1, 16))
def test_deletion_after_any_number_of_steps_removes_movers_then_partial_files_then_the_job(steps: int) -> None:
    cluster = Cluster(make_job())
    for _ in range(steps):
        cluster.step()
    arrived = any(pod.verdict and pod.verdict.verdict == "Succeeded" for pod in cluster.pods.values())
    cluster.request_deletion()
    cluster.run(lambda c: c.gone, most=60)
    assert not cluster.live(Role.SENDER)
    assert not cluster.live(Role.RECEIVER)
    assert arrived or cluster.log[-1].role is Role.CLEANER
    assert "CleanupSkipped" not in reasons(cluster)


def test_deletion_before_anything_ran_needs_no_cleaner() -> None:
    cluster = Cluster(make_job(suspend=True))
    cluster.step()
    cluster.request_deletion()
    cluster.run(lambda c: c.gone, most=2)
    assert cluster.log == []


def test_suspension_stops_the_movers_and_resuming_starts_an_attempt_that_does_not_count() -> None:
    cluster = Cluster(make_job(backoffLimit=0), transfer_steps=8)
    cluster.run(lambda c: c.job.status.phase == "Transferring")
    cluster.job = _with_suspend(cluster.job, suspend=True)
    cluster.run(lambda c: not c.pods, most=5)
    assert cluster.job.status.phase == "Suspended"
    cluster.job = _with_suspend(cluster.job, suspend=False)
    cluster.run(is_finished)
    status = cluster.job.status
    assert status.is_true("Succeeded")
    assert (status.attempts, status.failures) == (2, None)
    assert reasons(cluster).count("Suspended") == reasons(cluster).count("Resumed") == 1


def test_a_long_transfer_is_written_at_most_once_in_ten_seconds() -> None:
    cluster = Cluster(make_job(), transfer_steps=200)
    cluster.run(lambda c: c.job.status.phase == "Transferring")
    before, started = cluster.writes, cluster.now
    cluster.run(lambda c: c.job.status.phase == "Verifying")
    elapsed = (cluster.now - started).total_seconds()
    assert cluster.writes - before <= elapsed / 10 + 1
    assert cluster.writes - before >= elapsed / 12 - 1


def test_time_to_live_deletes_the_finished_job() -> None:
    cluster = Cluster(make_job(ttlSecondsAfterFinished=20))
    cluster.run(lambda c: c.gone)
    completed = cluster.job.status.completion_time
    assert completed is not None
    assert seconds(20) <= cluster.now - completed <= seconds(25)


def _reason(status: TransferJobStatus, kind: str) -> str | None:
    condition = status.condition(kind)
    return condition.reason if condition else None


def _with_suspend(job: TransferJob, *, suspend: bool) -> TransferJob:
    return job.model_copy(update={"spec": job.spec.model_copy(update={"suspend": suspend})})
