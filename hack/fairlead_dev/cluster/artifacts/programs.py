"""Which programs a cluster needs, in which version, and how each is compiled."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.cluster import layout
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.errors import CommandUsageError

GO_MODULES = CHECKOUT / "hack" / "cluster" / "go"
"""Modules of our own with pinned checksums, for programs whose own module cannot be installed by name and version."""

_CONTAINERD = "github.com/containerd/containerd/v2"
_CNI = "github.com/containernetworking/plugins"
_MULTUS = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"
_KUBERNETES_STAMPS = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True, slots=True)
class GoProgram:
    """A program compiled from the Go module proxy (or, for pause, from this repository)."""

    name: str
    group: str
    version: str
    package: str
    expected_s: float
    """What it took on two cores with empty caches."""
    module: str | None = None
    """The folder under go/ that pins it; None to install `package@version` by name."""
    link_flags: str = ""
    tags: str = ""
    cgo: bool = False

    def folder(self, programs: Path) -> Path:
        """Where it is kept: by version and by everything else that shapes it, so that an upgrade compiles anew."""
        recipe = [self.version, self.link_flags, self.tags, str(self.cgo)]
        if self.module:
            recipe += [file.read_text() for file in sorted((GO_MODULES / self.module).iterdir()) if file.is_file()]
        digest = hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:8]
        return programs / f"{self.group}-{self.version}-{digest}"

    def path(self, programs: Path) -> Path:
        return self.folder(programs) / self.name


def _kubernetes_link_flags() -> str:
    major, minor = layout.KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
    stamps = {
        "gitVersion": layout.KUBERNETES_VERSION,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "0" * 40,
        "buildDate": "1970-01-01T00:00:00Z",
    }
    return " ".join(f"-X {package}.{name}={value}" for package in _KUBERNETES_STAMPS for name, value in stamps.items())


def _kubernetes(name: str, expected_s: float) -> GoProgram:
    package = f"k8s.io/kubernetes/cmd/{name}"
    flags = _kubernetes_link_flags()
    return GoProgram(name, "kubernetes", layout.KUBERNETES_VERSION, package, expected_s, module="kubernetes", link_flags=flags)


def _containerd(name: str, expected_s: float) -> GoProgram:
    flags = f"-X {_CONTAINERD}/version.Version={layout.CONTAINERD_VERSION}"
    return GoProgram(name, "containerd", layout.CONTAINERD_VERSION, f"{_CONTAINERD}/cmd/{name}", expected_s, link_flags=flags)


def _prometheus(name: str, expected_s: float) -> GoProgram:
    """Of all kinds of discovery only those of Kubernetes and DNS: the others are most of the program."""
    package = f"github.com/prometheus/prometheus/cmd/{name}"
    tags = "netgo,remove_all_sd,enable_kubernetes_sd,enable_dns_sd"
    return GoProgram(name, "monitoring", layout.PROMETHEUS_VERSION, package, expected_s, module="monitoring", tags=tags)


def _prometheus_operator(name: str, command: str, expected_s: float) -> GoProgram:
    package = f"github.com/prometheus-operator/prometheus-operator/cmd/{command}"
    version = layout.PROMETHEUS_OPERATOR_VERSION
    return GoProgram(name, "prometheus-operator", version, package, expected_s, module="monitoring")


def _cni(kind: str, name: str) -> GoProgram:
    flags = f"-X {_CNI}/pkg/utils/buildversion.BuildVersion={layout.CNI_VERSION}"
    return GoProgram(name, "cni", layout.CNI_VERSION, f"{_CNI}/plugins/{kind}/{name}", 4, link_flags=flags)


PROGRAMS: tuple[GoProgram, ...] = (
    GoProgram("pause", "pause", layout.PAUSE_VERSION, ".", 1, module="pause"),
    _kubernetes("kubectl", 70),
    GoProgram("etcd", "etcd", layout.ETCD_VERSION, "go.etcd.io/etcd/server/v3", 60, module="etcd"),
    _kubernetes("kube-apiserver", 400),
    _kubernetes("kubelet", 45),
    _kubernetes("kube-proxy", 20),
    _kubernetes("kube-controller-manager", 105),
    _kubernetes("kube-scheduler", 10),
    _containerd("containerd", 100),
    _containerd("containerd-shim-runc-v2", 5),
    _containerd("ctr", 5),
    GoProgram(
        "runc",
        "runc",
        layout.RUNC_VERSION,
        "github.com/opencontainers/runc",
        35,
        link_flags=f"-X main.version={layout.RUNC_VERSION.removeprefix('v')}",
        tags="seccomp",
        cgo=True,
    ),
    _cni("main", "bridge"),
    _cni("main", "loopback"),
    _cni("main", "macvlan"),
    _cni("ipam", "host-local"),
    _cni("ipam", "static"),
    _cni("meta", "portmap"),
    _cni("meta", "bandwidth"),
    GoProgram("multus", "multus", layout.MULTUS_VERSION, f"{_MULTUS}/cmd/multus", 60, module="multus"),
    _prometheus("promtool", 190),
    GoProgram("coredns", "coredns", layout.COREDNS_VERSION, "github.com/coredns/coredns", 150),
    GoProgram(
        "helm",
        "helm",
        layout.HELM_VERSION,
        "helm.sh/helm/v3/cmd/helm",
        100,
        link_flags=f"-X helm.sh/helm/v3/internal/version.version={layout.HELM_VERSION}",
    ),
    GoProgram("object-health", "object-health", layout.KSTATUS_VERSION, ".", 30, module="object-health"),
    GoProgram("kubeconform", "kubeconform", layout.KUBECONFORM_VERSION, "github.com/yannh/kubeconform/cmd/kubeconform", 15),
)

ON_DEMAND: tuple[GoProgram, ...] = (
    GoProgram("cilium-policy", "cilium-policy", layout.CILIUM_VERSION, ".", 180, module="cilium-policy"),
    GoProgram("kueue", "kueue", layout.KUEUE_VERSION, "sigs.k8s.io/kueue/cmd/kueue", 180, module="kueue"),
    GoProgram("krew", "krew", layout.KREW_VERSION, "sigs.k8s.io/krew/cmd/krew", 30, module="krew"),
    GoProgram("validate-krew-manifest", "krew", layout.KREW_VERSION, "sigs.k8s.io/krew/cmd/validate-krew-manifest", 5, module="krew"),
    _prometheus("prometheus", 190),
    _prometheus_operator("prometheus-operator", "operator", 100),
    _prometheus_operator("prometheus-config-reloader", "prometheus-config-reloader", 15),
)
"""Programs that only some targets need, which name them."""

CNI_PLUGINS = tuple(program.name for program in PROGRAMS if program.group in ("cni", "multus"))

LINKED_INTO_CHECKOUT = (
    "promtool",
    "kubectl",
    "helm",
    "etcd",
    "kube-apiserver",
    "kubeconform",
    "object-health",
    "cilium-policy",
    "kueue",
    "krew",
    "validate-krew-manifest",
)
"""Programs that people and tests call from `build/bin`."""


def select(names: list[str]) -> list[GoProgram]:
    """The programs of these names, in the order of building; all but those on demand if `names` is empty."""
    known = {program.name for program in (*PROGRAMS, *ON_DEMAND)}
    unknown = sorted(set(names) - known)
    if unknown:
        raise CommandUsageError(f"--only: there is no program {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    return [program for program in (*PROGRAMS, *ON_DEMAND) if program.name in names] if names else list(PROGRAMS)


def path_of(name: str, paths: Layout) -> Path:
    """Where the program of this name is, or will be, in the cache."""
    return next(program for program in (*PROGRAMS, *ON_DEMAND) if program.name == name).path(paths.programs)
