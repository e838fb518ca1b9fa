"""`DataTransferNode.status`: what the node's agent finds there, and what the operator makes of it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from fairlead.api.datatransfernode.spec import LARGEST_MTU, MOST_INTERFACES, MOST_NUMA_NODES, NumaNode
from fairlead.api.shared.fields import Condition, InterfaceName, RateText
from fairlead.api.shared.resource import ApiModel, Timestamp
from fairlead.api.shared.schema import marks

MOST_ADDRESSES: Final = 16
MOST_FUNCTIONS: Final = 256
MOST_MEMBERS: Final = 64
MOST_STORAGE: Final = 16
MOST_CONTROLS: Final = 32
MOST_BYTES: Final = 2**62
"""A power of two that a floating-point number and a signed one of 64 bits hold: the API server compares a bound as both."""
MOST_CPUS: Final = 65536
MOST_SUMMARY: Final = 256
MOST_ADVICE: Final = 32

Word = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:+\-]*$")]
"""What drivers, qdiscs, clock sources and the like are called; nothing else is taken over from a node."""
Control = Annotated[str, Field(min_length=1, max_length=15, pattern=r"^[a-z0-9][a-z0-9_\-]*$")]
ByteCount = Annotated[int, Field(ge=0, le=MOST_BYTES)]
AddressText = Annotated[str, Field(min_length=4, max_length=49, pattern=r"^[0-9a-fA-F:.]+/[0-9]{1,3}$")]
PathText = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^/[^\x00-\x1f\x7f]*$")]
CpuList = Annotated[str, Field(max_length=1024, pattern=r"^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$")]
LoadLevel = Literal["Idle", "Moderate", "High", "Overloaded"]


class VirtualFunction(ApiModel):
    """An SR-IOV virtual function of an interface."""

    index: Annotated[int, Field(ge=0, le=65535)]
    """Its number."""

    maximum_rate: RateText | None = None
    """The rate that its device limits it to. Absent without a limit."""


class BondStatus(ApiModel):
    """A bond that an interface is, or lies on as a VLAN does."""

    name: InterfaceName
    """Name of the bond."""

    members: Annotated[int, Field(ge=1, le=MOST_MEMBERS)]
    """Interfaces over which it spreads what it sends: one of an active-backup bond, else all of its own."""

    hash_policy: Word | None = None
    """By what it chooses the member of a packet, e.g. `layer3+4`. Absent for bonds that do so otherwise."""


class InterfaceStatus(ApiModel):
    """An interface as the agent finds it. What is absent is unknown: many virtual interfaces have no speed, NUMA node or PCI address."""

    name: InterfaceName
    """Name of the interface on the node."""

    kind: Word | None = None
    """Kind of a virtual interface, e.g. `bond`, `vlan`, `bridge`. Absent for a device."""

    driver: Word | None = None
    """Name of its driver, e.g. `mlx5_core`."""

    rate: RateText | None = None
    """Its speed in decimal bits per second."""

    mtu: Annotated[int, Field(ge=0, le=LARGEST_MTU)] | None = None
    """Largest IP packet in bytes."""

    addresses: Annotated[tuple[AddressText, ...], Field(max_length=MOST_ADDRESSES)] = ()
    """Its addresses with the length of their prefix."""

    numa_node: NumaNode | None = None
    """Number of the NUMA node that its device is on."""

    pci_address: Annotated[str, Field(max_length=16, pattern=r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")] | None = None
    """PCI address of its device, e.g. `0000:3b:00.0`."""

    carrier: bool | None = None
    """Whether it is up and its link works."""

    management: bool = False
    """Whether it holds the kubelet's address."""

    bond: BondStatus | None = None
    """The bond that it is or lies on."""

    qdisc: Word | None = None
    """Its queueing discipline, e.g. `fq`."""

    interrupt_cpus: CpuList | None = None
    """CPUs that its device's interrupts go to, e.g. `0-15`."""

    virtual_functions: Annotated[tuple[VirtualFunction, ...], Field(max_length=MOST_FUNCTIONS)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("index",))
    )
    """Its SR-IOV virtual functions."""


class KernelStatus(ApiModel):
    """The kernel and its settings. What is absent is unknown."""

    release: Word | None = None
    """Its release, e.g. `6.12.0`."""

    congestion_controls: Annotated[tuple[Control, ...], Field(max_length=MOST_CONTROLS)] = ()
    """Congestion controls that it offers."""

    allowed_congestion_controls: Annotated[tuple[Control, ...], Field(max_length=MOST_CONTROLS)] = ()
    """Those that a process without privilege may choose."""

    receive_buffer_maximum_bytes: ByteCount | None = None
    """Largest receive buffer that a process may ask for (`net.core.rmem_max`)."""

    send_buffer_maximum_bytes: ByteCount | None = None
    """Largest send buffer that a process may ask for (`net.core.wmem_max`)."""

    tcp_receive_buffer_maximum_bytes: ByteCount | None = None
    """Largest receive buffer that TCP grows to by itself (third number of `net.ipv4.tcp_rmem`)."""

    tcp_send_buffer_maximum_bytes: ByteCount | None = None
    """Largest send buffer that TCP grows to by itself (third number of `net.ipv4.tcp_wmem`)."""

    default_qdisc: Word | None = None
    """Queueing discipline of new interfaces (`net.core.default_qdisc`)."""

    clock_source: Word | None = None
    """What it tells the time by, e.g. `tsc`."""

    cpu_governor: Word | None = None
    """Frequency governor of the CPUs, e.g. `performance`; of several the one that saves most. Absent where the CPUs have none."""


class NumaNodeStatus(ApiModel):
    """A NUMA node and its CPUs."""

    number: NumaNode
    """Its number."""

    cpus: CpuList = ""
    """Its CPUs, e.g. `0-15,32-47`."""


class StorageStatus(ApiModel):
    """Space of a file system from or to which the node moves data."""

    path: PathText
    """Where it is on the node."""

    total_bytes: ByteCount
    """Its size."""

    free_bytes: ByteCount
    """What is free for processes without privilege, as of the last report. The agent serves the present figure."""


class AgentStatus(ApiModel):
    """Which agent reports."""

    instance: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9.\-]*$")]
    """UID of its pod, or a random one where it runs in none. Two that take turns here mean two agents for one node."""

    version: Word | None = None
    """Its version."""


class NodeReport(ApiModel):
    """What an agent finds on its node: the part of the status that it writes."""

    agent: AgentStatus | None = None
    """Which agent reports."""

    interfaces: Annotated[tuple[InterfaceStatus, ...], Field(max_length=MOST_INTERFACES)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("name",))
    )
    """Its interfaces, without loopback and the ends of pods; those with addresses first."""

    kernel: KernelStatus | None = None
    """The kernel and its settings."""

    cpus: Annotated[int, Field(ge=1, le=MOST_CPUS)] | None = None
    """Number of CPUs."""

    numa_nodes: Annotated[tuple[NumaNodeStatus, ...], Field(max_length=MOST_NUMA_NODES)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("number",))
    )
    """Its NUMA nodes."""

    storage: Annotated[tuple[StorageStatus, ...], Field(max_length=MOST_STORAGE)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("path",))
    )
    """File systems that the chart value `nodeAgent.storagePaths` names."""

    load: LoadLevel | None = None
    """Load of the last 5 minutes: `Idle` below a quarter of the CPUs, `Moderate` below three quarters, `High` up to one and a half for
    each CPU, `Overloaded` above."""

    last_report_time: Timestamp | None = None
    """When the agent wrote this: when something changed, and every 5 minutes."""


class NodeSummary(ApiModel):
    """The columns of `kubectl get dtn` in words."""

    interfaces: Annotated[str, Field(max_length=MOST_SUMMARY)] = ""
    """Interfaces that may carry data, with their rates, e.g. `data0 100G, data1 100G (no carrier)`."""

    jobs: Annotated[str, Field(max_length=32)] = ""
    """Movers on the node and slots, e.g. `3/8`."""

    free: Annotated[str, Field(max_length=MOST_SUMMARY)] = ""
    """Free space of each file system in the order of `storage`, e.g. `12Ti, 800Gi`."""


class TuningAdvice(ApiModel):
    """A setting of the host that an administrator should change."""

    rule: Annotated[str, Field(max_length=32)]
    """What it is about, e.g. `SocketBuffers`."""

    interface: InterfaceName | None = None
    """The interface that it belongs to. Absent for a setting of the whole host."""

    found: Annotated[str, Field(max_length=512)]
    """What is set."""

    recommended: Annotated[str, Field(max_length=512)]
    """What should be set."""

    why: Annotated[str, Field(max_length=512)]
    """The reason."""

    command: Annotated[str, Field(max_length=512)]
    """What sets it until the host starts again. Read the page before running it."""

    page: Annotated[str, Field(max_length=128)]
    """The page of the documentation that says how to keep and check it."""


class DataTransferNodeStatus(NodeReport):
    """What the node's agent finds there. The operator writes `jobs`, `summary`, `advice`, `conditions` and `observedGeneration`."""

    jobs: Annotated[int, Field(ge=0)] | None = None
    """Movers on the node that have not ended, written at most every 10 seconds."""

    summary: NodeSummary | None = None
    """The columns of `kubectl get dtn`."""

    advice: Annotated[tuple[TuningAdvice, ...], Field(max_length=MOST_ADVICE)] = Field(
        default=(), json_schema_extra=marks(list_type="atomic")
    )
    """What should be set on the host for fast transfers over the paths that are known, what costs most first."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("type",))
    )
    """What holds for the node."""

    observed_generation: int | None = None
    """The generation of the spec that the conditions answer."""
