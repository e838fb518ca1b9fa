"""Every metric of jobs, by its value for a job whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from handler_objects import job_body
from prometheus_client.registry import CollectorRegistry

from fairlead.api.transferjob import TransferJob, TransferJobStatus
from fairlead.core.cap_excess import Arrived, CapExcess
from fairlead.core.observed import MoverPod, Observed, PodPhase, Role
from fairlead.core.reports import MoverProgress, Reports, Verdict
from fairlead.handlers.cache import ObjectKey
from fairlead.handlers.job_metrics import JOB_COUNTERS, JOB_METRICS, JobMetrics

CREATED = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
KEY = ObjectKey("lab", "job")
JOB = {"namespace": "lab", "transferjob": "job"}
LAB = {"namespace": "lab"}


def at(seconds: float) -> datetime:
    return CREATED + timedelta(seconds=seconds)


def condition(kind: str, value: str, reason: str, seconds: float = 0.0) -> dict[str, Any]:
    return {"type": kind, "status": value, "reason": reason, "message": "", "lastTransitionTime": at(seconds), "observedGeneration": 1}


def status(phase: str | None = None, **fields: Any) -> TransferJobStatus:
    return TransferJobStatus.model_validate({"phase": phase, **fields})


DECISION = {
    "protocol": "TCP",
    "congestionControl": "bbr",
    "streams": 4,
    "abstained": False,
    "reason": "Classified",
    "background": {"class": "B1-C0"},
    "decidedAt": at(15),
}
TRANSFERRING = status(
    "Transferring",
    attempts=2,
    attemptStartTime=at(5),
    decision=DECISION,
    endpoints={"source": {"node": "dtn-a"}, "destination": {"node": "dtn-b"}},
    bandwidth={"allocated": "80M", "tenant": "physics", "boundBy": "Link", "bottleneck": "wan"},
)
ARRIVED = MoverProgress(
    stage="Transferring",
    bytes_total=1000,
    bytes_transferred=700,
    bytes_skipped=50,
    files_total=1,
    files_transferred=0,
    files_skipped=0,
    rate_bytes_per_second=40.0,
    bytes_resumed=200,
    blocks_damaged=3,
)
EXCESS = CapExcess(Arrived(0.0, 500, 4), bits=2.0, allowed_bits=1.0)


class Watched:
    """A job that passes are made over."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.leads = True
        self.metrics = JobMetrics(self.registry, lambda: self.leads)
        self.status = status()
        self.spec: dict[str, Any] = {}

    def see(self, seconds: float, wanted: TransferJobStatus | None = None, **facts: Any) -> None:
        self.metrics.note(self.observed(**facts), wanted, at(seconds))
        self.status = wanted if wanted is not None else self.status

    def observed(self, **facts: Any) -> Observed:
        body = job_body()
        job = TransferJob.from_object({**body, "spec": {**body["spec"], **self.spec}})
        return Observed(job=job.model_copy(update={"status": self.status}), **facts)

    def counted(self, name: str) -> float | None:
        return self.value(f"fairlead_operator_{name}", LAB)

    def value(self, name: str, labels: Mapping[str, str] = JOB) -> float | None:
        return self.registry.get_sample_value(name, dict(labels))

    def transfer(self) -> None:
        """Ten seconds of waiting, ten of probing, then data for five, above the cap for the last two."""
        self.spec = {"bandwidth": {"limit": "160M", "guarantee": "8M"}}
        self.see(0, status("Pending", conditions=[condition("Scheduled", "False", "NoSlotFree")]))
        self.see(10, status("Probing", attempts=2, attemptStartTime=at(5)))
        self.see(20, TRANSFERRING)
        self.see(23, reports=Reports(receiver=ARRIVED))
        self.see(25, reports=Reports(receiver=ARRIVED), excess=EXCESS)


@pytest.fixture
def job() -> Watched:
    return Watched()


def test_a_running_job_s_series_are_what_it_was_given_and_does(job: Watched) -> None:
    job.transfer()
    given = {
        "tenant": "physics",
        "source_node": "dtn-a",
        "destination_node": "dtn-b",
        "protocol": "TCP",
        "congestion_control": "bbr",
        "background": "B1-C0",
        "decision": "Classified",
    }
    expected: dict[str, tuple[dict[str, str], float]] = {
        "fairlead_job_info": (given, 1),
        "fairlead_job_phase": ({"phase": "Transferring"}, 1),
        "fairlead_job_phase_start_timestamp_seconds": ({}, at(20).timestamp()),
        "fairlead_job_created_timestamp_seconds": ({}, CREATED.timestamp()),
        "fairlead_job_bound": ({"by": "Link", "link": "wan"}, 1),
        "fairlead_job_asked_bytes_per_second": ({}, 160e6 / 8),
        "fairlead_job_guaranteed_bytes_per_second": ({}, 8e6 / 8),
        "fairlead_job_allocated_bytes_per_second": ({}, 80e6 / 8),
        "fairlead_job_measured_bytes_per_second": ({}, 40),
        "fairlead_job_bytes": ({}, 1000),
        "fairlead_job_delivered_bytes": ({}, 750),
        "fairlead_job_last_progress_timestamp_seconds": ({}, at(23).timestamp()),
        "fairlead_job_attempts": ({}, 2),
        "fairlead_job_cap_exceeded_seconds_total": ({}, 2),
    }
    for name, (labels, value) in expected.items():
        assert job.value(name, JOB | labels) == pytest.approx(value), name
    waiting = {"fairlead_job_waiting"}
    assert expected.keys() | waiting == {described.name for described in JOB_METRICS}


def test_a_job_that_waits_says_for_what(job: Watched) -> None:
    job.see(0, status("Pending", conditions=[condition("Scheduled", "False", "NoSlotFree")]))
    assert job.value("fairlead_job_waiting", JOB | {"reason": "NoSlotFree"}) == 1
    job.see(5, status("Probing", conditions=[condition("Scheduled", "True", "PodsScheduled")]))
    assert job.value("fairlead_job_waiting", JOB | {"reason": "NoSlotFree"}) is None


def test_counters_add_up_what_jobs_did_and_outlive_them(job: Watched) -> None:
    job.transfer()
    failure = {"attempt": 2, "reason": "PeerLost", "message": "", "time": at(30)}
    ended = [condition("Failed", "True", "PeerLost")]
    job.see(30, status("Failed", attempts=2, lastFailure=failure, decision=DECISION, conditions=ended), reports=Reports(receiver=ARRIVED))
    expected: dict[str, tuple[dict[str, str], float]] = {
        "fairlead_operator_jobs_finished_total": (LAB | {"outcome": "Failed", "reason": "PeerLost"}, 1),
        "fairlead_operator_attempts_failed_total": (LAB | {"reason": "PeerLost"}, 1),
        "fairlead_operator_resumes_total": (LAB, 1),
        "fairlead_operator_damaged_blocks_total": (LAB, 3),
        "fairlead_operator_delivered_bytes_total": (LAB, 500),
        "fairlead_operator_cap_exceeded_seconds_total": (LAB, 2),
        "fairlead_operator_decisions_total": ({"reason": "Classified", "background": "B1-C0", "congestion_control": "bbr"}, 1),
    }
    for name, (labels, value) in expected.items():
        assert job.value(name, labels) == value, name
    durations = {"Pending": 10.0, "Probing": 10.0, "Transferring": 10.0}
    for phase, seconds in durations.items():
        assert job.value("fairlead_operator_job_phase_duration_seconds_sum", {"phase": phase}) == seconds
        assert job.value("fairlead_operator_job_phase_duration_seconds_count", {"phase": phase}) == 1
    assert expected.keys() | {"fairlead_operator_job_phase_duration_seconds"} == {described.name for described in JOB_COUNTERS}


def test_a_job_s_series_vanish_with_its_end_and_with_the_job(job: Watched) -> None:
    job.transfer()
    job.metrics.drop(KEY)
    assert not [sample for family in job.metrics.collect() for sample in family.samples]
    job.see(26)
    assert job.value("fairlead_job_attempts") == 2
    job.see(27, status("Succeeded", conditions=[condition("Succeeded", "True", "Verified")]))
    assert not [sample for family in job.metrics.collect() for sample in family.samples]
    job.see(28)
    assert job.value("fairlead_job_attempts") is None


def test_the_verdict_counts_what_no_poll_saw(job: Watched) -> None:
    job.see(0, status("Pending"))
    job.see(5, status("Transferring", attempts=1, attemptStartTime=at(5)))
    verdict = Verdict("job-uid", 1, "Succeeded", "Verified", "", retry=False, bytes_transferred=900, bytes_resumed=100, blocks_damaged=1)
    receiver = MoverPod("r", "u", "1", Role.RECEIVER, 1, PodPhase.SUCCEEDED, False, False, CREATED, "dtn-b", None, None, verdict)
    ended = status("Succeeded", attempts=1, conditions=[condition("Succeeded", "True", "Verified")])
    job.see(9, ended, pods=(receiver,))
    assert job.value("fairlead_operator_delivered_bytes_total", LAB) == 800
    assert job.value("fairlead_operator_damaged_blocks_total", LAB) == 1
    assert job.value("fairlead_operator_resumes_total", LAB) == 1


def test_another_job_s_verdict_counts_nothing(job: Watched) -> None:
    job.see(0, status("Pending"))
    verdict = Verdict("other-uid", 1, "Succeeded", "Verified", "", retry=False, bytes_transferred=900)
    receiver = MoverPod("r", "u", "1", Role.RECEIVER, 1, PodPhase.SUCCEEDED, False, False, CREATED, "dtn-b", None, None, verdict)
    job.see(9, status("Transferring", attempts=1), pods=(receiver,))
    assert job.value("fairlead_operator_delivered_bytes_total", LAB) == 0


def test_after_a_restart_nothing_is_counted_twice(job: Watched) -> None:
    job.status = TRANSFERRING
    job.see(40, reports=Reports(receiver=ARRIVED))
    assert job.value("fairlead_operator_delivered_bytes_total", LAB) == 0
    assert job.value("fairlead_operator_decisions_total", {"reason": "Classified", "background": "B1-C0", "congestion_control": "bbr"}) == 0
    job.see(43, reports=Reports(receiver=replace(ARRIVED, bytes_transferred=730)))
    assert job.value("fairlead_operator_delivered_bytes_total", LAB) == 30
    job.see(50, status("Verifying", attempts=2))
    # When it began to transfer is not known exactly.
    assert job.value("fairlead_operator_job_phase_duration_seconds_count", {"phase": "Transferring"}) is None


NEWS = ("delivered_bytes_total", "damaged_blocks_total", "resumes_total")


def test_what_an_attempt_did_before_the_first_report_that_this_operator_sees_is_not_counted(job: Watched) -> None:
    job.status = TRANSFERRING
    # No mover has been asked yet.
    job.see(40)
    job.see(42, reports=Reports(receiver=ARRIVED))
    assert [job.counted(name) for name in NEWS] == [0, 0, 0]
    job.see(45, reports=Reports(receiver=replace(ARRIVED, bytes_transferred=730, blocks_damaged=4)))
    assert [job.counted(name) for name in NEWS] == [30, 1, 0]


def test_the_verdict_of_an_attempt_that_ended_before_the_operator_began_counts_nothing(job: Watched) -> None:
    job.status = status("Pending", attempts=1)
    verdict = Verdict("job-uid", 1, "Failed", "PeerLost", "", retry=True, bytes_transferred=900, bytes_resumed=100, blocks_damaged=1)
    receiver = MoverPod("r", "u", "1", Role.RECEIVER, 1, PodPhase.FAILED, False, False, CREATED, "dtn-b", None, None, verdict)
    job.see(40, pods=(receiver,))
    assert [job.counted(name) for name in NEWS] == [0, 0, 0]


def test_the_next_attempt_after_one_of_another_operator_counts_from_nought(job: Watched) -> None:
    job.status = TRANSFERRING
    job.see(40, status("Pending", attempts=2))
    job.see(45, status("Probing", attempts=3, attemptStartTime=at(45)))
    job.see(50, reports=Reports(receiver=ARRIVED))
    assert [job.counted(name) for name in NEWS] == [500, 3, 1]


def test_an_attempt_that_a_pass_began_before_it_failed_counts_from_nought(job: Watched) -> None:
    job.metrics.meet(job.observed(), at(0))
    # The attempt is begun, then something else cannot be written: `note` does not hear of the pass.
    job.status = TRANSFERRING
    job.see(3, reports=Reports(receiver=ARRIVED))
    assert [job.counted(name) for name in NEWS] == [500, 3, 1]


def test_an_operator_that_does_not_lead_shows_no_job_and_what_it_counted(job: Watched) -> None:
    job.transfer()
    job.leads = False
    assert list(job.metrics.collect()) == []
    assert job.value("fairlead_job_attempts") is None
    assert [job.counted(name) for name in NEWS] == [500, 3, 1]
    job.leads = True
    assert job.value("fairlead_job_attempts") == 2


PROGRESS = "fairlead_job_last_progress_timestamp_seconds"


def test_movers_that_read_and_compare_files_make_progress_though_nothing_arrives(job: Watched) -> None:
    job.transfer()
    reading = replace(ARRIVED, seconds_since_progress=0.5)
    waiting = replace(ARRIVED, seconds_since_progress=200.0)
    job.see(400, reports=Reports(receiver=waiting, sender=reading, sender_age_seconds=2.0))
    assert job.value(PROGRESS) == at(397.5).timestamp()
    # They stop: the time stays.
    waiting, reading = replace(waiting, seconds_since_progress=230.0), replace(reading, seconds_since_progress=32.5)
    job.see(430, reports=Reports(receiver=waiting, sender=reading))
    assert job.value(PROGRESS) == at(397.5).timestamp()


def test_what_arrives_is_progress_whatever_the_movers_say_and_where_they_say_nothing(job: Watched) -> None:
    job.transfer()
    job.see(40, reports=Reports(receiver=replace(ARRIVED, bytes_transferred=710, seconds_since_progress=5.0)))
    assert job.value(PROGRESS) == at(40).timestamp()
    job.see(50, reports=Reports(receiver=replace(ARRIVED, bytes_transferred=720)))
    assert job.value(PROGRESS) == at(50).timestamp()
    job.see(60, reports=Reports(receiver=replace(ARRIVED, bytes_transferred=720)))
    assert job.value(PROGRESS) == at(50).timestamp()


def test_counters_begin_at_nought_before_there_is_anything_to_count(job: Watched) -> None:
    """Prometheus sees no increase in a counter's first sample: the first damaged block would be missed."""
    assert job.value("fairlead_operator_damaged_blocks_total", LAB) is None
    job.see(0, status("Pending"))
    for name in ("resumes_total", "damaged_blocks_total", "delivered_bytes_total", "cap_exceeded_seconds_total"):
        assert job.value(f"fairlead_operator_{name}", LAB) == 0, name
    assert job.value("fairlead_operator_jobs_finished_total", LAB | {"outcome": "Succeeded", "reason": "Verified"}) == 0
    abstained = {"reason": "NoModel", "background": "None", "congestion_control": "cubic"}
    assert job.value("fairlead_operator_decisions_total", abstained) == 0


@pytest.mark.parametrize("control", ["lp", "highspeed", "dctcp-reno", "ledbat++", "udt"])
def test_a_decision_counts_by_its_congestion_control_whatever_protocol_has_it(job: Watched, control: str) -> None:
    job.see(0, status("Pending"))
    job.see(
        3, status("Probing", attempts=1, decision=DECISION | {"reason": "UserChoice", "congestionControl": control, "background": None})
    )
    labels = {"reason": "UserChoice", "background": "None", "congestion_control": control}
    assert job.value("fairlead_operator_decisions_total", labels) == 1


def test_what_movers_report_makes_no_label_of_its_own(job: Watched) -> None:
    job.see(0, status("Pending"))
    odd = DECISION | {"reason": "Made", "congestionControl": "up", "background": {"class": "X"}}
    failure = {"attempt": 1, "reason": "Invented", "message": "", "time": at(3)}
    job.see(3, status("Probing", attempts=1, decision=odd, lastFailure=failure))
    assert job.value("fairlead_operator_decisions_total", dict.fromkeys(("reason", "background", "congestion_control"), "Other")) == 1
    assert job.value("fairlead_operator_attempts_failed_total", LAB | {"reason": "Other"}) == 1


def test_a_job_that_was_finished_before_the_operator_began_has_no_series(job: Watched) -> None:
    job.status = status("Succeeded", conditions=[condition("Succeeded", "True", "Verified")])
    job.see(0)
    assert job.value("fairlead_job_attempts") is None
    assert job.value("fairlead_operator_jobs_finished_total", LAB | {"outcome": "Succeeded", "reason": "Verified"}) is None


def test_a_job_made_anew_under_the_same_name_begins_anew(job: Watched) -> None:
    job.transfer()
    again = TransferJob.from_object(job_body(uid="other-uid"))
    job.metrics.note(Observed(job=again), status("Pending"), at(60))
    assert job.value("fairlead_job_attempts") == 0
    assert job.value("fairlead_job_cap_exceeded_seconds_total") == 0
