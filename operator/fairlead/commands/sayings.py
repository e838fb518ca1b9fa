"""What a user is told of each reason: one clause that completes "because ...", and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from fairlead.api.reasons import MoverReason, Reason


class Saying(NamedTuple):
    """`because` is a clause without a full stop; `remedy` whole sentences, empty where there is nothing to do."""

    because: str
    remedy: str = ""


class Finding(StrEnum):
    """What `why` concludes itself, where no condition can say it: the operator is what is silent, or a pod what does not start."""

    NOT_TAKEN_UP = "NotTakenUp"
    SPEC_NOT_ANSWERED = "SpecNotAnswered"
    DELETION_NOT_ANSWERED = "DeletionNotAnswered"
    OPERATOR_MISSING = "OperatorMissing"
    OPERATOR_NOT_RUNNING = "OperatorNotRunning"
    OTHER_CONTROLLER = "OtherController"
    OTHER_FINALIZER = "OtherFinalizer"
    CLEANER_NOT_DONE = "CleanerNotDone"
    POD_OF_LOST_NODE = "PodOfLostNode"
    NO_PROGRESS = "NoProgress"
    SLOW_TRANSFER = "SlowTransfer"
    QUEUED_BY_KUEUE = "QueuedByKueue"


_LOOK_AT_OPERATOR: Final = "Ask an administrator to look at Fairlead's Deployment and its log."

FINDINGS: Final[Mapping[str, Saying]] = {
    Finding.NOT_TAKEN_UP: Saying(
        "Fairlead's operator has not taken it up",
        "Where hundreds of jobs came at once they begin a few at a time. Else ask an administrator to look at its Deployment and its log.",
    ),
    Finding.SPEC_NOT_ANSWERED: Saying("Fairlead's operator has not answered the last change of its spec", _LOOK_AT_OPERATOR),
    Finding.DELETION_NOT_ANSWERED: Saying("Fairlead's operator has not answered its deletion", _LOOK_AT_OPERATOR),
    Finding.OPERATOR_MISSING: Saying("no operator of Fairlead is installed in the cluster", "Install Fairlead's chart."),
    Finding.OPERATOR_NOT_RUNNING: Saying("Fairlead's operator is not running", "An administrator looks at its Deployment and its pod."),
    Finding.OTHER_CONTROLLER: Saying(
        "its spec.managedBy names another controller, and Fairlead leaves it alone", "Ask that controller, or create the job without it."
    ),
    Finding.OTHER_FINALIZER: Saying(
        "a finalizer that is not Fairlead's holds the object", "Ask whoever set that finalizer; Fairlead has done its part."
    ),
    Finding.CLEANER_NOT_DONE: Saying(
        "the pod that removes its partial files has not ended",
        "Mend what keeps that pod from running, or wait: after the chart value movers.cleanupTimeoutSeconds the job is let go.",
    ),
    Finding.POD_OF_LOST_NODE: Saying(
        "a mover of the attempt before is on a node that is lost, and may still be writing",
        "Bring the node back, or remove it from the cluster for good (kubectl delete node).",
    ),
    Finding.NO_PROGRESS: Saying(
        "no bytes have arrived for much longer than its rate would need",
        "Look at the path and at the disks of both ends. If nothing moves, the movers end the attempt by themselves.",
    ),
    Finding.SLOW_TRANSFER: Saying("data still flowed when the time was over", "Give a longer activeDeadlineSeconds, or a higher rate."),
    Finding.QUEUED_BY_KUEUE: Saying(
        "Kueue has not admitted it", "Wait: its queue resumes it. `kubectl get workloads` in its namespace tells what it waits for."
    ),
}

PODS: Final[Mapping[str, Saying]] = {
    "ErrImagePull": Saying("its node cannot pull the mover's image", "An administrator checks the chart values images.*."),
    "ImagePullBackOff": Saying("its node cannot pull the mover's image", "An administrator checks the chart values images.*."),
    "ErrImageNeverPull": Saying(
        "its node lacks the mover's image and may not pull it", "An administrator loads the image there, or changes images.*.pullPolicy."
    ),
    "InvalidImageName": Saying("the name of the mover's image is wrong", "An administrator corrects the chart values images.*."),
    "CreateContainerConfigError": Saying("what its container needs is missing", "The message says what; it may be created by hand."),
    "CreateContainerError": Saying("its container cannot be made on the node", "An administrator looks at the node's container runtime."),
    "RunContainerError": Saying("its container cannot be started on the node", "An administrator looks at the node's container runtime."),
    "CrashLoopBackOff": Saying("its container ends again and again", "Read its log: kubectl logs POD --previous."),
    "OOMKilled": Saying("the mover used more memory than it may have", "An administrator raises the chart value movers.resources."),
    "Evicted": Saying("its node removed it for want of memory or disk", "An administrator makes room on that node; the job tries again."),
    "Preempted": Saying("a pod of higher priority took its place", "Wait: the job tries again."),
    "Unschedulable": Saying("no node can take the pod", "The scheduler's message says what each node lacks."),
    "FailedScheduling": Saying("no node can take the pod", "The scheduler's message says what each node lacks."),
    "FailedMount": Saying("a volume cannot be mounted on the node", "Look at the claim, its volume and the storage on that node."),
    "FailedAttachVolume": Saying("a volume cannot be attached to the node", "It may be attached elsewhere: look at the volume."),
    "FailedCreatePodSandBox": Saying("the pod's network cannot be made on the node", "An administrator looks at the node's CNI plugins."),
    "NodeLost": Saying("its node does not answer any more", "An administrator looks at the node; the job tries again."),
}
"""Reasons of the kubelet and the scheduler, on pods and their events."""

CONDITIONS: Final[Mapping[str, Saying]] = {
    Reason.VALID: Saying("nothing stands in its way"),
    Reason.HOST_NETWORK_NOT_ALLOWED: Saying(
        "its namespace may not use the nodes' network",
        "Ask an administrator to add the namespace to the chart value hostNetwork.namespaces, or create the job with network Pod.",
    ),
    Reason.IDENTITY_NOT_ALLOWED: Saying(
        "its securityContext has a user or group that the namespace may not use",
        "Create the job with an allowed one, or ask an administrator to widen the chart value identities.",
    ),
    Reason.NODE_NOT_FOUND: Saying("a node that it names does not exist", "Create a job that names one of `kubectl get nodes`."),
    Reason.NODE_NOT_READY: Saying("a node that it needs is not ready", "Wait for the node, or ask an administrator about it."),
    Reason.CLAIM_NOT_FOUND: Saying("a claim that it names does not exist", "Create the claim; the job goes on by itself."),
    Reason.CLAIM_ON_OTHER_NODE: Saying(
        "a claim's volume lives on another node than the one it names", "Create a job that names that node, or none."
    ),
    Reason.ATTACHMENT_REFUSES_RATE: Saying(
        "an attachment that it names refuses pods that ask for a rate, and it has one",
        "An administrator removes the bandwidth plugin from that definition, or the job names a definition of a bridge.",
    ),
    Reason.DESTINATION_IN_USE: Saying(
        "another job writes to the same directory, or to one in or above it",
        "Wait until that one has ended, suspend or delete it, or create this job with another destination.path.",
    ),
    Reason.SAME_DIRECTORY: Saying(
        "source and destination are the same directory, or one lies in the other", "Create a job with another path or claim."
    ),
    Reason.INVALID_SPEC: Saying("a field of its spec cannot work", "Correct the field that the message names."),
    Reason.PODS_SCHEDULED: Saying("its movers have nodes"),
    Reason.WAITING_FOR_SCHEDULER: Saying("a mover has no node yet", "The scheduler's message says what each node lacks."),
    Reason.NO_PORT_FREE: Saying("every block of ports on the node is taken", "Wait for other jobs to end."),
    Reason.NO_NODE_MATCHES: Saying(
        "no data transfer node that is ready has what it asks for", "Correct nodeSelector or site, or see `kubectl fairlead nodes`."
    ),
    Reason.NO_SLOT_FREE: Saying("every slot of the nodes that it can use is taken", "Wait for other jobs to end."),
    Reason.SLOT_SHARE_USED_UP: Saying(
        "its namespace has all slots of a node that one namespace may have", "Wait for the namespace's other jobs to end."
    ),
    Reason.NO_INTERFACE_FITS: Saying(
        "no interface of the nodes can carry its data", "Name another interface, or mend the one in the message."
    ),
    Reason.PORT_SHARE_USED_UP: Saying(
        "its namespace holds as many blocks of ports as one may have", "Wait for the namespace's other jobs to end."
    ),
    Reason.WAITING_FOR_LINK: Saying(
        "a shared link has no room for it", "Wait for its turn; a higher spec.priority is served first within the tenant."
    ),
    Reason.GUARANTEE_TOO_LARGE: Saying(
        "its bandwidth.guarantee is more than a link or its tenant ever has", "Lower spec.bandwidth.guarantee."
    ),
    Reason.GUARANTEE_NOT_RAISED: Saying(
        "a link has no room for the guarantee that it asks for by now", "Lower spec.bandwidth.guarantee, or wait for room."
    ),
    Reason.INTERFACE_NOT_LISTED: Saying(
        "the FairnessPolicy does not list the interface that it uses, so it counts on all links of the node",
        "Use a listed interface, or ask an administrator to list it in spec.interfaces of the FairnessPolicy.",
    ),
    Reason.MOVERS_STARTING: Saying("its movers are being started"),
    Reason.RECEIVER_NOT_READY: Saying("the receiver does not come up", "The message says what holds its pod back."),
    Reason.SENDER_NOT_READY: Saying("the sender does not come up", "The message says what holds its pod back."),
    Reason.ATTACHMENT_FAILED: Saying(
        "Multus cannot give a mover the attachment that the job names", "The message has its words and what mends it."
    ),
    Reason.CREATION_REFUSED: Saying(
        "the API server refuses to create its movers", "The message says which quota, limit or admission policy stands against it."
    ),
    Reason.MOVERS_RUNNING: Saying("its movers run"),
    Reason.MOVERS_STOPPED: Saying("none of its movers runs"),
    Reason.BACKING_OFF: Saying("an attempt failed and the next one starts after a pause"),
    Reason.CHECKS_PASSED: Saying("every check before the data passed"),
    Reason.PASSED_WITH_WARNINGS: Saying("a check before the data passed with a warning", "Look at what the message names."),
    Reason.PROBING: Saying("the advisor measures the path"),
    Reason.PATH_LEASED: Saying("another job probes the path", "Wait: it takes half a minute at most."),
    Reason.PROBED: Saying("the path is measured and the advisor has decided"),
    Reason.ADVISOR_SILENT: Saying(
        "the advisor does not answer, so nobody adjusts the transfer",
        "Nothing has to be done for the data, which go on. The log of the sender's container advisor has the cause.",
    ),
    Reason.ENDPOINT_REFUSED: Saying(
        "a mover reports an address or port that cannot be its own", "An administrator looks at the pod and the node in the message."
    ),
    Reason.REPORT_MALFORMED: Saying(
        "a mover or advisor reports a value that cannot be", "Check that the images of operator and movers are of one version."
    ),
    Reason.REPORTS_PLAUSIBLE: Saying("what its movers report is believed again"),
    Reason.WITHIN_CAP: Saying("its rate keeps to the cap"),
    Reason.PATH_LOST: Saying(
        "one of its paths carries nothing, and the others carry the data", "Look at the link of the interface that the condition names."
    ),
    Reason.NODES_LOST: Saying(
        "a node of its movers is not ready, and nobody knows whether data moves",
        "An administrator brings the node back, or removes it from the cluster for good.",
    ),
    Reason.NODES_BACK: Saying("the nodes of its movers are ready again"),
    Reason.PATH_RESTORED: Saying("all of its paths carry data again"),
    Reason.PROTOCOL_REPLACED: Saying(
        "its protocol does not get through, so its data go over TCP",
        "An administrator lets the receiver's UDP port through, or the next job has spec.transport.protocol TCP.",
    ),
    Reason.PROTOCOL_IN_USE: Saying("its data go over the protocol that it names again"),
    Reason.ABOVE_CAP: Saying("it sends more than its cap", "An administrator turns on the chart value nodeGuard.enabled."),
    Reason.CAP_NOT_MEASURED: Saying("its cap is set, but not measured under"),
    Reason.SUSPENDED: Saying("spec.suspend is true", "Resume it with `kubectl fairlead resume`: what has arrived is kept."),
    Reason.QUEUE_NEEDS_BANDWIDTH: Saying(
        "its queue gives out bandwidth, and the job asks for none", "Set bandwidth.limit or bandwidth.guarantee of the job."
    ),
    Reason.RESUMED: Saying("it was resumed"),
    Reason.IN_PROGRESS: Saying("an attempt is under way"),
    Reason.FINISHED: Saying("it has ended"),
    Reason.DELETING: Saying("it is being deleted: its movers stop, then its partial files are removed"),
    Reason.BACKOFF_LIMIT_EXCEEDED: Saying(
        "more attempts failed than spec.backoffLimit allows", "Remove the cause of the last failure and create the job again."
    ),
    Reason.DEADLINE_EXCEEDED: Saying("it took longer than spec.activeDeadlineSeconds", "Create it again with more time."),
    Reason.MOVER_DIED: Saying(
        "a mover's pod ended without a verdict", "It was killed, evicted, deleted, or its node was lost: the message says what is known."
    ),
    Reason.VERDICT_MISMATCH: Saying(
        "a mover's verdict names another job or attempt", "Something else writes to the job's pods: ask an administrator."
    ),
}

MOVERS: Final[Mapping[str, Saying]] = {
    MoverReason.VERIFIED: Saying("everything arrived and was verified"),
    MoverReason.CLEANED: Saying("its partial files are gone"),
    MoverReason.SOURCE_MISSING: Saying("its source path does not exist on the volume", "Create a job with a corrected source.path."),
    MoverReason.SOURCE_NOT_DIRECTORY: Saying("its source path is not a directory", "Name the directory that holds the file."),
    MoverReason.SOURCE_EMPTY: Saying("its source has no files to move", "Correct source.path, data.include or data.exclude."),
    MoverReason.SOURCE_UNREADABLE: Saying(
        "the movers cannot read its source",
        "Set securityContext to a user or group that may read it, or look at the volume if the message tells of its error.",
    ),
    MoverReason.SOURCE_CHANGED: Saying(
        "a source file changed while it was read", "Wait until whatever writes there has ended, then create the job again."
    ),
    MoverReason.DESTINATION_EXISTS: Saying(
        "a file exists at its destination and data.overwrite is Never", "Remove the file, or create a job with another data.overwrite."
    ),
    MoverReason.DESTINATION_FULL: Saying("its destination has too little space", "Free some space, or use another volume."),
    MoverReason.DESTINATION_UNWRITABLE: Saying(
        "the movers cannot write at its destination",
        "Set securityContext to a user or group that may write there, or look at the volume if the message tells of its error.",
    ),
    MoverReason.NAME_NOT_ALLOWED: Saying("a file's name cannot be used at the destination", "Rename the file in the message."),
    MoverReason.CONGESTION_CONTROL_UNAVAILABLE: Saying(
        "the sender's kernel does not offer its transport.congestionControl", "Use one that the message lists, or Auto."
    ),
    MoverReason.INTERFACE_NOT_FOUND: Saying(
        "a network interface that it names does not exist on the node", "Correct interface; `kubectl fairlead nodes` lists them."
    ),
    MoverReason.INTERFACE_DOWN: Saying(
        "the interface for its data is down or has no carrier", "Bring the interface up, look at its cable, or name another."
    ),
    MoverReason.ROUTE_MISSING: Saying(
        "the sender's node has no route to the receiver", "An administrator adds the route that the message describes."
    ),
    MoverReason.ADDRESS_IN_USE: Saying(
        "a port of the mover is taken on the node", "Wait, or check again: the next attempt uses other ports."
    ),
    MoverReason.CREDENTIALS_INVALID: Saying(
        "the attempt's credentials cannot be used", "Look at the clocks of both nodes; the next attempt gets new ones."
    ),
    MoverReason.CLOCKS_DIFFER: Saying("the clock of a node is wrong", "An administrator sets the clocks of both nodes."),
    MoverReason.PATH_MTU_TOO_SMALL: Saying(
        "packets as long as the interfaces send vanish on the way",
        "An administrator lowers the MTU of the interfaces to what passes, or lets ICMP through.",
    ),
    MoverReason.ECHO_UNREACHABLE: Saying(
        "UDP to the receiver is blocked, so the path cannot be probed", "An administrator lets the receiver's UDP port through."
    ),
    MoverReason.PROTOCOL_UNAVAILABLE: Saying(
        "the job's protocol does not get through; data go over TCP, but a scavenger's only where the node allows the kernel's lp",
        "An administrator lets the receiver's UDP port through, or the job has spec.transport.protocol TCP.",
    ),
    MoverReason.PREFLIGHT_PASSED: Saying("every check passed; nothing was to be moved", "Create the job without spec.preflightOnly."),
    MoverReason.PEER_UNREACHABLE: Saying(
        "the sender cannot reach the receiver", "Check routes and firewalls between the addresses in the message."
    ),
    MoverReason.PEER_REJECTED: Saying("one end refused the other's credentials", "Look at the clocks of both nodes."),
    MoverReason.PEER_LOST: Saying(
        "the connection between the movers broke", "Look at the path; the next attempt goes on where this one ended."
    ),
    MoverReason.PEER_FAILED: Saying("the other end failed without saying why", "Look at the log of the other mover's pod."),
    MoverReason.CHECKSUM_MISMATCH: Saying(
        "what arrived is not what was sent", "Look at memory, disk and network card of both nodes: something damages data."
    ),
    MoverReason.STALLED: Saying("no byte moved for too long", "Look at the path and at the disks of both ends."),
    MoverReason.SUPERSEDED: Saying("a later attempt has taken over"),
    MoverReason.RESEND_BUDGET_EXCEEDED: Saying(
        "too many bytes were sent in vain", "Look for what damages or interrupts the transfer, then create the job again."
    ),
    MoverReason.STOPPED_BY_SIGNAL: Saying("the mover was told to stop", "Somebody deleted its pod, or its node was drained."),
    MoverReason.PROTOCOL_ERROR: Saying("the other end broke the protocol", "Check that both movers are of the same version."),
    MoverReason.INTERNAL_ERROR: Saying("of a fault of the mover itself", "Please report it with the log of the pod."),
}

_ALL: Final = {**PODS, **FINDINGS, **CONDITIONS, **MOVERS}


def saying_of(reason: str) -> Saying:
    """What to say of a reason; of one that this version does not know, its name."""
    return _ALL.get(reason, Saying(f"of {reason}, which this version does not know", "Read the message."))
