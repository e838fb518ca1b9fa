"""The control plane: etcd, API server, controller manager and scheduler in one box."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.artifacts.programs import path_of
from fairlead_dev.cluster.errors import ClusterError
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.cluster.machine import network, shell
from fairlead_dev.cluster.machine.box import Box

_ETCD = "http://127.0.0.1"


class ControlPlane:
    """Starts the control plane and calls its API."""

    def __init__(self, paths: Layout) -> None:
        self._paths = paths
        self.box = Box(layout.CONTROL_PLANE, paths, node=False)

    def start(self) -> None:
        """Start etcd and the API server, wait until it is ready, then start the rest. The box must be running."""
        data = self._paths.state / "etcd"
        data.mkdir(mode=0o700)
        self._launch("etcd", self._etcd_flags(data))
        self._launch("kube-apiserver", self._api_server_flags())
        try:
            shell.wait_until(
                lambda: shell.succeeds(self.kubectl(["get", "--raw", "/readyz"])), "the API server is not ready", timeout_s=240
            )
        except ClusterError as error:
            raise ClusterError(f"{error}; see `hack/cluster/cluster logs cp kube-apiserver`") from error
        self._launch("kube-controller-manager", self._controller_manager_flags())
        self._launch("kube-scheduler", self._own_client_flags("scheduler"))

    def kubectl(self, arguments: list[str]) -> list[str]:
        """The command line that runs kubectl as administrator in the control plane's network."""
        program = path_of("kubectl", self._paths)
        return network.inside(layout.CONTROL_PLANE, [program, f"--kubeconfig={self._paths.admin_kubeconfig}", *arguments])

    def apply(self, objects: list[dict[str, Any]]) -> None:
        """Create or update objects."""
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        shell.run(self.kubectl(["apply", "--server-side", "--force-conflicts", "-f", "-"]), stdin=manifest, timeout_s=180)

    def nodes(self) -> dict[str, bool]:
        """Every node's name and whether it is Ready."""
        answer = json.loads(shell.run(self.kubectl(["get", "nodes", "-o", "json", "--request-timeout=5s"]), timeout_s=10))
        return {item["metadata"]["name"]: _is_ready(item) for item in answer["items"]}

    def _launch(self, program: str, flags: list[str]) -> None:
        self.box.launch(program, [path_of(program, self._paths), *flags])

    def _etcd_flags(self, data: Path) -> list[str]:
        clients, peers = f"{_ETCD}:2379", f"{_ETCD}:2380"
        return [
            "--name=fairlead",
            f"--data-dir={data}",
            # The data does not outlive the cluster, so no power loss can hurt it.
            "--unsafe-no-fsync",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=fairlead={peers}",
        ]

    def _api_server_flags(self) -> list[str]:
        keys = self._paths.keys
        return [
            f"--etcd-servers={_ETCD}:2379",
            f"--advertise-address={layout.CONTROL_PLANE_ADDRESS}",
            "--bind-address=0.0.0.0",
            f"--secure-port={layout.API_SERVER_PORT}",
            f"--service-cluster-ip-range={layout.SERVICES}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--client-ca-file={keys}/ca.crt",
            f"--tls-cert-file={keys}/apiserver.crt",
            f"--tls-private-key-file={keys}/apiserver.key",
            f"--kubelet-client-certificate={keys}/apiserver-kubelet.crt",
            f"--kubelet-client-key={keys}/apiserver-kubelet.key",
            f"--kubelet-certificate-authority={keys}/ca.crt",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-issuer=https://kubernetes.default.svc.{layout.CLUSTER_DOMAIN}",
            f"--service-account-key-file={keys}/service-accounts.pub",
            f"--service-account-signing-key-file={keys}/service-accounts.key",
            f"--requestheader-client-ca-file={keys}/ca.crt",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={keys}/front-proxy.crt",
            f"--proxy-client-key-file={keys}/front-proxy.key",
            # The control plane has no kube-proxy: it must reach pods, not service addresses.
            "--enable-aggregator-routing=true",
            "--allow-privileged=true",
            "--default-not-ready-toleration-seconds=15",
            "--default-unreachable-toleration-seconds=15",
        ]

    def _controller_manager_flags(self) -> list[str]:
        keys = self._paths.keys
        return [
            *self._own_client_flags("controller-manager"),
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={keys}/service-accounts.key",
            f"--root-ca-file={keys}/ca.crt",
            f"--cluster-signing-cert-file={keys}/ca.crt",
            f"--cluster-signing-key-file={keys}/ca.key",
            # Node objects are made with their pod addresses: handed out here, they would follow the order of arrival.
            "--allocate-node-cidrs=false",
            f"--cluster-cidr={layout.PODS}",
            f"--service-cluster-ip-range={layout.SERVICES}",
            "--node-monitor-period=2s",
            "--node-monitor-grace-period=16s",
        ]

    def _own_client_flags(self, name: str) -> list[str]:
        config = self._paths.kubeconfigs / f"{name}.conf"
        return [
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
        ]


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
