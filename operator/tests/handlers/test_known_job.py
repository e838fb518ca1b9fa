from __future__ import annotations

import json
from typing import Any

import pytest
from handler_objects import job_body

from fairlead.core.placement.model import EndPlacement
from fairlead.core.queueing import QUEUE_LABEL
from fairlead.handlers.known_job import KnownJob
from fairlead.handlers.usual_job import USUAL_JOB

UNDER_WAY = {
    "phase": "Transferring",
    "attemptStartTime": "2026-01-01T00:00:00Z",
    "placement": {end: {"node": node, "interfaces": ["data0"]} for end, node in (("source", "a"), ("destination", "b"))},
    "progress": {"bytesTransferred": 2**53 + 1, "files": ["naïve ☃"]},
}


def test_a_job_is_unpacked_as_it_was_without_its_managed_fields() -> None:
    body = {**job_body(labels={"team": "beamline"}), "status": UNDER_WAY}
    unpacked = KnownJob.of(body).body()
    metadata = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    assert unpacked == {"metadata": metadata, "spec": body["spec"], "status": UNDER_WAY}


def test_a_usual_job_is_packed_in_a_fraction_of_its_size() -> None:
    body = json.loads(json.dumps(USUAL_JOB).replace('"job"', '"another"').replace("dtn-0001", "node-b").replace("2026-01-01", "2026-12-24"))
    body["metadata"]["uid"] = "another-uid"
    known = KnownJob.of(body)
    assert known.body() == body
    assert len(known.packed) < 0.15 * len(json.dumps(body))


def test_who_changes_what_was_unpacked_changes_nobody_elses() -> None:
    known = KnownJob.of(job_body())
    known.body()["metadata"]["labels"] = {"changed": "yes"}
    known.body()["spec"].clear()
    assert known.body() == KnownJob.of(job_body()).body()


def pods_of(attempt: int) -> dict[str, Any]:
    return {"attempts": attempt, "pods": [{"attempt": attempt, "role": "receiver", "name": "job-receiver", "uid": "pod-uid"}]}


@pytest.mark.parametrize(("status", "phase", "is_new"), [(None, "", True), ({}, "", True), ({"conditions": []}, "", False)])
def test_a_job_is_new_until_its_status_is_written(status: dict[str, Any] | None, phase: str, is_new: bool) -> None:
    known = KnownJob.of({**job_body(), "status": status})
    assert (known.phase, known.is_new) == (phase, is_new)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, False),
        ({"phase": "Pending"}, False),
        ({**UNDER_WAY, "phase": "Pending"}, False),
        ({**UNDER_WAY, "phase": "Pending", **pods_of(1)}, True),
        ({**UNDER_WAY, "phase": "Probing", **pods_of(1)}, True),
        ({**UNDER_WAY, "phase": "Pending", **pods_of(1), "attempts": 2}, False),
        ({**UNDER_WAY, "phase": "Pending", **pods_of(1), "attemptStartTime": None}, False),
        ({**UNDER_WAY, **pods_of(1)}, False),
    ],
    ids=["new", "waits for its turn", "waits for ports", "begun", "measures the path", "waits for ports again", "pauses", "transfers"],
)
def test_a_job_comes_up_from_the_beginning_of_an_attempt_until_it_transfers(status: dict[str, Any], expected: bool) -> None:
    assert KnownJob.of({**job_body(), "status": status}).is_coming_up is expected


def test_what_is_asked_of_all_jobs_needs_no_unpacking() -> None:
    known = KnownJob.of({**job_body("one", "one-uid", labels={QUEUE_LABEL: "bulk"}), "status": UNDER_WAY})
    assert (known.namespace, known.name, known.uid, known.phase, known.queue) == ("lab", "one", "one-uid", "Transferring", "bulk")
    assert known.holding is not None
    assert known.holding.ends == (EndPlacement("a", ("data0",)), EndPlacement("b", ("data0",)))
    assert KnownJob.of(job_body()).holding is None
