"""Small builders: each test says only what matters to it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fairlead.api import names
from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.core.cap_excess import Arrived, CapExcess
from fairlead.core.observed import MoverPod, Observed, PodPhase, Role
from fairlead.core.plan import Plan
from fairlead.core.reports import DecisionReport, MoverEndpoint, MoverProgress, PathReport, Reports, Verdict
from fairlead.core.settings import OperatorSettings

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
UID = "0b8f3a4e-uid"
SETTINGS = OperatorSettings(host_network_namespaces=frozenset({"science"}), stage_interval=timedelta())
"""Every stage is written: passes of a table are often made in one instant."""
LASTING_STAGES = replace(SETTINGS, stage_interval=OperatorSettings().stage_interval)
"""As the operator has it."""
ENDPOINT = MoverEndpoint(interface="data0", address="198.18.0.2", port=24000)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def make_job(
    *, finalizer: bool = False, deleted_at: datetime | None = None, status: TransferJobStatus | None = None, **spec: Any
) -> TransferJob:
    body: dict[str, Any] = {
        "metadata": {
            "name": "first",
            "namespace": "science",
            "uid": UID,
            "generation": 1,
            "creationTimestamp": "2026-01-02T03:00:00Z",
            "finalizers": [names.FINALIZER] if finalizer else [],
        },
        "spec": {
            "source": {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "run42/"},
            "destination": {"node": "dtn-b", "volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "path": "run42"},
            **spec,
        },
    }
    if deleted_at is not None:
        body["metadata"]["deletionTimestamp"] = deleted_at.isoformat()
    job = TransferJob.from_object(body)
    return job if status is None else job.model_copy(update={"status": status})


def make_attached_job(**fields: Any) -> TransferJob:
    """A job whose ends are attached by `lab-a` and `lab-b`."""
    sides = {"source": ("raw", "lab-a"), "destination": ("scratch", "lab-b")}
    ends = {
        end: {"volume": {"persistentVolumeClaim": {"claimName": claim}}, "attachment": attachment}
        for end, (claim, attachment) in sides.items()
    }
    return make_job(network="Attachment", **ends, **fields)


def make_verdict(verdict: str = "Succeeded", reason: str = "Verified", *, retry: bool = False, **fields: Any) -> Verdict:
    counted: dict[str, Any] = {"job": UID, "attempt": 1, "message": f"because {reason}"}
    return Verdict(verdict=verdict, reason=reason, retry=retry, **{**counted, **fields})


def make_failure(reason: str, *, retry: bool, attempt: int = 1) -> Verdict:
    return make_verdict("Failed", reason, retry=retry, attempt=attempt)


def make_pod(role: Role, *, attempt: int = 1, **fields: Any) -> MoverPod:
    """A pod that is up and ready unless `fields` say otherwise; a verdict implies that it has ended."""
    known: dict[str, Any] = {
        "name": names.child_name("first", UID, role.value, attempt),
        "uid": f"pod-{role}-{attempt}",
        "resource_version": "1",
        "phase": PodPhase.RUNNING,
        "ready": True,
        "deleting": False,
        "created_at": NOW - seconds(1),
        "node": "dtn-a" if role is Role.SENDER else "dtn-b",
        "address": "198.18.1.1",
        "port_base": 25996,
        "verdict": None,
    }
    known.update(fields)
    if known["verdict"] is not None:
        known |= {
            "phase": PodPhase.SUCCEEDED if known["verdict"].verdict == "Succeeded" else PodPhase.FAILED,
            "ready": False,
            "exit_code": 0,
        }
    return MoverPod(role=role, attempt=attempt, **known)


def receiver(**fields: Any) -> MoverPod:
    return make_pod(Role.RECEIVER, **fields)


def sender(**fields: Any) -> MoverPod:
    return make_pod(Role.SENDER, **fields)


def cleaner(**fields: Any) -> MoverPod:
    return make_pod(Role.CLEANER, **fields)


def make_progress(done: int, total: int | None = 1000, *, rate: float = 100.0, stage: str = "Transferring") -> MoverProgress:
    return MoverProgress(
        stage=stage,
        bytes_total=total,
        bytes_transferred=done,
        bytes_skipped=0,
        files_total=None if total is None else 10,
        files_transferred=0,
        files_skipped=0,
        rate_bytes_per_second=rate,
    )


def make_reports(progress: MoverProgress | None = None, *, decided: bool = False) -> Reports:
    decision = DecisionReport(
        protocol="TCP",
        congestion_control="cubic",
        streams=4,
        abstained=True,
        reason="NoModel",
        message="no model is installed",
        decided_at=NOW,
    )
    return Reports(
        receiver_endpoint=ENDPOINT,
        receiver=progress,
        path=PathReport(rtt_seconds=0.0602, rtt_minimum_seconds=0.06, loss_ratio=0.001) if decided else None,
        decision=decision if decided else None,
    )


FAR_AHEAD = CapExcess(Arrived(0.0, 0, 4), bits=1e15)
"""More has arrived than any cap allows: what the receiver measures now decides."""


def observe(job: TransferJob, *pods: MoverPod, reports: Reports | None = None, **fields: Any) -> Observed:
    return Observed(job=job, pods=pods, reports=reports or Reports(), **{"settings": SETTINGS, "excess": FAR_AHEAD, **fields})


def with_plan_applied(observed: Observed, plan: Plan) -> Observed:
    """What is observed once the plan's status and finalizer are written and before any pod has changed."""
    job = observed.job
    if plan.status is not None:
        job = job.model_copy(update={"status": TransferJobStatus.model_validate(plan.status.to_object())})
    if plan.finalizer is not None:
        finalizers = (names.FINALIZER,) if plan.finalizer else ()
        job = job.model_copy(update={"metadata": job.metadata.model_copy(update={"finalizers": finalizers})})
    return replace(observed, job=job)
