"""Jobs in every state of their life as they are shown to other tools, recorded for the tests of those tools' judgement.

The record is written anew with `FAIRLEAD_RECORD=1`; without it the tests fail where the decisions have come to show something else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from job_builders import (
    NOW,
    SETTINGS,
    make_failure,
    make_job,
    make_progress,
    make_reports,
    make_verdict,
    observe,
    receiver,
    seconds,
    sender,
    with_plan_applied,
)

from fairlead.api.transferjob import TransferJob
from fairlead.api.transferjob.status import Phase
from fairlead.core.fairness.model import Admission, JobShare
from fairlead.core.lifecycle import decide
from fairlead.core.observed import ClaimFacts, Observed

RECORD = Path(__file__).parents[2] / "recorded_jobs.json"
NO_CLAIM = {"raw": ClaimFacts(exists=False)}


def _after(observed: Observed) -> TransferJob:
    return with_plan_applied(observed, decide(observed, NOW)).job


def _states() -> Mapping[str, TransferJob]:
    starting = _after(observe(make_job(finalizer=True)))
    probing = _after(observe(starting, receiver(), sender(), reports=make_reports()))
    moving = _after(observe(probing, receiver(), sender(), reports=make_reports(make_progress(400), decided=True)))
    verifying = _after(observe(moving, receiver(), sender(), reports=make_reports(make_progress(1000, stage="Verifying"), decided=True)))
    retried = make_failure("PeerLost", retry=True)
    waits = JobShare(Admission.WAITING, message="link wan is full: among the first 10 in its queue")
    outside = replace(SETTINGS, host_network_namespaces=frozenset())
    succeeded = _after(observe(make_job(finalizer=True), receiver(verdict=make_verdict())))
    newer = moving.metadata.model_copy(update={"generation": moving.metadata.generation + 1})
    deleted = moving.metadata.model_copy(update={"deletion_timestamp": NOW - seconds(1)})
    return {
        "not seen yet": make_job(),
        "waits for a claim": _after(observe(make_job(), claims=NO_CLAIM)),
        "waits for a link": _after(observe(make_job(), fairness=waits)),
        "needs permission": _after(observe(make_job(), settings=outside)),
        "starting": starting,
        "probing": probing,
        "transferring": moving,
        "verifying": verifying,
        "changed, not seen yet": moving.model_copy(update={"metadata": newer}),
        "backing off": _after(observe(moving, receiver(verdict=retried), sender(verdict=retried))),
        "suspended": _after(observe(make_job(suspend=True))),
        "succeeded": succeeded,
        "failed": _after(observe(make_job(finalizer=True), receiver(verdict=make_failure("DestinationFull", retry=False)))),
        "being deleted": moving.model_copy(update={"metadata": deleted}),
    }


def _shown(job: TransferJob) -> dict[str, Any]:
    """What tools judge by: the object without its spec, and of its status what every tool knows, without messages."""
    status = job.status.to_object()
    known = {key: status[key] for key in ("phase", "observedGeneration") if key in status}
    known["conditions"] = [{key: each[key] for key in ("type", "status", "reason")} for each in status.get("conditions", [])]
    metadata: dict[str, Any] = {"name": job.metadata.name, "namespace": job.metadata.namespace, "generation": job.metadata.generation}
    if job.metadata.deletion_timestamp is not None:
        metadata["deletionTimestamp"] = job.metadata.deletion_timestamp.strftime("%Y-%m-%dT%H:%M:%SZ")
    body: dict[str, Any] = {"apiVersion": "fairlead.io/v1alpha1", "kind": "TransferJob", "metadata": metadata}
    return body | ({"status": known} if known.get("conditions") else {})


def test_the_record_is_what_decisions_show() -> None:
    shown = {name: _shown(job) for name, job in _states().items()}
    if os.environ.get("FAIRLEAD_RECORD"):
        RECORD.write_text(json.dumps(shown, indent=1) + "\n")
    assert json.loads(RECORD.read_text()) == shown


def test_every_phase_is_recorded() -> None:
    phases = {job.status.phase for job in _states().values()}
    assert set(Phase.__args__) <= phases, "a phase is missing in the record"
