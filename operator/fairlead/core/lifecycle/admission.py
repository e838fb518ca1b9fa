"""Whether a job can run as it is written, in the namespace, on the nodes and with the claims that there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_interface

from fairlead.api.reasons import ConditionType, Reason
from fairlead.api.shared.quantity import RateError
from fairlead.api.transferjob.spec import Side
from fairlead.core.attachments import FASTEST_BUCKET_BPS, rate_refusal
from fairlead.core.fairness.model import Admission
from fairlead.core.lifecycle.report import bucket_of, cap_of, receiver_cap_of
from fairlead.core.network import traits_of
from fairlead.core.observed import Observed
from fairlead.core.placement.model import Waits

FOR_LINKS = frozenset({Reason.WAITING_FOR_LINK, Reason.GUARANTEE_TOO_LARGE})
"""What keeps a job from running where nothing but shared links does."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps a job from running.

    `condition` is the one that turns False. `terminal`: waiting cannot help. `needs_person`: the job waits for somebody to act.
    """

    reason: Reason
    message: str
    condition: ConditionType = ConditionType.ACCEPTED
    terminal: bool = False
    needs_person: bool = False


def withdrawn_permission(observed: Observed) -> Obstacle | None:
    """The obstacle that stops even an attempt under way: the namespace may not, or no longer, do what the job asks for."""
    return _host_network(observed) or foreign_identity(observed)


def foreign_identity(observed: Observed) -> Obstacle | None:
    """The obstacle of a job with a user or group ID that an administrator does not allow in its namespace."""
    job = observed.job
    namespace = job.metadata.namespace
    violation = observed.settings.identities.of(namespace).violation(job.spec.security_context)
    if violation is None:
        return None
    return Obstacle(
        Reason.IDENTITY_NOT_ALLOWED,
        f"{violation} in namespace {namespace}: create a job with an allowed ID,"
        " or ask an administrator to widen the chart value identities",
        needs_person=True,
    )


def _host_network(observed: Observed) -> Obstacle | None:
    namespace = observed.job.metadata.namespace
    if not traits_of(observed.job).uses_node_interfaces or observed.settings.allows_host_network(namespace):
        return None
    return Obstacle(
        Reason.HOST_NETWORK_NOT_ALLOWED,
        f"namespace {namespace} may not use the nodes' network: ask an administrator to add it to the chart value hostNetwork.namespaces,"
        " or create the job with network Pod or Attachment",
        needs_person=True,
    )


def obstacle_to_start(observed: Observed) -> Obstacle | None:
    """The first thing that keeps a new attempt from being started, None if it may start."""
    checks: tuple[Callable[[Observed], Obstacle | None], ...] = (
        # First, as it counts at the first look alone: no other obstacle may hide a node that was never there.
        _missing_node,
        _contradiction,
        withdrawn_permission,
        _claim,
        _node_not_ready,
        _attachment_refuses_rate,
        _destination_in_use,
        _no_place,
        _no_room_on_a_link,
    )
    return next((obstacle for check in checks if (obstacle := check(observed)) is not None), None)


def may_use_links(observed: Observed) -> bool:
    """Whether the shared links have room for the job, or nobody shares any."""
    return observed.job.spec.preflight_only or observed.fairness is None or observed.fairness.admission is Admission.ADMITTED


def _sides(observed: Observed) -> tuple[tuple[str, Side], tuple[str, Side]]:
    spec = observed.job.spec
    return ("source", spec.source), ("destination", spec.destination)


def _contradiction(observed: Observed) -> Obstacle | None:
    """What the API server's own rules refuse; checked again for objects stored before those rules."""
    spec = observed.job.spec
    for name, side in _sides(observed):
        if side.path.startswith("/") or ".." in side.path.split("/"):
            return Obstacle(Reason.INVALID_SPEC, f"{name}.path must be relative and without '..': create a corrected job", terminal=True)
        if traits_of(observed.job).needs_attachment and not side.named_attachments:
            message = f"{name}.attachment is missing, which network Attachment needs: create a corrected job"
            return Obstacle(Reason.INVALID_SPEC, message, terminal=True)
        wrong = next((text for text in side.attachment_addresses or () if not _is_interface_address(text)), None)
        if wrong is not None:
            message = f"{name}.attachmentAddresses: {wrong} is no address with a prefix length: create a corrected job"
            return Obstacle(Reason.INVALID_SPEC, message, terminal=True)
    if spec.source.claim_name == spec.destination.claim_name:
        source, destination = _directory(spec.source), _directory(spec.destination)
        if source.startswith(destination) or destination.startswith(source):
            message = "source and destination are the same directory, or one lies in the other: change path or claimName of one of them"
            return Obstacle(Reason.SAME_DIRECTORY, message, terminal=True)
    try:
        limit_bps = spec.bandwidth.limit_bps if spec.bandwidth else None
        guarantee_bps = spec.bandwidth.guarantee_bps if spec.bandwidth else 0
    except RateError as error:
        return Obstacle(Reason.INVALID_SPEC, f"bandwidth: {error}", needs_person=True)
    if limit_bps is not None and guarantee_bps > limit_bps:
        message = "bandwidth.guarantee must not exceed bandwidth.limit: lower guarantee or raise limit"
        return Obstacle(Reason.INVALID_SPEC, message, needs_person=True)
    return None


def _is_interface_address(text: str) -> bool:
    try:
        ip_interface(text)
    except ValueError:
        return False
    return "/" in text


def _directory(side: Side) -> str:
    return side.path if not side.path or side.path.endswith("/") else f"{side.path}/"


def _missing_node(observed: Observed) -> Obstacle | None:
    if observed.job.status.condition(ConditionType.ACCEPTED) is not None:
        # It was there when the job was first looked at: a node that is set up anew comes back under its name, and the job waits for that
        # as for one that is not ready, whatever else is missing meanwhile.
        return None
    for name, side in _sides(observed):
        facts = observed.nodes.get(side.node or "")
        if side.node and facts is not None and not facts.exists:
            message = f"{name}.node: there is no node {side.node} in the cluster: create a job that names one of `kubectl get nodes`"
            return Obstacle(Reason.NODE_NOT_FOUND, message, terminal=True)
    return None


def _claim(observed: Observed) -> Obstacle | None:
    namespace = observed.job.metadata.namespace
    for name, side in _sides(observed):
        claim = side.claim_name
        facts = observed.claims.get(claim)
        if facts is None:
            continue
        if not facts.exists:
            message = f"{name}.volume: there is no PersistentVolumeClaim {claim} in namespace {namespace}: create it; the job waits"
            return Obstacle(Reason.CLAIM_NOT_FOUND, message)
        if side.node and facts.node and side.node != facts.node:
            message = (
                f"{name}.node is {side.node}, but the volume of claim {claim} lives on node {facts.node}: create a job that names that node"
            )
            return Obstacle(Reason.CLAIM_ON_OTHER_NODE, message, needs_person=True)
    return None


def _node_not_ready(observed: Observed) -> Obstacle | None:
    for name, side in _sides(observed):
        node = side.node or observed.claim_node(side)
        facts = observed.nodes.get(node or "")
        if facts is not None and not facts.ready:
            message = f"{name}.node: node {node} is {'not ready' if facts.exists else 'not in the cluster any more'}; the job waits for it"
            if side.node is None:
                message = f"{name}.volume: claim {side.claim_name} lives on node {node}, which is not ready or gone; the job waits for it"
            return Obstacle(Reason.NODE_NOT_READY, message, condition=ConditionType.SCHEDULED)
    return None


def _attachment_refuses_rate(observed: Observed) -> Obstacle | None:
    """The obstacle of a pod that would ask its attachment for a rate which it refuses: Multus says so once there is a pod."""
    wanted, share = observed.job.spec.bandwidth, observed.fairness
    caps = {"source": cap_of(observed), "destination": receiver_cap_of(observed)}
    told = observed.job.status.condition(ConditionType.ACCEPTED)
    # Links give a rate to who is admitted alone, and who is kept from starting asks for no admission: until then it is as it was found.
    awaits_links = share is not None and share.admission is not Admission.ADMITTED
    for end, side in _sides(observed):
        refusing = next((name for name in side.named_attachments if name in observed.attachments), None)
        if refusing is None:
            continue
        has_limit = wanted is not None and wanted.limit is not None
        message = rate_refusal(end, side, refusing, observed.attachments[refusing], has_limit=has_limit)
        was_told = told is not None and told.reason == Reason.ATTACHMENT_REFUSES_RATE and told.message == message
        rate_bps = bucket_of(observed, caps[end])
        if (rate_bps is not None and rate_bps <= FASTEST_BUCKET_BPS) or (awaits_links and was_told):
            return Obstacle(Reason.ATTACHMENT_REFUSES_RATE, message, needs_person=True)
    return None


def _destination_in_use(observed: Observed) -> Obstacle | None:
    if observed.destination_writer is None:
        return None
    return Obstacle(
        Reason.DESTINATION_IN_USE,
        f"destination.path: job {observed.destination_writer} writes to the same directory, or to one in or above it, and goes first: this"
        " job starts when that one has ended; suspend or delete it to start at once, or create this job with another destination.path",
        condition=ConditionType.SCHEDULED,
    )


def _no_place(observed: Observed) -> Obstacle | None:
    for name, side in _sides(observed):
        if side.interface_network is not None and not observed.transfer_nodes:
            message = (
                f"{name}.interfaceNetwork: no DataTransferNode tells which interface reaches {side.interface_network}: create a job that"
                f" names {name}.interface, or ask an administrator to turn the node agent on"
            )
            return Obstacle(Reason.NO_INTERFACE_FITS, message, condition=ConditionType.SCHEDULED, needs_person=True)
    waits = observed.placement
    if not isinstance(waits, Waits):
        return None
    return Obstacle(waits.reason, waits.message, condition=ConditionType.SCHEDULED, needs_person=waits.needs_person)


def _no_room_on_a_link(observed: Observed) -> Obstacle | None:
    share = observed.fairness
    if observed.job.spec.preflight_only or share is None or share.admission is not Admission.WAITING:
        return None
    impossible = share.reason is Reason.GUARANTEE_TOO_LARGE
    return Obstacle(share.reason, share.message, condition=ConditionType.SCHEDULED, needs_person=impossible)
