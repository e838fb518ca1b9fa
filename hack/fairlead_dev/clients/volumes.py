"""Objects that give a directory on a node to pods: a local persistent volume and the claim bound to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairlead_dev.clients.kubectl import Kubectl, Object

MOVER_ID = 65532
"""User and group that movers run as unless a job sets another, and that own the local cluster's disks."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A directory on a node, used as a disk; `path` is as the node sees it."""

    node: str
    name: str
    path: str


def local_volume(disk: Disk, claim: str, namespace: str) -> tuple[Object, Object]:
    """The volume named as `disk`, and the claim `claim` in `namespace` that is bound to it and to nothing else."""
    size = "10Gi"
    volume: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": disk.name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "local": {"path": disk.path},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [disk.node]}]}
                    ]
                }
            },
            "claimRef": {"namespace": namespace, "name": claim},
        },
    }
    bound: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": namespace},
        "spec": {
            "storageClassName": "",
            "volumeName": disk.name,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
    }
    return volume, bound


def wait_bound(kubectl: Kubectl, claims: Iterable[str], namespace: str, timeout_s: float = 60) -> None:
    """Waits until the claims have their volumes, as a user's claims have when he comes to move files. Raises CommandError."""
    names = [f"persistentvolumeclaim/{claim}" for claim in claims]
    bound = ("--for=jsonpath={.status.phase}=Bound", f"--timeout={timeout_s:g}s")
    kubectl.run("wait", *names, *bound, namespace=namespace, timeout_s=timeout_s + 10)
