"""How `watch JOB` and `submit --wait` end when the job does not: deleted, or suspended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plugin_objects as objects
import pytest
from stub_api import Answer, Step, refused, stub_api

from fairlead.plugin.main import main

QUEUED = {"kueue.x-k8s.io/queue-name": "bulk"}
COPYING, OTHER = objects.copying("run42"), objects.copying("other")
SUSPENDED = objects.suspended("run42")
RESUMED_JUST_NOW = objects.suspended("run42", suspend=False)
HELD_BY_KUEUE = objects.suspended("run42", labels=QUEUED)
STILL_STOPPING = {**COPYING, "spec": {**COPYING["spec"], "suspend": True}}
DELETING = {**COPYING, "metadata": {**COPYING["metadata"], "deletionTimestamp": objects.SINCE}}
DONE, FAILED = objects.succeeded("run42"), objects.failed("run42")
DONE_AND_DELETING, FAILED_AND_DELETING = ({**ended, "metadata": DELETING["metadata"]} for ended in (DONE, FAILED))


def changed(*bodies: dict[str, Any]) -> list[Step]:
    return [("MODIFIED", body) for body in bodies]


GONE: Step = ("DELETED", DELETING)
OUTCOMES: dict[str, tuple[list[Step], int]] = {
    "succeeds": (changed(DONE), 0),
    "fails": (changed(FAILED), 3),
    "is deleted": ([*changed(DELETING), GONE], 5),
    "is suspended": (changed(STILL_STOPPING, SUSPENDED), 5),
    "was resumed a moment ago": (changed(RESUMED_JUST_NOW, DONE), 0),
    "is put aside by its queue and taken up again": (changed(HELD_BY_KUEUE, DONE), 0),
    "is deleted after its end": ([*changed(DONE), ("DELETED", DONE)], 0),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_job_that_is_watched_by_name(outcome: str, form: str, tmp_path: Path) -> None:
    steps, code = OUTCOMES[outcome]
    with stub_api(tmp_path, *steps, jobs=[COPYING]) as (_, kubeconfig):
        assert main(["watch", "run42", "-o", form, "--kubeconfig", str(kubeconfig)]) == code


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_job_that_is_submitted_and_waited_for(outcome: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps, code = OUTCOMES[outcome]
    with stub_api(tmp_path, *steps) as (api, kubeconfig):
        api.created_status = COPYING["status"]
        arguments = ("raw:run42", "scratch:run42", "--name=run42", "--wait", "-o", "json")
        assert main(["submit", *arguments, "--kubeconfig", str(kubeconfig)]) == code
    assert ("bio/run42 was deleted before it ended" in capsys.readouterr().err) is (outcome == "is deleted")


@pytest.mark.parametrize(("step", "code"), [(DONE, 0), (FAILED, 3)])
@pytest.mark.parametrize("answer", [refused(404, "NotFound", "run42 not found"), refused(503, "ServiceUnavailable", "etcd is away")])
def test_an_outcome_that_is_known_counts_though_nothing_more_can_be_read_of_the_job(
    step: dict[str, Any], code: int, answer: Answer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stub_api(tmp_path, *changed(step)) as (api, kubeconfig):
        api.created_status = COPYING["status"]
        api.refused_objects = {"run42": answer}
        assert main(["submit", "raw:run42", "scratch:run42", "--name=run42", "--wait", "--kubeconfig", str(kubeconfig)]) == code
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([*changed(SUSPENDED, objects.succeeded("other"))], 5),
        ([GONE, *changed(objects.succeeded("other"))], 5),
        ([GONE, *changed(objects.failed("other"))], 3),
        ([*changed(FAILED, FAILED_AND_DELETING, objects.succeeded("other"))], 3),
        ([*changed(FAILED, FAILED_AND_DELETING), ("DELETED", FAILED_AND_DELETING), *changed(objects.succeeded("other"))], 3),
        ([*changed(DONE, DONE_AND_DELETING), ("DELETED", DONE_AND_DELETING), *changed(objects.succeeded("other"))], 0),
        ([*changed(SUSPENDED, COPYING, objects.succeeded("other"), DONE)], 0),
    ],
)
def test_of_several_jobs_a_failure_counts_most_and_each_is_waited_for(steps: list[Step], code: int, tmp_path: Path) -> None:
    with stub_api(tmp_path, *steps, jobs=[COPYING, OTHER]) as (_, kubeconfig):
        assert main(["watch", "run42", "other", "--kubeconfig", str(kubeconfig)]) == code


def test_a_job_that_is_suspended_already_is_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with stub_api(tmp_path, jobs=[SUSPENDED]) as (_, kubeconfig):
        assert main(["watch", "run42", "--kubeconfig", str(kubeconfig)]) == 5
    assert "bio/run42 Suspended" in capsys.readouterr().out
