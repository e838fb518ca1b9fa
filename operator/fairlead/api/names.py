"""Names that Fairlead puts on objects of the cluster (docs/contracts.md, "Names on objects")."""

from __future__ import annotations

import hashlib
import re
from typing import Final

GROUP: Final = "fairlead.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "TransferJob"
PLURAL: Final = "transferjobs"
SINGULAR: Final = "transferjob"
SHORT_NAME: Final = "tj"
CATEGORY: Final = "fairlead"

POLICY_KIND: Final = "FairnessPolicy"
POLICY_PLURAL: Final = "fairnesspolicies"
POLICY_SINGULAR: Final = "fairnesspolicy"
POLICY_SHORT_NAME: Final = "fp"

PATH_KIND: Final = "NetworkPath"
PATH_PLURAL: Final = "networkpaths"
PATH_SINGULAR: Final = "networkpath"
PATH_SHORT_NAME: Final = "np"

DTN_KIND: Final = "DataTransferNode"
DTN_PLURAL: Final = "datatransfernodes"
DTN_SINGULAR: Final = "datatransfernode"
DTN_SHORT_NAME: Final = "dtn"

CONTROLLER: Final = f"{GROUP}/transferjob-controller"
"""The value of `spec.managedBy` that this operator serves."""

FINALIZER: Final = f"{GROUP}/partial-files"
"""Held from before the first receiver exists until the partial files at the destination are known to be gone."""

LABEL_NAME: Final = "app.kubernetes.io/name"
LABEL_COMPONENT: Final = "app.kubernetes.io/component"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABEL_JOB_UID: Final = f"{GROUP}/transferjob-uid"
LABEL_ROLE: Final = f"{GROUP}/role"
LABEL_ATTEMPT: Final = f"{GROUP}/attempt"

NAME: Final = "fairlead"
COMPONENT_MOVER: Final = "mover"
MANAGER: Final = "fairlead-operator"

ANNOTATION_JOB: Final = f"{GROUP}/transferjob"
ANNOTATION_EGRESS_BANDWIDTH: Final = "kubernetes.io/egress-bandwidth"
ANNOTATION_INGRESS_BANDWIDTH: Final = "kubernetes.io/ingress-bandwidth"
"""The cap of a pod in decimal bits per second; mover pods watch it through the Downward API."""
ANNOTATION_PACING: Final = f"{GROUP}/egress-bandwidth"
"""What the mover of a sender watches instead where it is not on the nodes' network: of the other one a CNI plugin makes a bucket for the
pod's own interface as the pod starts."""

ANNOTATION_PATH_BANDWIDTH: Final = f"{GROUP}/path-bandwidth"
"""The cap of each path of a sender that has several, with commas, beside that of their sum. An empty item is none."""

ANNOTATION_NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
"""What Multus attaches to a pod beside the pod network: the annotation of the Network Plumbing Working Group's multi-net-spec."""
ANNOTATION_NETWORK_STATUS: Final = "k8s.v1.cni.cncf.io/network-status"
"""What Multus reports of a pod's attachments, in the same spec."""

ANNOTATION_DATA_ADDRESSES: Final = f"{GROUP}/data-addresses"
"""On a node, by its administrator: addresses or networks of its data interfaces, separated by commas."""

ANNOTATION_DISK_NUMA_NODE: Final = f"{GROUP}/numa-node"
"""On a PersistentVolume, by an administrator: number of the NUMA node that its disk is on."""
LABEL_SITE: Final = f"{GROUP}/site"
"""On a node, by an administrator: its site, for clusters without DataTransferNodes."""

ANNOTATION_PATH: Final = f"{GROUP}/path"
"""`Known` on a sender whose advisor was given what is on the path and therefore does not probe it as a whole."""
PATH_KNOWN: Final = "Known"

GATE_RECORDED: Final = f"{GROUP}/recorded"
"""The scheduling gate of a new mover pod. It is removed once the pod's UID is in the job's status, so no other mover pod ever runs."""

_NAME_CHARACTERS = 40
_HASH_CHARACTERS = 8
_PATH_NODE_CHARACTERS = 24


def attachment_interface(index: int) -> str:
    """The interface that the end's attachment of this index becomes in its mover's pod."""
    return f"data{index}"


def child_prefix(job_name: str, job_uid: str) -> str:
    """What the names of all children of one job begin with: readable, and unique by the UID."""
    digest = hashlib.sha256(job_uid.encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"{_readable(job_name)}-{digest}"


def child_name(job_name: str, job_uid: str, role: str, attempt: int) -> str:
    """The name of a mover pod; at most 63 characters for attempts below ten thousand."""
    return f"{child_prefix(job_name, job_uid)}-{role}-{attempt}"


def other_child_name(job_name: str, digits: str, role: str, attempt: int) -> str:
    """The same with 8 hexadecimal `digits` in the place of the hash, for a pod whose own name is taken."""
    return f"{_readable(job_name)}-{digits}-{role}-{attempt}"


def is_child_name(name: str, job_name: str, role: str, attempt: int) -> bool:
    """Whether a mover pod of that role and attempt may have this name."""
    return re.fullmatch(rf"{re.escape(_readable(job_name))}-[0-9a-f]{{{_HASH_CHARACTERS}}}-{role}-{attempt}", name) is not None


def credentials_name(job_name: str, job_uid: str, attempt: int) -> str:
    """The name of the Secret with an attempt's credentials."""
    return child_name(job_name, job_uid, "credentials", attempt)


def path_name(source_node: str, source_interface: str, destination_node: str, destination_interface: str) -> str:
    """The name of a NetworkPath that the operator makes: readable, and unique by all four parts."""
    digest = hashlib.sha256("/".join((source_node, source_interface, destination_node, destination_interface)).encode()).hexdigest()
    ends = "-".join(node[:_PATH_NODE_CHARACTERS].rstrip("-.") for node in (source_node, destination_node))
    return f"{ends}-{digest[:_HASH_CHARACTERS]}"


def _readable(job_name: str) -> str:
    return job_name[:_NAME_CHARACTERS].rstrip("-.")
