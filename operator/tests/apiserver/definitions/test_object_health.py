"""What kstatus, by its own library, and Argo CD, by our health script in its Lua interpreter gopher-lua, conclude of Fairlead's objects."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from control_plane import CHECKOUT

RECORDED: dict[str, dict[str, Any]] = json.loads((CHECKOUT / "operator" / "tests" / "recorded_jobs.json").read_text())
SCRIPT = (CHECKOUT / "docs" / "how-to" / "argo-cd" / "health.lua").read_text()
PROGRESSES = ("InProgress", "Progressing")
EXPECTED = {
    "not seen yet": ("Current", "Progressing"),
    "waits for a claim": PROGRESSES,
    "waits for a link": PROGRESSES,
    "needs permission": ("Failed", "Degraded"),
    "starting": PROGRESSES,
    "probing": PROGRESSES,
    "transferring": PROGRESSES,
    "verifying": PROGRESSES,
    "changed, not seen yet": PROGRESSES,
    "backing off": PROGRESSES,
    "suspended": ("Current", "Suspended"),
    "succeeded": ("Current", "Healthy"),
    "failed": ("Failed", "Degraded"),
    "being deleted": ("Terminating", "Progressing"),
}


def _judged(*objects: dict[str, Any]) -> list[dict[str, Any]]:
    program = CHECKOUT / "build" / "bin" / "object-health"
    assert program.exists(), f"{program} is missing: `make programs` builds it"
    request = json.dumps({"objects": objects, "script": SCRIPT})
    answer = subprocess.run([program], input=request, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    results: list[dict[str, Any]] = json.loads(answer.stdout)
    return results


def test_a_job_is_judged_by_the_state_of_its_life() -> None:
    found = dict(zip(RECORDED, _judged(*RECORDED.values()), strict=True))
    assert {name: (each["kstatus"]["status"], each["argoCD"]["status"]) for name, each in found.items()} == EXPECTED


def test_the_message_is_that_of_the_condition_which_decides() -> None:
    failed = json.loads(json.dumps(RECORDED["failed"]))
    for condition in failed["status"]["conditions"]:
        condition["message"] = f"message of {condition['type']}"
    (found,) = _judged(failed)
    assert (found["kstatus"]["message"], found["argoCD"]["message"]) == ("message of Stalled", "message of Failed")


@pytest.mark.parametrize("kind", ["FairnessPolicy", "NetworkPath", "DataTransferNode"])
@pytest.mark.parametrize(
    ("generation", "accepted", "expected"),
    [(1, "True", "Healthy"), (1, "False", "Degraded"), (2, "True", "Progressing"), (1, None, "Healthy")],
    ids=["accepted", "refused", "changed", "nothing to refuse"],
)
def test_other_kinds_are_judged_by_whether_they_are_accepted(kind: str, generation: int, accepted: str | None, expected: str) -> None:
    conditions = [] if accepted is None else [{"type": "Accepted", "status": accepted, "reason": "Valid", "message": "so it is"}]
    body = {
        "apiVersion": "fairlead.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "site", "generation": generation},
        "status": {"observedGeneration": 1, "conditions": conditions},
    }
    (found,) = _judged(body)
    assert found["argoCD"]["status"] == expected
