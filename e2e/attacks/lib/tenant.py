"""A tenant of the local cluster with every right in one namespace: what it is refused, a policy or a rule refuses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from e2e.lib.lab import Lab
from e2e.lib.waiting import wait_until
from fairlead.api import names
from fairlead_dev.clients.kubectl import CommandError, Object
from fairlead_dev.clients.volumes import MOVER_ID

TENANT = "mallory"
IMAGE = "localhost/fairlead-advisor:dev"
"""An image with Python that every node has."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server said to a command of kubectl."""

    accepted: bool
    text: str

    @property
    def refused_by_policy(self) -> bool:
        """Whether an admission policy refused it, rather than missing rights or a malformed request."""
        return not self.accepted and "ValidatingAdmissionPolicy" in self.text


class Tenant:
    """kubectl as this user in the namespace of a lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        lab.kubectl.run("create", "rolebinding", TENANT, "--clusterrole=cluster-admin", f"--user={TENANT}", namespace=lab.namespace)

    def does(self, *arguments: str, stdin: Object | None = None) -> Answer:
        """The answer to a command."""
        return answer(self.lab, f"--as={TENANT}", "--as-group=system:authenticated", *arguments, stdin=stdin)

    def creates(self, manifest: Object) -> Answer:
        """The answer to the creation of an object."""
        return self.does("create", "-f", "-", stdin=manifest)


def answer(lab: Lab, *arguments: str, stdin: Object | None = None) -> Answer:
    """The answer to a command of the administrator in the lab's namespace."""
    try:
        text = lab.kubectl.run(*arguments, namespace=lab.namespace, stdin=None if stdin is None else json.dumps(stdin))
    except CommandError as error:
        return Answer(accepted=False, text=error.stderr.strip())
    return Answer(accepted=True, text=text.strip())


def pod(name: str, node: str, script: str, **spec: Any) -> Object:
    """A pod on a node that runs a Python script as the movers' user; `spec` is merged into its spec."""
    container: Object = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", script],
        "securityContext": {"runAsUser": MOVER_ID, "runAsGroup": MOVER_ID, "allowPrivilegeEscalation": False},
    }
    placed: Object = {"nodeSelector": {"kubernetes.io/hostname": node}, "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**placed, "containers": [container], **spec}}


def as_mover_of(job: Object, role: str, attempt: int, imitated: Object) -> Object:
    """The pod with the name, labels and owner that a mover of the job has."""
    metadata = job["metadata"]
    uid = metadata["uid"]
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": metadata["name"], "uid": uid, "controller": True}
    labels = {
        names.LABEL_NAME: names.NAME,
        names.LABEL_COMPONENT: names.COMPONENT_MOVER,
        names.LABEL_MANAGED_BY: names.MANAGER,
        names.LABEL_JOB_UID: uid,
        names.LABEL_ROLE: role,
        names.LABEL_ATTEMPT: str(attempt),
    }
    own = {"name": names.child_name(metadata["name"], uid, role, attempt), "labels": labels, "ownerReferences": [owner]}
    return {**imitated, "metadata": own}


def wait_output(lab: Lab, name: str, text: str, container: str = "main") -> str:
    """What a container of a pod printed, as soon as it has printed `text`."""

    def printed() -> str | None:
        said = lab.kubectl.run("logs", name, "-c", container, namespace=lab.namespace)
        return said if text in said else None

    return wait_until(printed, f"{text} of pod {name}", not_yet=(CommandError,))
