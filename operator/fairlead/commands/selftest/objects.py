"""What the self-test creates: claims where none are given, a pod at each end that writes or reads the file, and a TransferJob."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fairlead.api import names
from fairlead.api.datatransfernode import DataTransferNode
from fairlead.api.reasons import DtnConditionType
from fairlead.kube.client import KubeObject

FOLDER = "fairlead-selftest"
_LABELS = {"app.kubernetes.io/part-of": names.NAME, "app.kubernetes.io/component": "selftest"}
_MOUNT = "/data"


@dataclass(frozen=True, slots=True)
class SelftestEnd:
    """One end: its node, and its claim. The test makes the claim where `claim` is empty."""

    node: str
    claim: str


@dataclass(frozen=True, slots=True)
class SelftestPlan:
    """What is moved between which ends, and as whom."""

    token: str
    namespace: str
    source: SelftestEnd
    destination: SelftestEnd
    network: str
    storage_class: str
    image: str
    pull_policy: str
    pull_secrets: tuple[str, ...]
    user: int
    group: int
    tolerations: tuple[Mapping[str, object], ...]
    bytes_total: int
    timeout_seconds: int

    @property
    def name(self) -> str:
        """The job's, and what the other names begin with."""
        return f"selftest-{self.token}"

    @property
    def path(self) -> str:
        """The folder beneath both volumes' roots."""
        return f"{FOLDER}-{self.token}"

    def claim_of(self, end: SelftestEnd) -> str:
        """The claim that this end uses."""
        return end.claim or f"{self.name}-{'source' if end is self.source else 'destination'}"


def choose_nodes(nodes: Iterable[KubeObject]) -> tuple[str, str] | None:
    """The first two data transfer nodes, by name, whose agents report; None where there are fewer."""
    parsed = (DataTransferNode.from_object(body) for body in nodes)
    ready = sorted(node.metadata.name for node in parsed if _reports(node))
    return (ready[0], ready[1]) if len(ready) > 1 else None


def _reports(node: DataTransferNode) -> bool:
    return any(each.type == DtnConditionType.READY and each.status == "True" for each in node.status.conditions)


def claim(plan: SelftestPlan, end: SelftestEnd) -> KubeObject:
    """A claim of the storage class that was given, or of the cluster's default."""
    spec: KubeObject = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": str(max(2 * plan.bytes_total, 2**28))}}}
    if plan.storage_class:
        spec["storageClassName"] = plan.storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": plan.claim_of(end), "namespace": plan.namespace, "labels": _LABELS},
        "spec": spec,
    }


def file_pod(plan: SelftestPlan, end: SelftestEnd, action: str) -> KubeObject:
    """A pod on the end's node that writes, compares or removes the file, as the user that movers run as."""
    security: KubeObject = {
        "runAsNonRoot": True,
        "runAsUser": plan.user,
        "runAsGroup": plan.group,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if not end.claim:
        security["fsGroup"] = plan.group
    # As movers have it: some clouds' nodes have another name in the label kubernetes.io/hostname.
    on_node: KubeObject = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [end.node]}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{plan.name}-{action}", "namespace": plan.namespace, "labels": _LABELS},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [on_node]}}},
            "tolerations": [dict(each) for each in plan.tolerations],
            "imagePullSecrets": [{"name": name} for name in plan.pull_secrets],
            "securityContext": security,
            "containers": [
                {
                    "name": "file",
                    "image": plan.image,
                    "imagePullPolicy": plan.pull_policy,
                    "args": ["selftest", action, f"{_MOUNT}/{plan.path}", f"--bytes={plan.bytes_total}", f"--seed={plan.token}"],
                    "resources": {"requests": {"cpu": "10m", "memory": "48Mi"}, "limits": {"memory": "256Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [{"name": "data", "mountPath": _MOUNT}],
                }
            ],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": plan.claim_of(end)}}],
        },
    }


def job(plan: SelftestPlan) -> KubeObject:
    """The TransferJob, which fails by itself when it takes too long."""
    security: KubeObject = {} if plan.destination.claim else {"securityContext": {"fsGroup": plan.group}}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": _LABELS},
        "spec": {
            "source": _side(plan, plan.source),
            "destination": _side(plan, plan.destination),
            "network": plan.network,
            "activeDeadlineSeconds": plan.timeout_seconds,
            **security,
        },
    }


def _side(plan: SelftestPlan, end: SelftestEnd) -> KubeObject:
    return {"node": end.node, "volume": {"persistentVolumeClaim": {"claimName": plan.claim_of(end)}}, "path": plan.path}
