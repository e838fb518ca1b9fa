"""`TransferJob.spec`: what a user asks for. Bounds and rules here are the ones the API server enforces."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

from pydantic import Field

from fairlead.api.names import CONTROLLER
from fairlead.api.shared.fields import DEFAULT_WEIGHT, HEAVIEST, InterfaceName, ObjectName, RateText, rate_bounds
from fairlead.api.shared.quantity import parse_rate
from fairlead.api.shared.resource import ApiModel
from fairlead.api.shared.schema import cel, immutable, marks

MOST_STREAMS = 64
MOST_INTERFACES = 8
UNPRIVILEGED_ID = 65532
HIGHEST_ID = 2**31 - 1

AUTO_INTERFACE = "auto"

QUIC_CONTROLS: Final = ("cubic", "reno")
"""Congestion controls of the mover's QUIC, beside `Auto`."""
UDT_CONTROLS: Final = ("udt", "fixed", "reported", "blast")
"""Rate policies of the mover's UDT, the usual one first."""
CAPPED_CONTROLS: Final = ("fixed", "blast")
"""Those of UDT that send at the cap whatever others have, and so need one."""
SCAVENGER_CONTROL: Final = "ledbat++"
"""Congestion control of a scavenger over QUIC."""
SCAVENGER_CONTROL_TCP: Final = "lp"
"""The kernel's, of a scavenger over TCP."""
GIVING_WAY: Final = frozenset({SCAVENGER_CONTROL, "ledbat", SCAVENGER_CONTROL_TCP})
"""Congestion controls that leave a path to everybody else."""

AttachmentName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
AttachmentAddress = Annotated[
    str, Field(max_length=64, pattern=r"^(([0-9]{1,3}[.]){3}[0-9]{1,3}|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)/[0-9]{1,3}$")
]
Glob = Annotated[str, Field(min_length=1, max_length=256)]
GroupId = Annotated[int, Field(ge=0, le=HIGHEST_ID)]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]
SiteName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")]
NetworkName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
ResourceCount = Annotated[int, Field(ge=1, le=64)]

Network = Literal["Host", "Attachment", "Pod"]
Protocol = Literal["Auto", "TCP", "QUIC", "UDT"]
TrafficClass = Literal["Normal", "Scavenger"]
Encryption = Literal["Required", "None"]
Overwrite = Literal["Never", "IfDifferent", "Always"]
Verify = Literal["Checksum", "ReadBack"]
Preserve = Literal["Mode", "ModificationTime"]


class PersistentVolumeClaimSource(ApiModel):
    """A claim in the job's own namespace."""

    claim_name: ObjectName
    """Name of a PersistentVolumeClaim in the namespace of the job."""


class Volume(ApiModel):
    """Where files live."""

    persistent_volume_claim: PersistentVolumeClaimSource
    """The claim whose volume holds the files."""


_EXTENDED_RESOURCE: Final = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
_DIFFERENT: Final = "self.all(name, self.exists_one(other, other == name))"
SIDE_RULES: Final = (
    cel(
        "[has(self.node), has(self.nodeSelector), has(self.site)].filter(given, given).size() <= 1",
        "node, nodeSelector and site each say where this end runs: give one of them",
    ),
    cel(
        f"[has(self.interfaces), has(self.interfaceNetwork), self.interface != '{AUTO_INTERFACE}'].filter(given, given).size() <= 1",
        "interface, interfaces and interfaceNetwork each say what carries the data: give one of them",
    ),
    cel("!has(self.attachment) || !has(self.attachments)", "attachment and attachments each name what Multus attaches: give one of them"),
    cel(
        "!has(self.attachmentAddresses) || self.attachmentAddresses.size() =="
        " (has(self.attachments) ? self.attachments.size() : has(self.attachment) ? 1 : 0)",
        "attachmentAddresses are asked for in the order of the attachments: give one for each, or leave them out",
    ),
)
"""Rules over several fields of one end."""


class Side(ApiModel):
    """One end of a transfer: a directory of a volume, the node to reach it from and the network interface to use."""

    node: ObjectName | None = None
    """Node to run this end's mover on. Without `node`, `nodeSelector` and `site` it is the node to which the volume is confined; of several
    DataTransferNodes that can mount it the operator chooses one, and where there are none the scheduler does."""

    node_selector: Annotated[dict[str, LabelValue], Field(min_length=1, max_length=16)] | None = None
    """Labels of the nodes to choose from: one of the DataTransferNodes with all of them, or any such node where there are none."""

    site: SiteName | None = None
    """Site of the nodes to choose from: one of the DataTransferNodes with this `spec.site`, or, where there are none, of the nodes with the
    label `fairlead.io/site`."""

    volume: Volume
    """The volume that holds the directory."""

    path: Annotated[str, Field(max_length=1024)] = Field(
        default="",
        json_schema_extra=marks(
            cel("!self.startsWith('/')", "path is relative to the volume's root: remove the leading '/'"),
            cel(r"!self.matches('(^|/)[.][.]?(/|$)')", "path must not have the component '..' or '.': name the directory itself"),
            cel("!self.contains('//')", "path must not have an empty component: write one '/' between names"),
            cel(r"!self.matches('[\\x00-\\x1f\\x7f]')", "path must not hold control characters: rename the directory"),
        ),
    )
    """Directory beneath the volume's root, relative, without `..`. Empty for the whole volume. No symbolic link on it is followed."""

    interface: InterfaceName = AUTO_INTERFACE
    """Name of the network interface that carries the data, or `auto`: the one with the most left to give that reaches the other end. Where
    no DataTransferNode describes the node, `auto` is the fastest that is not the node's management interface."""

    interfaces: Annotated[tuple[InterfaceName, ...], Field(min_length=2, max_length=MOST_INTERFACES)] | None = Field(
        default=None,
        json_schema_extra=marks(
            cel(_DIFFERENT, "interfaces must name each interface once: remove the repeated one"),
            cel(f"!self.exists(name, name == '{AUTO_INTERFACE}')", "interfaces are names, and auto is none: use interface for auto"),
            list_type="atomic",
        ),
    )
    """Several network interfaces that carry the data at once. The first of the source is paired with the first of the destination, and so
    on."""

    interface_network: NetworkName | None = None
    """Name of the network that the interface must reach, as a DataTransferNode's `spec.interfaces` has it; the operator chooses among
    those that do."""

    attachment: AttachmentName | None = None
    """With network `Attachment`, the NetworkAttachmentDefinition of the job's own namespace by which Multus gives this end's pod the
    interface that carries the data."""

    attachments: Annotated[tuple[AttachmentName, ...], Field(min_length=2, max_length=MOST_INTERFACES)] | None = Field(
        default=None, json_schema_extra=marks(list_type="atomic")
    )
    """With network `Attachment`, several definitions whose interfaces carry the data at once, in pairs like `interfaces`."""

    attachment_addresses: Annotated[tuple[AttachmentAddress, ...], Field(min_length=1, max_length=MOST_INTERFACES)] | None = Field(
        default=None, json_schema_extra=marks(list_type="atomic")
    )
    """Addresses with prefix length, such as `198.18.1.7/24`, that Multus is asked to give to the attachments, in their order. The
    definition needs the capability `ips`, which the address plugins `static` and `host-local` serve. Without it the plugin chooses."""

    resources: Annotated[dict[str, ResourceCount], Field(min_length=1, max_length=4)] | None = Field(
        default=None,
        json_schema_extra=marks(
            cel(
                rf"self.all(name, name.matches('{_EXTENDED_RESOURCE}') && !name.matches('(^|[.])kubernetes[.]io/'))",
                "resources takes what device plugins offer, such as example.com/sriov:"
                " leave others out, the processors and memory of movers are set by the chart",
            )
        ),
    )
    """Devices that this end's mover needs of its node, such as an SR-IOV function, by the name of the extended resource, with how many."""

    @property
    def claim_name(self) -> str:
        """Name of the claim whose volume holds the directory."""
        return self.volume.persistent_volume_claim.claim_name

    @property
    def named_interfaces(self) -> tuple[str, ...]:
        """The interfaces that the job names; empty where it leaves the choice."""
        if self.interfaces is not None:
            return self.interfaces
        return () if self.interface == AUTO_INTERFACE else (self.interface,)

    @property
    def named_attachments(self) -> tuple[str, ...]:
        """The definitions that the job names, in order."""
        return self.attachments or (() if self.attachment is None else (self.attachment,))


class Streams(ApiModel):
    """How many parallel data connections may be used."""

    min: Annotated[int, Field(ge=1, le=MOST_STREAMS)] = 1
    """Fewest parallel streams."""

    max: Annotated[int, Field(ge=1, le=MOST_STREAMS)] = 32
    """Most parallel streams."""


_NO_UDT: Final = "!has(self.protocol) || self.protocol != 'UDT' || "
_NO_QUIC: Final = "!has(self.protocol) || self.protocol != 'QUIC' || "
_SCAVENGER: Final = "has(self.trafficClass) && self.trafficClass == 'Scavenger'"
_NO_SCAVENGER: Final = "!has(self.trafficClass) || self.trafficClass != 'Scavenger' || "
_OVER_TCP: Final = "has(self.protocol) && self.protocol == 'TCP'"
_OF_QUIC: Final = ", ".join(f"'{name}'" for name in ("Auto", *QUIC_CONTROLS))
_OF_UDT: Final = ", ".join(f"'{name}'" for name in ("Auto", *UDT_CONTROLS))
_OWN_ASCP: Final = "Ascp"
"""A protocol that is asked for and is none: a value of the schema, so that a rule can say what to do instead."""
_NO_ASCP: Final = cel(
    f"self != '{_OWN_ASCP}'",
    f"transport.protocol {_OWN_ASCP} is refused, as movers run no other program: run your own ascp first, then a job with"
    " transport.protocol Auto and data.overwrite IfDifferent, which checks what ascp brought and sends the rest",
)
TRANSPORT_RULES: Final = (
    cel(
        f"{_NO_QUIC}!has(self.encryption) || self.encryption != 'None'",
        "transport.protocol QUIC encrypts in any case: set transport.encryption to Required, or transport.protocol to TCP",
    ),
    cel(
        f"{_NO_QUIC}{_SCAVENGER} || !has(self.congestionControl) || self.congestionControl in [{_OF_QUIC}]",
        f"transport.protocol QUIC has the congestion controls {' and '.join(QUIC_CONTROLS)}:"
        " set transport.congestionControl to one of them or Auto, or transport.protocol to TCP for those of the kernel",
    ),
    cel(
        f"{_NO_UDT}!has(self.encryption) || self.encryption != 'None'",
        "transport.protocol UDT encrypts in any case: set transport.encryption to Required, or transport.protocol to TCP",
    ),
    cel(
        f"{_NO_UDT}!has(self.congestionControl) || self.congestionControl in [{_OF_UDT}]",
        f"transport.protocol UDT has the congestion controls {', '.join(UDT_CONTROLS[:-1])} and {UDT_CONTROLS[-1]}:"
        " set transport.congestionControl to one of them or Auto, or transport.protocol to TCP for those of the kernel",
    ),
    cel(
        f"{_NO_UDT}!({_SCAVENGER})",
        "transport.protocol UDT gives way to nobody: set transport.trafficClass to Normal, or transport.protocol to QUIC or Auto",
    ),
    cel(
        f"{_NO_SCAVENGER}({_OVER_TCP}) || !has(self.encryption) || self.encryption != 'None'",
        "transport.trafficClass Scavenger goes over QUIC, which encrypts in any case: set transport.encryption to Required,"
        f" or transport.protocol to TCP for the kernel's {SCAVENGER_CONTROL_TCP}",
    ),
    cel(
        f"{_NO_SCAVENGER}!has(self.congestionControl) || self.congestionControl in"
        f" ({_OVER_TCP} ? ['Auto', '{SCAVENGER_CONTROL_TCP}'] : ['Auto', '{SCAVENGER_CONTROL}'])",
        f"transport.trafficClass Scavenger has the congestion control {SCAVENGER_CONTROL}, with transport.protocol TCP"
        f" {SCAVENGER_CONTROL_TCP}: set transport.congestionControl to Auto, or transport.trafficClass to Normal",
    ),
    cel(
        f"!has(self.congestionControl) || self.congestionControl != '{SCAVENGER_CONTROL}' || {_SCAVENGER}",
        f"transport.congestionControl {SCAVENGER_CONTROL} is that of scavengers: set transport.trafficClass to Scavenger",
    ),
    cel(
        f"{_NO_SCAVENGER}!has(self.streams) || !has(self.streams.min) || self.streams.min <= 1",
        "transport.trafficClass Scavenger has one stream on each path: set transport.streams.min to 1",
    ),
)
"""Rules over several fields of the transport."""


class Transport(ApiModel):
    """How the bytes travel."""

    protocol: Protocol = Field(default="Auto", json_schema_extra=marks(_NO_ASCP, enum=[*get_args(Protocol), _OWN_ASCP]))
    """Transport protocol of the data. `Auto` means TCP, of a scavenger QUIC. An attempt with `Auto` uses QUIC, or UDT within a share by a
    FairnessPolicy, where jobs of the namespace that named it were clearly faster on the same path than over TCP. Where UDP does not get
    through, a transfer over them goes on over TCP, and the condition `ProtocolKept` says so. `Ascp` is refused, with what to do
    instead."""

    traffic_class: TrafficClass = "Normal"
    """`Scavenger` gives way to everybody's traffic and takes what is left: one stream on each path over QUIC with the congestion control
    `ledbat++`, or with protocol `TCP` the kernel's `lp`. Where UDP does not get through, it goes on with `lp` if the node allows that, and
    otherwise its attempt ends with `ProtocolUnavailable`: it never takes the part of a normal flow."""

    congestion_control: Annotated[str, Field(max_length=15, pattern=r"^(Auto|[a-z0-9_+]{1,15})$")] = "Auto"
    """A congestion control of the sender's kernel, such as `cubic` or `bbr`, or `Auto` for the advisor's choice. QUIC has `cubic` and
    `reno` of its own, UDT `udt` (what `Auto` means there), `fixed`, `reported` and `blast`; `fixed` and `blast` need `bandwidth.limit`. A
    scavenger's and UDT's are never chosen by the advisor."""

    streams: Streams = Field(
        default_factory=Streams,
        json_schema_extra=marks(
            cel("self.min <= self.max", "transport.streams.min must not exceed transport.streams.max: lower min or raise max"),
            default=Streams().to_object(),
        ),
    )
    """Bounds for the number of parallel streams."""

    encryption: Encryption = "Required"
    """Whether data is encrypted on the wire. With `None` it can be read on its way, but still not changed unnoticed: both ends are
    authenticated, every block is keyed, and what controls the transfer is encrypted in any case."""

    @property
    def is_scavenger(self) -> bool:
        """Whether the job gives way to everybody."""
        return self.traffic_class == "Scavenger"

    @property
    def named_protocol(self) -> Literal["TCP", "QUIC", "UDT"] | None:
        """What is to carry the data; None where that is left open."""
        if self.protocol == "Auto":
            return "QUIC" if self.is_scavenger else None
        return self.protocol

    def congestion_control_over(self, protocol: Literal["TCP", "QUIC", "UDT"]) -> str | None:
        """The congestion control that follows from the job where its data go over `protocol`; None where the advisor chooses."""
        if self.congestion_control != "Auto":
            return self.congestion_control
        if self.is_scavenger:
            return SCAVENGER_CONTROL if protocol == "QUIC" else SCAVENGER_CONTROL_TCP
        return UDT_CONTROLS[0] if protocol == "UDT" else None

    @property
    def stream_bounds(self) -> Streams:
        """Fewest and most streams on a path. Several flows that each give way would together take more than one."""
        return Streams(min=1, max=1) if self.is_scavenger else self.streams


class Bandwidth(ApiModel):
    """What the job may take of the network."""

    limit: RateText | None = Field(default=None, json_schema_extra=marks(rate_bounds("bandwidth.limit")))
    """Most the job may send, in decimal bits per second, e.g. `2G`, `200M`, `500k`. May change while the job runs. No limit if absent;
    jobs over UDT with `fixed` or `blast` must have one."""

    guarantee: RateText | None = Field(default=None, json_schema_extra=marks(rate_bounds("bandwidth.guarantee")))
    """What the job shall get in any case on links of the FairnessPolicy, out of what is its tenant's there; it waits until that has room.
    None if absent."""

    weight: Annotated[int, Field(ge=1, le=HEAVIEST)] = DEFAULT_WEIGHT
    """Share of the job among its tenant's jobs on links of the FairnessPolicy, relative to their weights. May change while it runs."""

    @property
    def limit_bps(self) -> int | None:
        """The limit in bits per second, None without one."""
        return None if self.limit is None else parse_rate(self.limit)

    @property
    def guarantee_bps(self) -> int:
        """The guarantee in bits per second, 0 without one."""
        return 0 if self.guarantee is None else parse_rate(self.guarantee)


class Data(ApiModel):
    """What is moved and what happens to files that are already there."""

    overwrite: Overwrite = "IfDifferent"
    """What to do with a file that exists at the destination: `Never` fails the job, `IfDifferent` and `Always` replace it."""

    verify: Verify = "Checksum"
    """How the destination's content is proven: by a checksum for every block and file, or by that and a second reading from the disk."""

    preserve: Annotated[tuple[Preserve, ...], Field(max_length=2)] = Field(
        default=("Mode", "ModificationTime"), json_schema_extra=marks(list_type="set")
    )
    """Which attributes of files and directories are carried over."""

    include: Annotated[tuple[Glob, ...], Field(max_length=64)] = Field(default=(), json_schema_extra=marks(list_type="atomic"))
    """Globs of paths, relative to the source, to move. Empty for all."""

    exclude: Annotated[tuple[Glob, ...], Field(max_length=64)] = Field(default=(), json_schema_extra=marks(list_type="atomic"))
    """Globs of paths, relative to the source, to leave out. Exclusion wins over inclusion."""


class SecurityContext(ApiModel):
    """Whom the movers run as; they read and write files with these rights."""

    run_as_user: Annotated[int, Field(ge=0, le=HIGHEST_ID)] = Field(
        default=UNPRIVILEGED_ID,
        json_schema_extra=marks(cel("self >= 1", "securityContext.runAsUser must be at least 1: movers never run as root")),
    )
    """User ID of the movers. Never root. An administrator may allow certain IDs alone in a namespace, and replace 65532 by one of them."""

    run_as_group: GroupId = UNPRIVILEGED_ID
    """Primary group ID of the movers. An administrator may limit it and replace 65532 as with `runAsUser`."""

    supplemental_groups: Annotated[tuple[GroupId, ...], Field(max_length=32)] = Field(default=(), json_schema_extra=marks(list_type="set"))
    """Further group IDs of the movers."""

    fs_group: GroupId | None = None
    """Group that is made the owner of the destination's volume where its type supports it; at the source, where nothing is changed, the
    movers are in this group. Absent, owners are left as they are."""


class TransferJobSpec(ApiModel):
    """What is to be moved, from where to where, and how."""

    source: Side = Field(json_schema_extra=marks(immutable("source"), *SIDE_RULES))
    """Where the files are."""

    destination: Side = Field(json_schema_extra=marks(immutable("destination"), *SIDE_RULES))
    """Where the files go."""

    network: Network = Field(
        default="Host",
        json_schema_extra=marks(immutable("network")),
    )
    """How movers reach each other. `Host` uses the nodes' own network and needs an administrator's permission for the namespace; `Pod`
    uses the pod network; `Attachment` uses the interfaces that Multus attaches to the pods, see `attachment` of both ends."""

    transport: Transport = Field(
        default_factory=Transport, json_schema_extra=marks(immutable("transport"), *TRANSPORT_RULES, default=Transport().to_object())
    )
    """How the bytes travel."""

    bandwidth: Bandwidth | None = Field(
        default=None,
        json_schema_extra=marks(
            cel(
                "!has(self.guarantee) || !has(self.limit) || quantity(self.guarantee).compareTo(quantity(self.limit)) <= 0",
                "bandwidth.guarantee must not exceed bandwidth.limit: lower guarantee or raise limit",
            )
        ),
    )
    """What the job may take of the network."""

    priority: Annotated[int, Field(ge=0, le=100)] = 0
    """Who is first when jobs of one tenant wait for a link of the FairnessPolicy: the higher. A minute of waiting counts as much as one of
    priority."""

    data: Data = Field(default_factory=Data, json_schema_extra=marks(immutable("data"), default=Data().to_object()))
    """What is moved and what happens to files that are already there."""

    suspend: bool = False
    """Stops the movers and keeps what has arrived; setting it back to false resumes without sending that again."""

    preflight_only: bool = Field(default=False, json_schema_extra=marks(immutable("preflightOnly")))
    """Checks everything that is checked before data flow, with movers on both nodes, and moves nothing. The job succeeds with the reason
    `PreflightPassed`, or fails with that of the check; `status.preflight` has the checks. `fairlead preflight` makes such a job."""

    managed_by: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9][-a-z0-9.]*/[A-Za-z0-9][-A-Za-z0-9_.]*$")] = Field(
        default=CONTROLLER, json_schema_extra=marks(immutable("managedBy"))
    )
    """Controller that serves the job. Fairlead leaves jobs of other controllers alone."""

    backoff_limit: Annotated[int, Field(ge=0, le=100)] = 6
    """How many failed attempts are followed by another one before the job fails."""

    active_deadline_seconds: Annotated[int, Field(ge=1, le=31_536_000)] | None = None
    """Time from the first attempt after which the job fails, suspension included. No deadline if absent."""

    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=315_360_000)] | None = None
    """Time after which a finished job is deleted. Kept if absent."""

    security_context: SecurityContext = Field(
        default_factory=SecurityContext,
        json_schema_extra=marks(immutable("securityContext"), default=SecurityContext().to_object()),
    )
    """Whom the movers run as."""
