"""Failures that are brought about on a real API server, with what is really wrong in each: the constant, and words of the true cause."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kubelet import FakeNodes
from lab import Lab, eventually

from fairlead.api import names
from fairlead.kube.client import JOBS, NODES, KubeObject


@dataclass
class Stage:
    """Where failures are brought about: a namespace, an operator that serves it, and nodes that do as they are told."""

    lab: Lab
    nodes: FakeNodes

    async def mover(self, job: str, role: str, attempt: int = 1) -> KubeObject:
        """The job's pod of this role, once the operator has made it."""

        async def look() -> KubeObject | None:
            wanted = {names.LABEL_ROLE: role, names.LABEL_ATTEMPT: str(attempt)}.items()
            found = (pod for pod in await self.lab.pods() if _is_of(pod, job) and wanted <= pod["metadata"]["labels"].items())
            return next(found, None)

        return await eventually(look, f"the {role} of {job}", lambda: self.lab.job(job))

    async def create(self, job: str, **spec: Any) -> KubeObject:
        """A job with a destination of its own: of two that write to one directory, the second waits."""
        destination = spec.get("destination") or _end("scratch", "dtn-b")
        return await self.lab.create_job(job, **{**spec, "destination": {**destination, "path": job}})

    async def unstarted(self, job: str, role: str, reason: str, message: str) -> None:
        """The job's pod of this role is on its node, and its container is not started, for this reason."""
        pod = await self.mover(job, role)
        await self.nodes.place(pod)
        await self.nodes.wait_reason(pod, reason, message)

    async def up(self, job: str, **spec: Any) -> tuple[KubeObject, KubeObject]:
        """A job with both movers up: receiver and sender."""
        await self.create(job, **spec)
        receiver = await self.mover(job, "receiver")
        await self.nodes.start(receiver)
        sender = await self.mover(job, "sender")
        await self.nodes.start(sender)
        return receiver, sender


def _is_of(pod: KubeObject, job: str) -> bool:
    return bool((pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_JOB) == job)


Induce = Callable[[Stage, str], Awaitable[object]]


@dataclass(frozen=True)
class InducedFailure:
    """A failure: `induce` brings it about for the job of this name and returns when it is there."""

    name: str
    reasons: tuple[str, ...]
    """What `why` must conclude: the cause last."""
    words: str
    """What its answer must have of the case at hand."""
    induce: Induce


def _end(claim: str, node: str | None = None, **more: Any) -> dict[str, Any]:
    return {**({"node": node} if node else {}), "volume": {"persistentVolumeClaim": {"claimName": claim}}, **{"path": "run42", **more}}


def _of_sender(reason: str) -> InducedFailure:
    """The sender ends for good with this reason; the receiver only knows that its peer failed."""

    async def induce(stage: Stage, job: str) -> None:
        receiver, sender = await stage.up(job)
        await stage.nodes.finish(receiver, verdict="Failed", reason="PeerFailed")
        await stage.nodes.finish(sender, verdict="Failed", reason=reason, message=f"this {reason} is of {job}")

    return InducedFailure(f"sender-{reason.lower()}", (reason,), f"this {reason} is of sender-", induce)


def _of_receiver(reason: str) -> InducedFailure:
    """The same of the receiver, whose sender only lost it."""

    async def induce(stage: Stage, job: str) -> None:
        receiver, sender = await stage.up(job)
        await stage.nodes.finish(sender, verdict="Failed", reason="PeerLost", retry=True)
        await stage.nodes.finish(receiver, verdict="Failed", reason=reason, message=f"this {reason} is of {job}")

    return InducedFailure(f"receiver-{reason.lower()}", (reason,), f"this {reason} is of receiver-", induce)


def _retried(reason: str) -> InducedFailure:
    """The sender ends with a reason that another attempt may cure; the pause before that is long."""

    async def induce(stage: Stage, job: str) -> None:
        receiver, sender = await stage.up(job)
        await stage.nodes.finish(sender, verdict="Failed", reason=reason, retry=True, message=f"this {reason} is of {job}")
        await stage.nodes.finish(receiver, verdict="Failed", reason="PeerLost", retry=True)

    return InducedFailure(f"retried-{reason.lower()}", ("BackingOff", reason), f"this {reason} is of retried-", induce)


async def _exhausted(stage: Stage, job: str) -> None:
    _, sender = await stage.up(job, backoffLimit=0)
    await stage.nodes.finish(sender, verdict="Failed", reason="PeerUnreachable", retry=True, message="no route to 198.19.0.2")


async def _killed(stage: Stage, job: str) -> None:
    receiver, sender = await stage.up(job, backoffLimit=0)
    await stage.nodes.finish(receiver, verdict="Failed", reason="PeerLost", retry=True)
    await stage.nodes.kill(sender, "OOMKilled")


async def _evicted(stage: Stage, job: str) -> None:
    receiver, sender = await stage.up(job, backoffLimit=0)
    await stage.nodes.kill(sender, "Evicted", of_pod=True)
    await stage.nodes.remove(receiver)


async def _deleted_by_hand(stage: Stage, job: str) -> None:
    receiver, sender = await stage.up(job, backoffLimit=0)

    async def seen() -> bool:
        endpoints = ((await stage.lab.job(job)).get("status") or {}).get("endpoints") or {}
        return {"source", "destination"} <= endpoints.keys()

    await eventually(seen, "both ends in the status", lambda: stage.lab.job(job))
    await stage.nodes.remove(sender)
    await stage.nodes.remove(receiver)


async def _foreign_verdict(stage: Stage, job: str) -> None:
    receiver, sender = await stage.up(job, backoffLimit=0)
    await stage.nodes.finish(receiver, job="somebody-elses")
    await stage.nodes.remove(sender)


def _waiting_container(reason: str, message: str) -> Induce:
    async def induce(stage: Stage, job: str) -> None:
        await stage.create(job)
        await stage.unstarted(job, "receiver", reason, message)

    return induce


async def _sender_without_image(stage: Stage, job: str) -> None:
    await stage.create(job)
    await stage.nodes.start(await stage.mover(job, "receiver"))
    await stage.unstarted(job, "sender", "ImagePullBackOff", "back-off pulling image mover:x")


async def _image_missing_until_the_deadline(stage: Stage, job: str) -> None:
    await stage.create(job)
    pod = await stage.mover(job, "receiver")
    await stage.nodes.place(pod)

    async def is_told() -> bool:
        conditions = (await stage.lab.job(job))["status"]["conditions"]
        return any(each["type"] == "MoversReady" and each["reason"] == "ReceiverNotReady" for each in conditions)

    # The event that the receiver is not ready comes once, before the kubelet says why: at the end nobody but the pod knows of the image.
    await eventually(is_told, "ReceiverNotReady", lambda: stage.lab.job(job))
    await stage.nodes.wait_reason(pod, "ImagePullBackOff", "back-off pulling image mover:y")
    await stage.lab.client.merge_patch(JOBS, stage.lab.namespace, job, {"spec": {"activeDeadlineSeconds": 1}})
    await stage.lab.condition("Failed", name=job)


async def _unschedulable(stage: Stage, job: str) -> None:
    await stage.create(job)
    await stage.nodes.leave_unscheduled(await stage.mover(job, "receiver"), "0/2 nodes are available: 2 Insufficient memory")


def _warned(reason: str, message: str) -> Induce:
    async def induce(stage: Stage, job: str) -> None:
        await stage.create(job)
        await stage.nodes.warn(await stage.mover(job, "receiver"), reason, message)

    return induce


async def _unattached(stage: Stage, job: str) -> None:
    ends = {"source": _end("raw", "dtn-a", attachment="lab-a"), "destination": _end("scratch", "dtn-b", attachment="lab-b")}
    await stage.create(job, network="Attachment", **ends)
    failed = 'Failed to create pod sandbox: plugin type="multus" name="multus" failed (add): [physics/x/1:lab-b]: '
    words = 'error adding container to network "lab-b": Link not found'
    await stage.nodes.fail_network(await stage.mover(job, "receiver"), failed + words)


async def _silent_receiver(stage: Stage, job: str) -> None:
    await stage.create(job)
    await stage.nodes.start(await stage.mover(job, "receiver"), serve=False)


def _created(**spec: Any) -> Induce:
    async def induce(stage: Stage, job: str) -> None:
        await stage.create(job, **spec)

    return induce


async def _node_not_ready(stage: Stage, job: str) -> None:
    await stage.lab.client.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"lost-{stage.lab.namespace}"}})
    await stage.create(job, source=_end("other", f"lost-{stage.lab.namespace}"), destination=_end("scratch", "dtn-b"))


async def _queued(stage: Stage, job: str) -> None:
    body = stage.lab.manifest(job, suspend=True, destination=_end("scratch", "dtn-b", path=job))
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "bulk"}
    await stage.lab.client.create(JOBS, stage.lab.namespace, body)


async def _held_by_another(stage: Stage, job: str) -> None:
    body = stage.lab.manifest(job, suspend=True, destination=_end("scratch", "dtn-b", path=job))
    body["metadata"]["finalizers"] = ["example.com/keep"]
    await stage.lab.client.create(JOBS, stage.lab.namespace, body)
    await stage.lab.condition("Suspended", name=job)
    await stage.lab.client.delete(JOBS, stage.lab.namespace, job)


async def _cleaner_without_image(stage: Stage, job: str) -> None:
    await stage.up(job)
    await stage.lab.client.delete(JOBS, stage.lab.namespace, job)
    await stage.unstarted(job, "cleaner", "ErrImagePull", "no such image: mover:z")


OF_SENDERS = tuple(
    _of_sender(reason)
    for reason in (
        *("SourceMissing", "SourceNotDirectory", "SourceEmpty", "SourceUnreadable", "SourceChanged", "NameNotAllowed"),
        *("CongestionControlUnavailable", "InterfaceNotFound", "InterfaceDown", "RouteMissing", "PathMtuTooSmall", "ClocksDiffer"),
        *("CredentialsInvalid", "ProtocolError", "InternalError", "ResendBudgetExceeded"),
    )
)
OF_RECEIVERS = tuple(_of_receiver(reason) for reason in ("DestinationExists", "DestinationFull", "DestinationUnwritable"))
RETRIED = tuple(_retried(reason) for reason in ("PeerUnreachable", "PeerRejected", "Stalled", "AddressInUse", "ChecksumMismatch"))
OF_PODS = (
    InducedFailure("exhausted", ("BackoffLimitExceeded", "PeerUnreachable"), "no route to 198.19.0.2", _exhausted),
    InducedFailure("oom", ("BackoffLimitExceeded", "MoverDied", "OOMKilled"), "exit code 137", _killed),
    InducedFailure("evicted", ("BackoffLimitExceeded", "MoverDied", "Evicted"), "Evicted by the test", _evicted),
    InducedFailure("deleted-pod", ("BackoffLimitExceeded", "MoverDied"), "it was deleted", _deleted_by_hand),
    InducedFailure("foreign-verdict", ("BackoffLimitExceeded", "VerdictMismatch"), "somebody-elses", _foreign_verdict),
    InducedFailure(
        "no-image", ("ReceiverNotReady", "ErrImageNeverPull"), "not on the node", _waiting_container("ErrImageNeverPull", "not on the node")
    ),
    InducedFailure(
        "bad-configuration",
        ("ReceiverNotReady", "CreateContainerConfigError"),
        'secret "x" not found',
        _waiting_container("CreateContainerConfigError", 'secret "x" not found'),
    ),
    InducedFailure(
        "crashing",
        ("ReceiverNotReady", "CrashLoopBackOff"),
        "restarting failed",
        _waiting_container("CrashLoopBackOff", "restarting failed container"),
    ),
    InducedFailure("no-sender-image", ("SenderNotReady", "ImagePullBackOff"), "mover:x", _sender_without_image),
    InducedFailure(
        "no-image-in-time", ("DeadlineExceeded", "ReceiverNotReady", "ImagePullBackOff"), "mover:y", _image_missing_until_the_deadline
    ),
    InducedFailure("unschedulable", ("WaitingForScheduler", "Unschedulable"), "2 Insufficient memory", _unschedulable),
    InducedFailure(
        "no-mount",
        ("FailedMount",),
        "no such device",
        _warned("FailedMount", "MountVolume.SetUp failed for volume raw: no such device"),
    ),
    InducedFailure(
        "no-attach", ("FailedAttachVolume",), "attached elsewhere", _warned("FailedAttachVolume", "the volume is attached elsewhere")
    ),
    InducedFailure("no-attachment", ("AttachmentFailed",), "destination.attachment lab-b: Link not found", _unattached),
    InducedFailure("silent-receiver", ("ReceiverNotReady",), "does not answer on its HTTP port", _silent_receiver),
)
OF_SPECS = (
    InducedFailure(
        "no-claim", ("ClaimNotFound",), "PersistentVolumeClaim missing", _created(source=_end("missing"), destination=_end("scratch"))
    ),
    InducedFailure("no-node", ("NodeNotFound",), "no node dtn-x", _created(source=_end("raw", "dtn-x"), destination=_end("scratch"))),
    InducedFailure(
        "claim-elsewhere", ("ClaimOnOtherNode",), "lives on node dtn-a", _created(source=_end("raw", "dtn-b"), destination=_end("scratch"))
    ),
    InducedFailure("suspended", ("Suspended",), "spec.suspend is true", _created(suspend=True)),
    InducedFailure("another-controller", ("OtherController",), "example.com/other", _created(managedBy="example.com/other")),
    InducedFailure("queued", ("Suspended", "QueuedByKueue"), "names queue bulk", _queued),
    InducedFailure("held", ("Deleting", "OtherFinalizer"), "example.com/keep", _held_by_another),
    InducedFailure("cleaning", ("Deleting", "CleanerNotDone", "ErrImagePull"), "mover:z", _cleaner_without_image),
)
