"""Condition types, their reasons and the reasons of events: documented constants, from which the reference page is made."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class _Documented(StrEnum):
    """A constant that carries its own explanation."""

    meaning: str

    def __new__(cls, value: str, meaning: str = "") -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member


class ConditionType(_Documented):
    """The conditions of a TransferJob."""

    ACCEPTED = "Accepted", "The job can run as it is written: namespace, nodes and claims allow it."
    SCHEDULED = "Scheduled", "Every mover pod that was created has a node."
    MOVERS_READY = "MoversReady", "Both mover pods of the present attempt have come up."
    PREFLIGHT_PASSED = (
        "PreflightPassed",
        "What the transfer needs was checked before any byte of data, and is there ([preflight](../how-to/preflight.md))."
        " Absent until that is known of an attempt.",
    )
    PATH_PROBED = "PathProbed", "The path was measured and the advisor has decided."
    CAP_ENFORCED = "CapEnforced", "The measured rate keeps to the cap. Absent without a cap."
    PATHS_UP = (
        "PathsUp",
        "Every path of a job with several interfaces carries data. Absent until one is lost in an attempt.",
    )
    NODES_READY = (
        "NodesReady",
        "Every node on which a mover of the present attempt runs is ready. Absent until one is not while the movers are up.",
    )
    PROTOCOL_KEPT = (
        "ProtocolKept",
        "The data go over the protocol that the job names, or that was chosen for it. Absent until they had to go over another one.",
    )
    REPORTS_BELIEVED = "ReportsBelieved", "What the movers report can be true. Absent until something had to be refused in an attempt."
    SUSPENDED = "Suspended", "The job is held back by `spec.suspend`."
    SUCCEEDED = "Succeeded", "Every byte arrived, was verified and has its final name. Terminal when True."
    FAILED = "Failed", "The job has ended without success. Terminal when True."
    RECONCILING = "Reconciling", "Work towards the spec is under way (kstatus)."
    STALLED = "Stalled", "The job cannot go on until a person acts (kstatus)."


class Reason(_Documented):
    """Why a condition is what it is, where the operator concluded it."""

    VALID = "Valid", "Nothing stands in the job's way."
    HOST_NETWORK_NOT_ALLOWED = (
        "HostNetworkNotAllowed",
        "The namespace may not use the nodes' network. An administrator adds it to the chart value `hostNetwork.namespaces`;"
        " jobs with network `Pod` or `Attachment` need no such right.",
    )
    IDENTITY_NOT_ALLOWED = (
        "IdentityNotAllowed",
        "`securityContext` has a user or group ID that the namespace may not use; the message names the field and what is allowed."
        " Use another one in a new job, or an administrator widens the chart value `identities`.",
    )
    NODE_NOT_FOUND = "NodeNotFound", "A node named in the job does not exist."
    NODE_NOT_READY = "NodeNotReady", "A node that the job names, or on which a claim's volume lives, is not ready. The job waits."
    CLAIM_NOT_FOUND = "ClaimNotFound", "A claim named in the job does not exist in its namespace. The job waits for it."
    CLAIM_ON_OTHER_NODE = "ClaimOnOtherNode", "A claim's volume lives on another node than the one named in the job."
    ATTACHMENT_REFUSES_RATE = (
        "AttachmentRefusesRate",
        "A NetworkAttachmentDefinition that the job names cannot hold a rate and refuses pods that ask for one, as this job's would."
        " The job waits for another config of the definition.",
    )
    DESTINATION_IN_USE = (
        "DestinationInUse",
        "Another job of the namespace writes to the same directory, or to one in or above it; the message names it. The job starts when"
        " that one has ended. Directories are compared by claim: the same storage behind two claims is not recognised.",
    )
    SAME_DIRECTORY = "SameDirectory", "Source and destination are the same directory, or one lies in the other."
    INVALID_SPEC = "InvalidSpec", "A field of the job has a value that cannot work."

    PODS_SCHEDULED = "PodsScheduled", "Every mover pod has a node."
    WAITING_FOR_SCHEDULER = "WaitingForScheduler", "A mover pod has no node yet."
    NO_PORT_FREE = "NoPortFree", "Every block of ports on the node is taken by other jobs. The job waits."
    NO_NODE_MATCHES = (
        "NoNodeMatches",
        "No DataTransferNode has the labels or the site that the job asks for and can mount the volume, or none of them is ready.",
    )
    NO_SLOT_FREE = "NoSlotFree", "Every slot of the nodes that the job can use is taken. The job starts when one is free."
    SLOT_SHARE_USED_UP = "SlotShareUsedUp", "Movers of the namespace have all slots of a node that one namespace may have. The job waits."
    NO_INTERFACE_FITS = (
        "NoInterfaceFits",
        "No interface of the nodes can carry the data as the job asks: it has no carrier, may not carry data, or does not reach the other"
        " end. The message says which and what helps.",
    )
    PORT_SHARE_USED_UP = "PortShareUsedUp", "Jobs of the namespace hold as many blocks of ports as one namespace may have. The job waits."

    WAITING_FOR_LINK = (
        "WaitingForLink",
        "What is the tenant's of a policy's link has too little left; the message says which and the place in the queue.",
    )
    GUARANTEE_TOO_LARGE = (
        "GuaranteeTooLarge",
        "`bandwidth.guarantee` is more than a link or the tenant ever has. The job waits for a smaller one, or for a larger link.",
    )

    GUARANTEE_NOT_RAISED = (
        "GuaranteeNotRaised",
        "The job runs, but a link has no room for the `bandwidth.guarantee` that it asks for by now, or the job has not used it for so long"
        " that it is not held any more. The message says what counts.",
    )

    INTERFACE_NOT_LISTED = (
        "InterfaceNotListed",
        "The job runs, but the FairnessPolicy does not list an interface that it or its mover names. It counts on all links of the node.",
    )

    MOVERS_STARTING = "MoversStarting", "The mover pods of an attempt are being started."
    RECEIVER_NOT_READY = "ReceiverNotReady", "The receiver is not up yet; the message says what holds it back."
    SENDER_NOT_READY = "SenderNotReady", "The sender is not up yet; the message says what holds it back."
    ATTACHMENT_FAILED = (
        "AttachmentFailed",
        "Multus could not give a mover's pod the attachment that the job names; the message has its words and what mends it. The kubelet"
        " keeps trying, and the attempt fails after the startup timeout.",
    )
    CREATION_REFUSED = "CreationRefused", "The API server refuses to create a mover; the message has its words. The operator keeps trying."
    MOVERS_RUNNING = "MoversRunning", "Both movers are up."
    MOVERS_STOPPED = "MoversStopped", "No mover is running."
    BACKING_OFF = "BackingOff", "An attempt failed; the next one starts after a pause."

    CHECKS_PASSED = "ChecksPassed", "Every check passed at both ends."
    PASSED_WITH_WARNINGS = (
        "PassedWithWarnings",
        "Every check passed that a transfer needs; the message says at what somebody should look.",
    )

    PROBING = "Probing", "The advisor is measuring the path."
    PATH_LEASED = "PathLeased", "Another job probes the path. The sender is started when that has ended, after half a minute at the latest."
    PROBED = "Probed", "The advisor measured the path and decided."
    ADVISOR_SILENT = (
        "AdvisorSilent",
        "The advisor has not answered for half a minute of the transfer, which goes on with the settings in the message. With status `True`"
        " it had decided before.",
    )

    ENDPOINT_REFUSED = (
        "EndpointRefused",
        "A mover reports an address or a port that cannot be its own; the message has both. Nobody connects to it, and an attempt whose"
        " receiver goes on like that fails.",
    )
    REPORT_MALFORMED = "ReportMalformed", "A mover or advisor reports a value that cannot be; the message names the field."
    REPORTS_PLAUSIBLE = "ReportsPlausible", "Earlier in the attempt a report was refused; what is reported now is believed."

    PATH_LOST = (
        "PathLost",
        "Nothing gets through on one of the job's paths; the message names its interface. The transfer goes on over the others, and the"
        " sender tries the lost one again every few seconds.",
    )
    PATH_RESTORED = "PathRestored", "A path was lost in this attempt; now all of them carry data again."

    NODES_LOST = (
        "NodesLost",
        "A node on which a mover runs is not ready, or both are; the message names them. The job goes on by itself once they are back, or"
        " once they are removed from the cluster.",
    )
    NODES_BACK = "NodesBack", "A node was lost in this attempt; now the nodes of its movers are ready."
    PROTOCOL_REPLACED = (
        "ProtocolReplaced",
        "The protocol that the job names does not get through, and the data go over TCP; the message says why. Let the receiver's UDP port"
        " through, or name TCP in `spec.transport.protocol`.",
    )
    PROTOCOL_IN_USE = "ProtocolInUse", "The data had to go over TCP before; now they go over the protocol that the job names."

    WITHIN_CAP = "WithinCap", "The measured rate keeps to the cap."
    ABOVE_CAP = "AboveCap", "The measured rate exceeds the cap."
    CAP_NOT_MEASURED = (
        "CapNotMeasured",
        "A cap is set, but not measured under: no data flows yet, the receiver does not answer, or the cap is new.",
    )

    SUSPENDED = "Suspended", "The spec asks for suspension; movers are stopped, partial data is kept."
    QUEUE_NEEDS_BANDWIDTH = (
        "QueueNeedsBandwidth",
        "The job names a queue of Kueue and no bandwidth to ask it for: set `bandwidth.limit` or `bandwidth.guarantee`.",
    )
    RESUMED = "Resumed", "The spec no longer asks for suspension."

    IN_PROGRESS = "InProgress", "An attempt is under way."
    FINISHED = "Finished", "The job has ended; nothing is left to do."
    DELETING = "Deleting", "The job is being deleted; movers are stopped and partial files removed."

    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded", "More attempts failed than `spec.backoffLimit` allows; the message has the last one's."
    DEADLINE_EXCEEDED = "DeadlineExceeded", "The job took longer than `spec.activeDeadlineSeconds`."
    MOVER_DIED = "MoverDied", "A mover pod ended without a verdict: out of memory, evicted, its node lost, or deleted by hand. Retried."
    VERDICT_MISMATCH = "VerdictMismatch", "A mover's verdict names another job or attempt and proves nothing. Retried."


class MoverReason(_Documented):
    """Why a mover ended, as it reports itself (docs/contracts.md, "Verdict"); becomes the reason of `Succeeded` or `Failed`."""

    VERIFIED = "Verified", "Everything arrived and was verified."
    CLEANED = "Cleaned", "The partial files are gone."
    SOURCE_MISSING = "SourceMissing", "The source path does not exist on its volume. Correct `source.path` in a new job."
    SOURCE_NOT_DIRECTORY = "SourceNotDirectory", "The source path is not a directory. Name the directory that holds the file."
    SOURCE_EMPTY = "SourceEmpty", "The source has no files to move, or the globs leave none."
    SOURCE_UNREADABLE = (
        "SourceUnreadable",
        "The movers cannot read the source. Set `securityContext` accordingly, or look at the volume if the message tells of its error.",
    )
    SOURCE_CHANGED = "SourceChanged", "A source file changed while it was read."
    DESTINATION_EXISTS = (
        "DestinationExists",
        "A file exists at the destination and `data.overwrite` is `Never`, or somebody changed one there during the transfer that had been"
        " identical. The message names it.",
    )
    DESTINATION_FULL = "DestinationFull", "The destination has too little space. Free some or use another volume."
    DESTINATION_UNWRITABLE = (
        "DestinationUnwritable",
        "The movers cannot write at the destination. Set `securityContext` accordingly, or look at the volume if the message tells of its"
        " error.",
    )
    NAME_NOT_ALLOWED = "NameNotAllowed", "A file's name cannot be used at the destination."
    CONGESTION_CONTROL_UNAVAILABLE = (
        "CongestionControlUnavailable",
        "The sender's kernel does not offer `transport.congestionControl`. Use one it offers, or `Auto`.",
    )
    INTERFACE_NOT_FOUND = (
        "InterfaceNotFound",
        "The named interface does not exist on the node, is down or has no address; with network `Attachment`, Multus did not attach what"
        " `attachment` names, or gave it no address.",
    )
    INTERFACE_DOWN = "InterfaceDown", "The data interface is down or has no carrier. Bring it up, look at its cable, or name another."
    ROUTE_MISSING = (
        "RouteMissing",
        "The sender's node has no route to the receiver, or none through the interface that was named. The message says where it leads.",
    )
    ADDRESS_IN_USE = "AddressInUse", "A port of the mover is taken on the node."
    CREDENTIALS_INVALID = "CredentialsInvalid", "The attempt's credentials cannot be used."
    CLOCKS_DIFFER = (
        "ClocksDiffer",
        "The clock of one node is so wrong that the attempt's credentials do not hold there; the message has both times.",
    )
    PATH_MTU_TOO_SMALL = (
        "PathMtuTooSmall",
        "Packets as long as the interfaces send vanish on the way, so data would stall. The message has the longest that passes.",
    )
    ECHO_UNREACHABLE = (
        "EchoUnreachable",
        "A warning: UDP to the receiver is blocked, so the path MTU is not checked and the advisor cannot probe.",
    )
    PROTOCOL_UNAVAILABLE = (
        "ProtocolUnavailable",
        "The transfer's protocol does not get through, as where UDP is blocked. A warning where the data go over TCP; a scavenger's attempt"
        " ends with it where the sender's node does not allow the kernel's `lp`.",
    )
    PREFLIGHT_PASSED = "PreflightPassed", "Every check passed of a job with `spec.preflightOnly`. Nothing was moved."
    PEER_UNREACHABLE = "PeerUnreachable", "The sender could not reach the receiver. Check routes and firewalls between their interfaces."
    PEER_REJECTED = "PeerRejected", "One end refused the other's credentials."
    PEER_LOST = "PeerLost", "The connection to the other end broke and did not come back."
    PEER_FAILED = "PeerFailed", "The other end failed; its own reason says why."
    CHECKSUM_MISMATCH = "ChecksumMismatch", "What arrived is not what was sent."
    STALLED = "Stalled", "No byte moved for too long."
    SUPERSEDED = "Superseded", "A later attempt of the job has taken over."
    RESEND_BUDGET_EXCEEDED = "ResendBudgetExceeded", "Too many bytes were sent in vain. Look for what damages or interrupts the transfer."
    STOPPED_BY_SIGNAL = "StoppedBySignal", "The mover was told to stop."
    PROTOCOL_ERROR = "ProtocolError", "The other end broke the protocol. Check that both run the same version."
    INTERNAL_ERROR = "InternalError", "A fault of the mover itself. Please report it."


class EventReason(_Documented):
    """Reasons of the events on a TransferJob."""

    ACCEPTED = "Accepted", "The job can run, which it could not before."
    NOT_ACCEPTED = "NotAccepted", "Something outside the job keeps it from running; the message says what."
    MOVERS_STARTED = "MoversStarted", "Both movers are up."
    MOVERS_NOT_READY = "MoversNotReady", "A mover does not come up; the message says why."
    PREFLIGHT_WARNING = "PreflightWarning", "The checks before the data passed, with a warning; the message says at what to look."
    PATH_PROBED = "PathProbed", "The path was measured; the message has the advisor's decision."
    ADVISOR_SILENT = "AdvisorSilent", "The advisor does not answer while data flows; the message has the settings that stay in force."
    TRANSPORT_SWITCHED = "TransportSwitched", "The congestion control of the running transfer was switched; the message says why."
    SUCCEEDED = "Succeeded", "Everything arrived; the message has bytes, files and time."
    WAITING_FOR_PLACE = "WaitingForPlace", "No nodes or interfaces can be given to the job now; the message says what it waits for."
    ATTEMPT_FAILED = "AttemptFailed", "An attempt failed; the message says why and when the next one starts."
    FAILED = "Failed", "The job has failed for good."
    SUSPENDED = "Suspended", "The job was suspended."
    QUEUE_NEEDS_BANDWIDTH = (
        "QueueNeedsBandwidth",
        "The job names a queue of Kueue and no bandwidth to ask it for; the message says what to set.",
    )
    RESUMED = "Resumed", "The job was resumed."
    WAITING_FOR_LINK = (
        "WaitingForLink",
        "What is the tenant's of a link has no room for the job; the message says which, and the place in the queue.",
    )
    WAITING_FOR_DESTINATION = (
        "WaitingForDestination",
        "Another job writes to the destination; the message names it, and what to do for a start at once.",
    )
    GUARANTEE_NOT_RAISED = (
        "GuaranteeNotRaised",
        "A link has no room for a running job's raised guarantee, or it is not held any more; the message says which, and what counts.",
    )
    REPORT_REFUSED = "ReportRefused", "A mover reports what cannot be true; the message says what."
    INTERFACE_NOT_LISTED = (
        "InterfaceNotListed",
        "The FairnessPolicy does not list an interface of a running job; the message says which, and what to do.",
    )
    PATH_LOST = "PathLost", "One of the job's paths carries nothing any more; the message names its interface."
    PATH_RESTORED = "PathRestored", "All paths of the job carry data again."
    NODES_LOST = "NodesLost", "A node on which a mover of the job runs is not ready any more; the message names it."
    NODES_BACK = "NodesBack", "The nodes of the job's movers are ready again."
    PROTOCOL_REPLACED = "ProtocolReplaced", "The job's protocol does not get through, and its data go over TCP."
    CAP_EXCEEDED = "CapExceeded", "The measured rate exceeds the cap by more than a twentieth over 10 seconds."
    CLEANUP_SKIPPED = "CleanupSkipped", "Partial files could not be removed in time; the message says where they may be."


class PolicyConditionType(_Documented):
    """The conditions of a FairnessPolicy."""

    ACCEPTED = "Accepted", "The policy is in force as it is written."
    LINKS_RESOLVED = "LinksResolved", "Every link has ends and a capacity: those by `networkPath` find both."
    TENANTS_MATCHED = "TenantsMatched", "Every tenant's selector matches a namespace, and no namespace is matched by two of them."
    GUARANTEES_MET = "GuaranteesMet", "On every link the guarantees of running jobs, and of the tenants that have some there, fit."
    SHARES_EXACT = (
        "SharesExact",
        "Every job's share obeys the rule of fair shares; without it shares still keep to capacities and guarantees.",
    )


class PolicyReason(_Documented):
    """Why a condition of a FairnessPolicy is what it is."""

    IN_FORCE = "InForce", "The shares of all jobs follow from this policy."
    OTHER_POLICY_IN_FORCE = "OtherPolicyInForce", "An older FairnessPolicy is in force. Only one can be: delete one, or merge them."
    INVALID_SPEC = "InvalidSpec", "A field has a value that cannot work; the message names it. The last good version stays in force."
    LAST_GOOD_UNKNOWN = (
        "LastGoodUnknown",
        "A field has a value that cannot work, and the operator was restarted since the last good version. Caps stay, and no job starts.",
    )

    ALL_RESOLVED = "AllResolved", "It is known which jobs cross each link and what it carries."
    PATH_NOT_FOUND = (
        "PathNotFound",
        "A link's `networkPath` names no NetworkPath; the message has both names. The link stays as it was last, or is not shared.",
    )
    NO_CAPACITY = (
        "NoCapacity",
        "A link by `networkPath` has no capacity of its own, and the path declares none, or too small a one for headroom and floor;"
        " the message names both. The link stays as it was last, or is not shared.",
    )

    ALL_MATCHED = "AllMatched", "Each tenant has namespaces, and each namespace one tenant at most."
    SELECTOR_MATCHES_NOTHING = "SelectorMatchesNothing", "A tenant's selector matches no namespace; the message names the tenant."
    SELECTORS_OVERLAP = "SelectorsOverlap", "A namespace is matched by several tenants and belongs to the first; the message names it."

    GUARANTEES_FIT = "GuaranteesFit", "Everything promised on every link fits."
    GUARANTEES_SHRUNK = (
        "GuaranteesShrunk",
        "More is promised than there is; guarantees shrink in proportion. The message names links and tenants.",
    )

    EXACT = "Exact", "The shares are the fair ones."
    APPROXIMATED = (
        "Approximated",
        "No fair shares were found in time for some jobs, which rose together instead; the message has their number.",
    )


class PathConditionType(_Documented):
    """The conditions of a NetworkPath."""

    ACCEPTED = "Accepted", "What jobs measure between these ends is kept here."
    MEASURED = "Measured", "The path has been measured; the message says when and by what."


class PathReason(_Documented):
    """Why a condition of a NetworkPath is what it is."""

    IN_USE = "InUse", "No other NetworkPath stands for the same ends."
    OTHER_PATH_IN_USE = "OtherPathInUse", "Another NetworkPath names the same ends and is older: delete one of them."
    PROBED = "Probed", "An advisor probed the path."
    NOT_MEASURED = "NotMeasured", "No transfer has measured the path yet."


class DtnConditionType(_Documented):
    """The conditions of a DataTransferNode."""

    READY = "Ready", "The node's agent reports, and what it reports can be used."
    TUNED = "Tuned", "The host is set up for fast transfers over the paths that are known."


class DtnReason(_Documented):
    """Why a condition of a DataTransferNode is what it is."""

    AGENT_REPORTS = "AgentReports", "The agent has reported lately."
    NEVER_REPORTED = (
        "NeverReported",
        "No agent has reported from this node: check the chart value `nodeAgent.enabled` and the node's label (`nodeAgent.nodeSelector`).",
    )
    AGENT_SILENT = (
        "AgentSilent",
        "The agent has not reported for some time, so what it found counts as unknown: look at its pod on the node.",
    )
    CLOCK_AHEAD = "ClockAhead", "The agent's report is from the future, so its age is unknown: set the node's clock."
    SEVERAL_AGENTS = (
        "SeveralAgents",
        "Two agents write reports of this node in turn, and neither is believed: stop one of them. They may belong to two releases.",
    )
    SETTINGS_AS_ADVISED = "SettingsAsAdvised", "Nothing that is known of the host's settings holds transfers back."
    SETTINGS_TO_CHANGE = (
        "SettingsToChange",
        "Some of the host's settings hold transfers back: `status.advice` has what to set, why, the command, and a page for each.",
    )
    SETTINGS_UNKNOWN = "SettingsUnknown", "Nothing is known of the host's settings."
    NODE_GONE = (
        "NodeGone",
        "The cluster has no node of this name. Delete the DataTransferNode if the node does not come back; what its spec declares is kept"
        " until then.",
    )
