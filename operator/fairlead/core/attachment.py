"""What to do when a pod does not get its attachment. The operator may not read NetworkAttachmentDefinitions, so it says where to look."""

from __future__ import annotations

from fairlead.api.reasons import MoverReason
from fairlead.api.spec import Side
from fairlead.api.transferjob import TransferJob
from fairlead.core.model import MoverPod, Role, Verdict

_LACKS_INTERFACE = frozenset({MoverReason.INTERFACE_NOT_FOUND, MoverReason.ADDRESS_IN_USE})
"""Nobody else has ports in the pod: an address that cannot be bound is a link-local one, all that an attachment without IPAM has."""


def remedy(job: TransferJob, pod: MoverPod, verdict: Verdict) -> str:
    """What to add to the words of a mover that did not find its attachment; empty for every other failure and on other networks."""
    definition = _definition(job, pod)
    if definition is None or verdict.reason not in _LACKS_INTERFACE:
        return ""
    field, name = definition
    again = "" if verdict.retry else ", then create the job again"
    return (
        f"; {field} {name} has not become an interface with an address in the pod: check that NetworkAttachmentDefinition {name} is in"
        f" namespace {job.metadata.namespace} and has an ipam, and that Multus runs on node {pod.node}{again}"
    )


def suspicion(job: TransferJob, pod: MoverPod) -> str:
    """What may keep a placed pod from starting where nothing else is said of it; empty on other networks."""
    definition = _definition(job, pod)
    if definition is None or pod.node is None:
        return ""
    field, name = definition
    return (
        f"; if Multus cannot attach {field} {name}, `kubectl describe pod {pod.name}` says why: check that NetworkAttachmentDefinition"
        f" {name} is in namespace {job.metadata.namespace} and that its plugins work on node {pod.node}"
    )


def _definition(job: TransferJob, pod: MoverPod) -> tuple[str, str] | None:
    """The field that names the attachment of the pod's end, and the name."""
    ends: dict[Role, tuple[str, Side]] = {Role.SENDER: ("source", job.spec.source), Role.RECEIVER: ("destination", job.spec.destination)}
    if job.spec.network != "Attachment" or pod.role not in ends:
        return None
    end, side = ends[pod.role]
    return None if side.attachment is None else (f"{end}.attachment", side.attachment)
