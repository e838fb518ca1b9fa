"""What the API server refuses at apply, with a message that names the field and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.lib.lab import refusal
from e2e.lib.manifests import DESTINATION_CLAIM, DESTINATION_NODE, FOLDER, transfer_job
from e2e.lib.waiting import wait_until
from fairlead_dev.clients.kubectl import CommandError, Kubectl

SAME_AS_DESTINATION = {
    "node": DESTINATION_NODE,
    "volume": {"persistentVolumeClaim": {"claimName": DESTINATION_CLAIM}},
    "path": FOLDER,
}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"source": {"path": "../elsewhere"}}, "path must not have the component '..'"),
        ({"destination": {"path": "a/../../b"}}, "path must not have the component '..'"),
        ({"source": {"path": "/etc"}}, "remove the leading '/'"),
        ({"source": SAME_AS_DESTINATION}, "same directory"),
        ({"source": {**SAME_AS_DESTINATION, "path": f"{FOLDER}/inside"}}, "one lies in the other"),
        ({"transport": {"streams": {"min": 8, "max": 4}}}, "lower min or raise max"),
        ({"transport": {"encryption": "Some"}}, "Unsupported value"),
        ({"network": "Attachment"}, "needs source.attachment and destination.attachment"),
        ({"bandwidth": {"limit": "fast"}}, "bandwidth.limit"),
        ({"bandwidth": {"limit": "1k"}}, "between 64k and 10T"),
        ({"data": {"overwrite": "Sometimes"}}, "Unsupported value"),
        ({"securityContext": {"runAsUser": 0}}, "never run as root"),
        ({"source": {"nod": "dtn-a"}}, "nod"),
        ({"source": None}, "spec.source"),
    ],
    ids=[
        "path upwards",
        "path upwards inside",
        "absolute path",
        "same source and destination",
        "source inside the destination",
        "streams",
        "encryption",
        "network",
        "limit not a number",
        "limit too low",
        "overwrite",
        "root",
        "misspelt field",
        "no source",
    ],
)
def test_a_job_that_cannot_work_is_refused_at_apply(kubectl: Kubectl, admission_namespace: str, spec: dict[str, Any], message: str) -> None:
    said = refusal(kubectl, transfer_job(admission_namespace, **spec))
    assert said is not None, "the API server took it"
    assert message in said


def test_a_job_that_can_work_is_taken(kubectl: Kubectl, admission_namespace: str) -> None:
    assert refusal(kubectl, transfer_job(admission_namespace)) is None


def test_where_the_files_are_cannot_be_changed_later(kubectl: Kubectl, admission_namespace: str) -> None:
    kubectl.apply(transfer_job(admission_namespace, name="immutable", suspend=True))
    try:
        with pytest.raises(CommandError, match="source"):
            kubectl.patch("transferjob", "immutable", {"spec": {"source": {"path": "other"}}}, namespace=admission_namespace)
    finally:
        kubectl.delete("transferjob", ["immutable"], namespace=admission_namespace)


def test_a_namespace_without_the_privilege_is_refused_with_the_remedy(kubectl: Kubectl, installed: None) -> None:
    def said() -> str | None:
        return refusal(kubectl, transfer_job("default"))

    # A policy takes effect a moment after it was made.
    assert "hostNetwork.namespaces" in (wait_until(said, "the refusal") or "")
