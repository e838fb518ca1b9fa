"""Every name, address, path and version of the local cluster: the one place where they are decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.errors import CommandUsageError

PREFIX = "fairlead-"

# All addresses are in 198.18.0.0/15, reserved for benchmarking (RFC 2544, appendix C.2.2): they cannot be mistaken for anyone's.
MANAGEMENT = IPv4Network("198.18.0.0/24")
PODS = IPv4Network("198.18.64.0/18")
SERVICES = IPv4Network("198.18.128.0/20")
DATA = IPv4Network("198.19.0.0/24")
SECOND_DATA = IPv4Network("198.19.1.0/24")
BRIDGED_PODS = IPv4Network("198.19.16.0/20")
"""Pods on a bridge of a transfer node: a /24 for each, routed over the second path to the other node."""

MULTUS_USER = "fairlead:multus"
"""Whom the API server knows Multus as."""

CONTROL_PLANE = "cp"
CONTROL_PLANE_ADDRESS = MANAGEMENT[1]
API_SERVER_PORT = 6443
KUBERNETES_SERVICE_ADDRESS = SERVICES[1]
DNS_SERVICE_ADDRESS = SERVICES[10]
CLUSTER_DOMAIN = "cluster.local"

MANAGEMENT_BRIDGE = "mgmt-bridge"
MANAGEMENT_INTERFACE = "mgmt0"
DATA_MTU = 1500

WORKLOAD_UID = 65532
"""The user that mover pods run as, and that owns the disks made for them."""

KUBERNETES_VERSION = "v1.34.4"
CONTAINERD_VERSION = "v2.4.2"
RUNC_VERSION = "v1.5.2"
CNI_VERSION = "v1.9.1"
MULTUS_VERSION = "v4.2.3"
ETCD_VERSION = "v3.6.16"
COREDNS_VERSION = "v1.15.0"
PROMETHEUS_VERSION = "v0.312.0"
PROMETHEUS_OPERATOR_VERSION = "v0.92.0"
HELM_VERSION = "v3.22.0"
KUBECONFORM_VERSION = "v0.8.0"
CILIUM_VERSION = "v1.20.0"
KUEUE_VERSION = "v0.15.0"
KREW_VERSION = "v0.4.4"
KSTATUS_VERSION = "v0.37.2"
PAUSE_VERSION = "v1"
MINIMUM_GO = (1, 26, 6)
"""What the go.mod of containerd asks for; the build never downloads another toolchain."""
MINIMUM_RUST = (1, 85)
"""The `rust-version` of the workspace."""
MINIMUM_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class WanSettings:
    """An emulated path, in the notation of fairlead-wan."""

    rate: str
    delay: str
    buffer: str
    loss: str = "0"
    reorder: str = "0"
    corrupt: str = "0"

    def arguments(self) -> list[str]:
        return [word for name, value in asdict(self).items() for word in (f"--{name}", value)]


@dataclass(frozen=True, slots=True)
class DataLink:
    """A data interface of every transfer node, and the emulated path that joins them."""

    interface: str
    network: IPv4Network
    ethernet: bool
    """Whether frames pass, as bridges and macvlan need, or bare IP packets."""
    defaults: WanSettings


DATA_LINKS: tuple[DataLink, ...] = (
    DataLink("data0", DATA, False, WanSettings(rate="200M", delay="30ms", buffer="3MB")),
    DataLink("data1", SECOND_DATA, True, WanSettings(rate="100M", delay="20ms", buffer="1MB")),
)


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """One Kubernetes node: a box with a management interface and, for a data transfer node, data interfaces."""

    name: str
    index: int
    labels: Mapping[str, str]
    is_transfer_node: bool = False

    @property
    def namespace(self) -> str:
        return namespace(self.name)

    @property
    def management_address(self) -> IPv4Address:
        return MANAGEMENT[10 + self.index]

    @property
    def pod_cidr(self) -> IPv4Network:
        return list(PODS.subnets(new_prefix=24))[self.index]

    @property
    def bridged_pods(self) -> IPv4Network:
        """What a bridge plugin on this transfer node may give to pods."""
        return list(BRIDGED_PODS.subnets(new_prefix=24))[self.index]

    def data_address(self, link: DataLink) -> IPv4Interface:
        """The address of a transfer node's data interface."""
        return IPv4Interface(f"{link.network[self.index]}/{link.network.prefixlen}")


def _transfer_node(name: str, index: int, site: str) -> ClusterNode:
    labels = {"fairlead.io/dtn": "true", "fairlead.io/site": site, "topology.kubernetes.io/zone": site}
    return ClusterNode(name, index, labels, is_transfer_node=True)


NODES: tuple[ClusterNode, ...] = (
    ClusterNode("mgmt", 0, {"fairlead.io/role": "mgmt", "topology.kubernetes.io/zone": "site-mgmt"}),
    _transfer_node("dtn-a", 1, "site-a"),
    _transfer_node("dtn-b", 2, "site-b"),
)
TRANSFER_NODES: tuple[ClusterNode, ...] = tuple(node for node in NODES if node.is_transfer_node)
BOXES: tuple[str, ...] = (CONTROL_PLANE, *(node.name for node in NODES))


def namespace(box: str) -> str:
    """The network namespace of a box."""
    return f"{PREFIX}{box}"


def link_named(name: str) -> DataLink:
    """The data link of this interface's name or number; raises UsageError naming those that exist."""
    for number, link in enumerate(DATA_LINKS):
        if name in (link.interface, str(number)):
            return link
    raise CommandUsageError(f"--link: there is no data link {name!r}; they are {', '.join(link.interface for link in DATA_LINKS)}")


def node_named(name: str) -> ClusterNode:
    """The node called `name`; raises UsageError naming those that exist."""
    for node in NODES:
        if node.name == name:
            return node
    raise CommandUsageError(f"there is no node {name!r}; the nodes are {', '.join(node.name for node in NODES)}")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things are on this machine.

    `cache` keeps what is costly to make and survives clones and clusters; `state` belongs to one running cluster and is gone after `down`.
    """

    repository: Path
    cache: Path
    state: Path
    cargo_target: Path

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> Layout:
        """Paths by the XDG conventions; FAIRLEAD_STATE and CARGO_TARGET_DIR move two of them."""
        home = Path(environment.get("HOME") or "/root")
        cache_home = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
        cache = cache_home / "fairlead"
        state = Path(environment.get("FAIRLEAD_STATE") or cache / "cluster")
        cargo_target = Path(environment.get("CARGO_TARGET_DIR") or cache / "cargo-target")
        repository = CHECKOUT
        for name, path in (("XDG_CACHE_HOME", cache_home), ("FAIRLEAD_STATE", state)):
            if not path.is_absolute():
                raise CommandUsageError(f"{name} must be an absolute path, not {str(path)!r}")
        if state.is_relative_to("/run"):
            raise CommandUsageError(
                "FAIRLEAD_STATE must not be under /run, which every node mounts anew; leave it unset or choose another folder"
            )
        return Layout(repository, cache, state, repository / cargo_target)

    @property
    def programs(self) -> Path:
        return self.cache / "bin"

    @property
    def image_archives(self) -> Path:
        return self.cache / "images"

    @property
    def logs(self) -> Path:
        return self.cache / "log"

    @property
    def checkout_programs(self) -> Path:
        return self.repository / "build" / "bin"

    @property
    def keys(self) -> Path:
        return self.state / "pki"

    @property
    def kubeconfigs(self) -> Path:
        return self.state / "kube"

    @property
    def admin_kubeconfig(self) -> Path:
        return self.kubeconfigs / "admin.conf"

    @property
    def run(self) -> Path:
        return self.state / "run"

    @property
    def write_limits(self) -> Path:
        """The record of devices that are slowed."""
        return self.state / "write-limits"

    @property
    def cluster_logs(self) -> Path:
        return self.state / "log"

    def wan_control_socket(self, link: DataLink) -> Path:
        return self.run / f"wan-{link.interface}.sock"

    def node_root(self, node: str) -> Path:
        """The folder that holds what a node keeps on its disk."""
        return self.state / "nodes" / node


NODE_FOLDERS = (
    "/etc/cni",
    "/opt/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/lib/cni",
    "/var/log/pods",
    "/var/log/containers",
)
"""The default paths of kubelet, containerd and CNI; each node has its own behind a bind mount that only its box sees."""

DISKS_FOLDER = Path("/var/lib/kubelet/disks")
