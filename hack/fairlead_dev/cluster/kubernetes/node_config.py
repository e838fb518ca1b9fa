"""Configuration files of a node's daemons, as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.artifacts.images import PAUSE_IMAGE
from fairlead_dev.cluster.layout import ClusterNode, Layout

_YAML_NOTE = "# A file that begins with a brace is read as strict JSON; this line makes it YAML.\n"


def node_object(node: ClusterNode) -> dict[str, Any]:
    """The Node, made before its kubelet: with fixed pod addresses, and labels that a kubelet may not give itself."""
    metadata = {"name": node.name, "labels": {**node.labels, "kubernetes.io/hostname": node.name}}
    spec = {"podCIDR": str(node.pod_cidr), "podCIDRs": [str(node.pod_cidr)]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}


def cni(node: ClusterNode) -> str:
    """The pod network: a bridge on the node, routed to the others over the management network."""
    plugins = [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "ipMasq": False,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": str(node.pod_cidr)}]],
                "routes": [{"dst": "0.0.0.0/0"}],
                "dataDir": "/var/lib/cni/networks",
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
        {"type": "bandwidth", "capabilities": {"bandwidth": True}},
    ]
    return json.dumps({"cniVersion": "1.0.0", "name": "fairlead", "plugins": plugins}, indent=1)


def containerd(runc: Path) -> str:
    """Containerd with the local pause image; it may not lower OOM scores without CAP_SYS_RESOURCE."""
    return f"""version = 3
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{PAUSE_IMAGE}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  options = {{BinaryName = "{runc}", SystemdCgroup = false}}
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/opt/cni/bin"]
  conf_dir = "/etc/cni/net.d"
"""


def kubelet(node: ClusterNode, paths: Layout, resolv_conf: Path, *, machine_memory_bytes: int) -> str:
    """The kubelet's configuration; what the node does not offer is reserved for the other nodes of this machine."""
    reserved_mib = machine_memory_bytes * 2 // 3 >> 20
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(paths.keys / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(paths.keys / f"kubelet-{node.name}.crt"),
        "tlsPrivateKeyFile": str(paths.keys / f"kubelet-{node.name}.key"),
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.namespace}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "healthzPort": 0,
        "clusterDNS": [str(layout.DNS_SERVICE_ADDRESS)],
        "clusterDomain": layout.CLUSTER_DOMAIN,
        "resolvConf": str(resolv_conf),
        "nodeStatusUpdateFrequency": "4s",
        "nodeStatusReportFrequency": "10s",
        "nodeLeaseDurationSeconds": 8,
        "syncFrequency": "10s",
        "kubeReserved": {"memory": f"{reserved_mib}Mi"},
        "maxPods": 60,
        "evictionHard": {"memory.available": "200Mi", "nodefs.available": "2%", "imagefs.available": "2%"},
        "imageGCHighThresholdPercent": 98,
        "imageGCLowThresholdPercent": 97,
    }
    return _YAML_NOTE + json.dumps(config, indent=1)


def kube_proxy(paths: Layout) -> str:
    """kube-proxy with nftables; the connection tracking limits belong to the machine and cannot be set from a node's namespace."""
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(paths.kubeconfigs / "proxy.conf")},
        "mode": "nftables",
        "clusterCIDR": str(layout.PODS),
        "detectLocalMode": "ClusterCIDR",
        "nodePortAddresses": [str(layout.MANAGEMENT)],
        "oomScoreAdj": 0,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    return _YAML_NOTE + json.dumps(config, indent=1)
