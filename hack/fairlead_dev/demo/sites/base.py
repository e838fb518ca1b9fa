"""What the demo asks of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from fairlead_dev.clients.kubectl import CommandError, Kubectl, Object
from fairlead_dev.clients.release import DEMO_NAMESPACE
from fairlead_dev.demo.outcome import DemoError
from fairlead_dev.demo.progress import LinkSample
from fairlead_dev.trees.listing import Listing

NAMESPACE = DEMO_NAMESPACE
JOB = "run42"
FOLDER = "run42"
MARK = "fairlead.io/demo"
"""The label of what the demo makes. It deletes nothing without it."""


class SiteEnd(StrEnum):
    """The two ends of the transfer; the value is the claim's name in transferjob.yaml."""

    SOURCE = "raw"
    DESTINATION = "scratch"


@dataclass(frozen=True, slots=True)
class TreeSize:
    """How much the source holds."""

    bytes_total: int
    files: int

    def arguments(self) -> tuple[str, ...]:
        """For `python3 -m trees survey DIRECTORY`."""
        return ("--bytes", str(self.bytes_total), "--files", str(self.files))


class Site(Protocol):
    """A cluster to demonstrate on. Every method raises CommandError or DemoError where it cannot do its part."""

    link_mbps: int | None
    """The link's rate in Mb/s where it is known."""

    @property
    def kubectl(self) -> Kubectl:
        """kubectl for this cluster."""
        ...

    def start(self) -> None:
        """Brings the cluster up with the project's images on its nodes. Refuses a namespace of the demo's name that is somebody else's."""
        ...

    def install(self) -> None:
        """Installs or upgrades the chart and waits until the operator is ready."""
        ...

    def clear(self) -> None:
        """Removes what an earlier run of the demo left."""
        ...

    def lay_out(self, size: TreeSize) -> None:
        """Makes the namespace, both volumes with their claims and the source tree."""
        ...

    def apply_job(self) -> None:
        """Applies transferjob.yaml."""
        ...

    def list_tree(self, end: SiteEnd) -> Listing:
        """Lists one end's tree without the mover's help."""
        ...

    def link_sample(self) -> LinkSample | None:
        """What the link has carried so far, where it is counted."""
        ...


def marked(made: Object) -> Object:
    """The object with the demo's label."""
    metadata = made["metadata"]
    return {**made, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), MARK: "true"}}}


def make_namespace(kubectl: Kubectl) -> None:
    """Makes the demo's namespace, which must not be there: another one's would be taken for the demo's own by its label."""
    kubectl.create(marked({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))


def refuse_other_namespace(kubectl: Kubectl) -> bool:
    """Whether the demo's namespace is there. Raises DemoError where somebody else made the one of its name."""
    found = kubectl.get("namespace", NAMESPACE)
    if found is not None and MARK not in found["metadata"].get("labels", {}):
        raise DemoError(
            f"the cluster has a namespace {NAMESPACE} that the demo did not make (it lacks the label {MARK}), and which the demo would "
            "delete with all that is in it; use another cluster for the demo, or, if nobody needs the namespace, "
            f"`kubectl delete namespace {NAMESPACE}`"
        )
    return found is not None


def remove_namespace(kubectl: Kubectl) -> None:
    """Deletes the demo's jobs and then its namespace, so that the operator can clean up behind its jobs. Raises DemoError for another's."""
    if not refuse_other_namespace(kubectl):
        return
    jobs = [job["metadata"]["name"] for job in _jobs(kubectl)]
    kubectl.delete("transferjobs", jobs, namespace=NAMESPACE, wait_s=120)
    kubectl.delete("namespace", [NAMESPACE], wait_s=120)


def _jobs(kubectl: Kubectl) -> Iterator[dict[str, dict[str, str]]]:
    try:
        yield from kubectl.list("transferjobs", namespace=NAMESPACE)
    except CommandError as error:
        # Without the CRD there are no jobs; anything else is worth knowing.
        if "the server doesn't have a resource type" not in error.stderr:
            raise
