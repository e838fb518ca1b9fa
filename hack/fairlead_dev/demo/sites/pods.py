"""Clusters whose nodes the demo cannot reach: trees are written and listed by short-lived pods. Not tested in the project's own runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.clients.kubectl import Kubectl, Object, run
from fairlead_dev.clients.release import PARTS, RELEASE, RELEASE_NAMESPACE, helm_arguments, reused_release_arguments
from fairlead_dev.demo.outcome import DemoError
from fairlead_dev.demo.progress import LinkSample
from fairlead_dev.demo.sites.base import (
    FOLDER,
    JOB,
    NAMESPACE,
    SiteEnd,
    TreeSize,
    make_namespace,
    marked,
    refuse_other_namespace,
    remove_namespace,
)
from fairlead_dev.trees.listing import LIST_SCRIPT, Listing, parse_listing

KIND_CLUSTER = "fairlead-demo"
KIND_NODES = (f"{KIND_CLUSTER}-worker", f"{KIND_CLUSTER}-worker2")
BUILD_TIMEOUT_S = 3600
MOVER_ID = 65532


@dataclass(frozen=True, slots=True)
class PodSiteOptions:
    """Where to run on a cluster that exists: two nodes, the images' names, and the storage class of the claims (None: the default).

    `reuse_release`: a release that is there is upgraded with its own values; without it, it is refused.
    """

    source_node: str
    destination_node: str
    repository_prefix: str
    tag: str
    storage_class: str | None = None
    reuse_release: bool = False


class CurrentSite:
    """Implements Site on the cluster of the current kubeconfig."""

    link_mbps: int | None = None

    def __init__(self, checkout: Path, options: PodSiteOptions) -> None:
        self._checkout = checkout
        self._options = options
        self._nodes = {SiteEnd.SOURCE: options.source_node, SiteEnd.DESTINATION: options.destination_node}

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl((_program(self._checkout, "kubectl"),))

    def start(self) -> None:
        for node in self._nodes.values():
            if self.kubectl.get("node", node) is None:
                raise DemoError(f"the cluster has no node {node}; `kubectl get nodes` shows what it has")
        refuse_other_namespace(self.kubectl)

    def install(self) -> None:
        helm = _program(self._checkout, "helm")
        found = run((helm, "list", "--all", "--short", "--filter", f"^{RELEASE}$", "--namespace", RELEASE_NAMESPACE)).strip()
        if found and not self._options.reuse_release:
            raise DemoError(
                f"the cluster has a Helm release {RELEASE} in {RELEASE_NAMESPACE} already, which the demo leaves as it is; "
                "DEMO_FLAGS='… --reuse-release' upgrades it to this checkout's chart and images, with its own values"
            )
        arguments = reused_release_arguments if found else helm_arguments
        run((helm, *arguments(self._checkout, self._options.repository_prefix, self._options.tag)), timeout_s=600)

    def clear(self) -> None:
        remove_namespace(self.kubectl)

    def lay_out(self, size: TreeSize) -> None:
        files = {path.name: path.read_text() for path in (self._checkout / "hack" / "fairlead_dev" / "trees").glob("*.py")}
        make_namespace(self.kubectl)
        listing: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "trees", "namespace": NAMESPACE}, "data": files}
        made = [listing, *(self._claim(end) for end in SiteEnd), *(self._pod(end) for end in SiteEnd)]
        self.kubectl.apply(*map(marked, made))
        pods = [f"pod/{_pod_name(end)}" for end in SiteEnd]
        self.kubectl.run("wait", "--for=condition=Ready", *pods, "--timeout=180s", namespace=NAMESPACE, timeout_s=200)
        self._in_pod(SiteEnd.SOURCE, "python3", "-m", "fairlead_dev.trees", "survey", f"/data/{FOLDER}", *size.arguments())

    def apply_job(self) -> None:
        manifest = str(self._checkout / "hack" / "demo" / "transferjob.yaml")
        job = json.loads(self.kubectl.run("create", "--dry-run=client", "-o", "json", "-f", manifest))
        job["spec"]["source"]["node"] = self._options.source_node
        job["spec"]["destination"]["node"] = self._options.destination_node
        self.kubectl.apply(job)

    def list_tree(self, end: SiteEnd) -> Listing:
        return parse_listing(self._in_pod(end, "sh", "-c", LIST_SCRIPT, "sh", f"/data/{FOLDER}"))

    def link_sample(self) -> LinkSample | None:
        return None

    def _in_pod(self, end: SiteEnd, *command: str) -> bytes:
        return run(self.kubectl.command("exec", _pod_name(end), "--", *command, namespace=NAMESPACE), timeout_s=BUILD_TIMEOUT_S)

    def _claim(self, end: SiteEnd) -> Object:
        spec: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
        if self._options.storage_class is not None:
            spec["storageClassName"] = self._options.storage_class
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": end.value, "namespace": NAMESPACE},
            "spec": spec,
        }

    def _pod(self, end: SiteEnd) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": _pod_name(end), "namespace": NAMESPACE, "labels": {"app.kubernetes.io/part-of": JOB}},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": self._nodes[end]},
                "securityContext": {"runAsUser": MOVER_ID, "runAsGroup": MOVER_ID, "fsGroup": MOVER_ID},
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "trees",
                        "image": f"{self._options.repository_prefix}fairlead-operator:{self._options.tag}",
                        "command": ["sleep", "infinity"],
                        "workingDir": "/demo",
                        "volumeMounts": [
                            {"name": "data", "mountPath": "/data"},
                            {"name": "trees", "mountPath": "/demo/fairlead_dev/trees"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": end.value}},
                    {"name": "trees", "configMap": {"name": "trees"}},
                ],
            },
        }


class KindSite(CurrentSite):
    """A cluster of three nodes made with kind, with images built by Docker. It stays after the demo: `kind delete cluster --name ...`."""

    def __init__(self, checkout: Path) -> None:
        super().__init__(checkout, PodSiteOptions(*KIND_NODES, repository_prefix="localhost/", tag="dev"))
        self._kubeconfig = str(checkout / "build" / "kind.kubeconfig")

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl((_program(self._checkout, "kubectl"), "--kubeconfig", self._kubeconfig))

    def start(self) -> None:
        for tool in ("docker", "kind"):
            if shutil.which(tool) is None:
                raise DemoError(f"{tool} is not installed; install it, or run the demo with CLUSTER=local")
        if KIND_CLUSTER not in run(("kind", "get", "clusters")).decode().split():
            roles = "".join(f"- role: {role}\n" for role in ("control-plane", "worker", "worker"))
            config = f"kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n{roles}"
            run(("kind", "create", "cluster", "--name", KIND_CLUSTER, "--wait", "180s", "--config", "-"), config, timeout_s=600)
        Path(self._kubeconfig).parent.mkdir(exist_ok=True)
        run(("kind", "export", "kubeconfig", "--name", KIND_CLUSTER, "--kubeconfig", self._kubeconfig))
        for part in PARTS:
            image = f"localhost/fairlead-{part}:dev"
            print(f"  building and loading {image}", flush=True)
            run(("docker", "build", "--target", part, "-t", image, str(self._checkout)), timeout_s=BUILD_TIMEOUT_S)
            run(("kind", "load", "docker-image", image, "--name", KIND_CLUSTER), timeout_s=600)
        super().start()

    def install(self) -> None:
        arguments = helm_arguments(self._checkout, "localhost/", "dev")
        run((_program(self._checkout, "helm"), "--kubeconfig", self._kubeconfig, *arguments), timeout_s=600)


def _program(checkout: Path, name: str) -> str:
    built = checkout / "build" / "bin" / name
    return str(built) if built.exists() else name


def _pod_name(end: SiteEnd) -> str:
    return f"tree-{end.value}"
