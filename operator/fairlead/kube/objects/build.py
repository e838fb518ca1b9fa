"""Builds the objects of an attempt: receiver, sender with the advisor beside it, cleaner, and the credentials Secret.

Pure functions from a job and an action of the plan to plain objects; golden files hold what they render.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.api import names
from fairlead.api.shared.errors import ReconcileError
from fairlead.api.shared.quantity import format_rate
from fairlead.api.transferjob import TransferJob
from fairlead.api.transferjob.spec import AUTO_INTERFACE, MOST_STREAMS, Side
from fairlead.core.annotated_cap import format_path_caps
from fairlead.core.network import pair_paths, traits_of
from fairlead.core.observed import Role
from fairlead.core.plan import CreatePod
from fairlead.kube.client import KubeObject
from fairlead.kube.objects.attachment import networks_annotation
from fairlead.kube.objects.credentials import Credentials
from fairlead.kube.objects.path import path_annotation, path_options
from fairlead.kube.objects.template import Image, MoverTemplate
from fairlead.kube.observe.pods import ADVISOR_CONTAINER, MOVER_CONTAINER, OFFSETS, PORT_ADVISOR, PORT_DATA, PORT_ECHO, PORT_HTTP

DATA_PATH = "/data"
TLS_PATH = "/run/fairlead/tls"
CONTROL_PATH = "/run/fairlead/control"
CONTROL_SOCKET = f"{CONTROL_PATH}/mover.sock"
TRACE_FILE = f"{CONTROL_PATH}/trace.csv"
LIVE_PATH = "/run/fairlead/live"
BANDWIDTH_FILE = f"{LIVE_PATH}/egress-bandwidth"
PATH_BANDWIDTH_FILE = f"{LIVE_PATH}/path-bandwidth"
TERMINATION_LOG = "/dev/termination-log"
NODE_ADDRESS = "FAIRLEAD_NODE_ADDRESS"

GRACE_SECONDS = 10

_POD_INTERFACE = "eth0"
"""What every container runtime names a pod's interface on the pod network."""

_TAINTS_OF_LOST_NODES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

_ADVISORS_CONTROLS = ("cubic", "bbr", "reno")
"""What the advisor chooses from where the job leaves it the choice; the mover refuses it any other."""

_CONTROL_VOLUME_SIZE = "16Mi"


class BuildError(ReconcileError, ValueError):
    """A plan that cannot be turned into an object: a defect of the operator, never of the job."""

    kind = "Build"
    is_defect = True


def build_pod(job: TransferJob, action: CreatePod, template: MoverTemplate) -> KubeObject:
    """The pod of one role of one attempt. Raises BuildError if the action lacks what its role needs."""
    match action.role:
        case Role.RECEIVER:
            return _receiver(job, action, template)
        case Role.SENDER:
            return _sender(job, action, template)
        case Role.CLEANER:
            return _cleaner(job, action, template)


def build_secret(job: TransferJob, attempt: int, credentials: Credentials) -> KubeObject:
    """The immutable Secret of one attempt. The operator removes it when the attempt ends; at the latest it goes with the job."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": names.credentials_name(job.metadata.name, job.metadata.uid, attempt),
            "namespace": job.metadata.namespace,
            "labels": _job_labels(job) | {names.LABEL_ATTEMPT: str(attempt)},
            "ownerReferences": [owner_reference(job)],
        },
        "type": "Opaque",
        "immutable": True,
        "data": credentials.as_secret_data(),
    }


def owner_reference(job: TransferJob) -> KubeObject:
    """The job as controller of a child; it does not block the job's deletion, our finalizer does where it must."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def _receiver(job: TransferJob, action: CreatePod, template: MoverTemplate) -> KubeObject:
    side = job.spec.destination
    arguments = [
        "receive",
        *_option("--destination", _directory(side)),
        *_option("--volume", DATA_PATH),
        *_option("--port", action.port_base + OFFSETS[PORT_DATA]),
        *_option("--interface", _interface(job, side, action)),
        *_option("--tls-dir", TLS_PATH),
        *_identity(job, action),
        *_option("--encryption", job.spec.transport.encryption),
        *_option("--protocol", action.protocol),
        *_option("--overwrite", job.spec.data.overwrite),
        *_option("--preserve", ",".join(job.spec.data.preserve) or "None"),
        *_option("--verify", job.spec.data.verify),
        *_option("--http", _node_listener(action, PORT_HTTP)),
        *_option("--termination-log", TERMINATION_LOG),
        *_option("--peer-timeout", template.peer_timeout_seconds),
        *_check(job),
        "--json",
    ]
    ports = [_port(job, action, PORT_DATA), _port(job, action, PORT_ECHO, "UDP"), _port(job, action, PORT_HTTP)]
    container = _mover(job, side, template, arguments, ports=ports)
    container["volumeMounts"] = [{"name": "data", "mountPath": DATA_PATH}, _tls_mount()]
    container["readinessProbe"] = {
        "httpGet": {"path": "/healthz", "port": PORT_HTTP},
        "periodSeconds": 1,
        "timeoutSeconds": 1,
        "failureThreshold": 3,
    }
    spec = _pod_spec(job, action, template, containers=[container], volumes=[_claim_volume(side), _tls_volume(job, action)])
    annotations = _cap_annotation(job, names.ANNOTATION_INGRESS_BANDWIDTH, action) | _attachment_annotation(job, side, action)
    return _pod(job, action, spec, annotations=annotations)


def _sender(job: TransferJob, action: CreatePod, template: MoverTemplate) -> KubeObject:
    if action.receiver is None:
        raise BuildError(f"sender of attempt {action.attempt}: no receiver endpoint to connect to")
    side, transport = job.spec.source, job.spec.transport
    chosen_control, streams = transport.congestion_control_over(action.protocol), transport.stream_bounds
    control_mount = {"name": "control", "mountPath": CONTROL_PATH}
    paths = pair_paths(_interface(job, side, action).split(","), action.receiver.places)
    if action.path_caps_bps and len(action.path_caps_bps) != len(paths):
        raise BuildError(f"sender of attempt {action.attempt}: {len(action.path_caps_bps)} caps for {len(paths)} paths")
    least_streams, most_streams = (min(count, MOST_STREAMS // len(paths)) for count in (streams.min, streams.max))
    arguments = [
        "send",
        *_option("--source", _directory(side)),
        *_option("--volume", DATA_PATH),
        *_option("--connect", ",".join(_socket_address(peer.address, peer.port) for _, peer in paths)),
        *_option("--interface", ",".join(interface for interface, _ in paths)),
        *_option("--tls-dir", TLS_PATH),
        *_identity(job, action),
        *_option("--encryption", transport.encryption),
        *_option("--protocol", action.protocol),
        *_option("--streams", max(least_streams, min(4, most_streams))),
        *_option("--streams-min", least_streams),
        *_option("--streams-max", most_streams),
        *_option("--congestion-control", chosen_control or "cubic"),
        *_option("--congestion-controls", chosen_control or ",".join(_ADVISORS_CONTROLS)),
        *(argument for glob in job.spec.data.include for argument in _option("--include", _literal(glob))),
        *(argument for glob in job.spec.data.exclude for argument in _option("--exclude", _literal(glob))),
        # A check moves nothing, so no advisor is beside it.
        *([] if job.spec.preflight_only else _option("--await-transport", template.await_transport_seconds)),
        *_option("--control-socket", CONTROL_SOCKET),
        *_option("--bandwidth-file", BANDWIDTH_FILE),
        *(_option("--path-bandwidth-file", PATH_BANDWIDTH_FILE) if len(paths) > 1 else []),
        *_option("--http", _node_listener(action, PORT_HTTP)),
        *_option("--termination-log", TERMINATION_LOG),
        *_check(job),
        "--json",
    ]
    mover = _mover(job, side, template, arguments, ports=[_port(job, action, PORT_HTTP)])
    mover["volumeMounts"] = [
        {"name": "data", "mountPath": DATA_PATH, "readOnly": True},
        _tls_mount(),
        control_mount,
        {"name": "live", "mountPath": LIVE_PATH, "readOnly": True},
    ]
    advisor_arguments = [
        "run",
        *_option("--control-socket", CONTROL_SOCKET),
        *_option("--http", _node_listener(action, PORT_ADVISOR)),
        *_option("--trace", TRACE_FILE),
        *_option("--seconds", template.probe_seconds),
        *_option("--streams-min", least_streams),
        *_option("--streams-max", most_streams),
        *_option("--congestion-control", chosen_control or "Auto"),
        *path_options(action.path, probe=action.probe),
        *(["--allocated"] if action.allocated else []),
        *_option("--termination-log", TERMINATION_LOG),
    ]
    advisor = _container(
        job,
        ADVISOR_CONTAINER,
        template.advisor,
        advisor_arguments,
        resources=template.advising_resources,
        ports=[_port(job, action, PORT_ADVISOR)],
    )
    advisor["restartPolicy"] = "Always"
    advisor["volumeMounts"] = [dict(control_mount)]
    volumes = [
        _claim_volume(side, read_only=True),
        _tls_volume(job, action),
        {"name": "control", "emptyDir": {"sizeLimit": _CONTROL_VOLUME_SIZE}},
        {
            "name": "live",
            "downwardAPI": {
                "items": [
                    _live_item(BANDWIDTH_FILE, _watched(job)),
                    *([_live_item(PATH_BANDWIDTH_FILE, names.ANNOTATION_PATH_BANDWIDTH)] if len(paths) > 1 else []),
                ]
            },
        },
    ]
    spec = _pod_spec(job, action, template, containers=[mover], volumes=volumes)
    if not job.spec.preflight_only:
        spec["initContainers"] = [advisor]
    annotations = _cap_annotation(job, names.ANNOTATION_EGRESS_BANDWIDTH, action) | _attachment_annotation(job, side, action)
    if action.cap_bps is not None:
        annotations[_watched(job)] = format_rate(action.cap_bps)
    if (path_caps := format_path_caps(action.path_caps_bps)) is not None:
        annotations[names.ANNOTATION_PATH_BANDWIDTH] = path_caps
    annotations |= path_annotation(probe=action.probe)
    return _pod(job, action, spec, annotations=annotations)


def _live_item(file: str, annotation: str) -> KubeObject:
    """A file that follows an annotation; all of them are swapped at once."""
    return {"path": file.rpartition("/")[2], "fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}


def _check(job: TransferJob) -> list[str]:
    return ["--check"] if job.spec.preflight_only else []


def _cleaner(job: TransferJob, action: CreatePod, template: MoverTemplate) -> KubeObject:
    side = job.spec.destination
    arguments = [
        "clean",
        *_option("--destination", _directory(side)),
        *_option("--volume", DATA_PATH),
        *_option("--job", job.metadata.uid),
        *_option("--termination-log", TERMINATION_LOG),
    ]
    container = _container(job, MOVER_CONTAINER, template.mover, arguments, resources=template.mover_resources, ports=[])
    container["volumeMounts"] = [{"name": "data", "mountPath": DATA_PATH}]
    spec = _pod_spec(job, action, template, containers=[container], volumes=[_claim_volume(side)])
    # It has no peer, so it needs no node's network and runs even where that right was withdrawn.
    spec["hostNetwork"] = False
    return _pod(job, action, spec)


def _pod(job: TransferJob, action: CreatePod, spec: KubeObject, annotations: dict[str, str] | None = None) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names.child_name(job.metadata.name, job.metadata.uid, action.role.value, action.attempt),
            "namespace": job.metadata.namespace,
            "labels": _job_labels(job) | {names.LABEL_ROLE: action.role.value, names.LABEL_ATTEMPT: str(action.attempt)},
            "annotations": {names.ANNOTATION_JOB: job.metadata.name} | (annotations or {}),
            "ownerReferences": [owner_reference(job)],
        },
        "spec": spec,
    }


def _pod_spec(
    job: TransferJob, action: CreatePod, template: MoverTemplate, *, containers: list[KubeObject], volumes: list[KubeObject]
) -> KubeObject:
    context = template.identities.of(job.metadata.namespace).resolve(job.spec.security_context)
    pod_context: KubeObject = {
        "runAsNonRoot": True,
        "runAsUser": context.run_as_user,
        "runAsGroup": context.run_as_group,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    groups = list(context.supplemental_groups)
    if context.fs_group is not None and action.role is Role.SENDER:
        # As the pod's fsGroup it would change the owner of the source's files; the sender only needs to be in the group.
        groups += [context.fs_group] if context.fs_group not in groups else []
    elif context.fs_group is not None:
        pod_context |= {"fsGroup": context.fs_group, "fsGroupChangePolicy": "OnRootMismatch"}
    if groups:
        pod_context["supplementalGroups"] = groups
    spec: KubeObject = {
        "schedulingGates": [{"name": names.GATE_RECORDED}],
        "restartPolicy": "Never",
        "hostNetwork": _on_host(job),
        "dnsPolicy": "Default",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": pod_context,
        "containers": containers,
        "volumes": volumes,
    }
    if action.node is not None or action.node_labels:
        # An affinity instead of `nodeName`, so that the scheduler still checks ports, resources, taints and volumes.
        term = _node_term(action)
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    tolerations = [dict(toleration) for toleration in template.tolerations]
    if action.role is not Role.CLEANER:
        # A transfer may go on while its node cannot be reached by the control plane: by default it would be ended after five minutes.
        tolerations += [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in _TAINTS_OF_LOST_NODES]
    if tolerations:
        spec["tolerations"] = tolerations
    if template.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in template.image_pull_secrets]
    if template.priority_class:
        spec["priorityClassName"] = template.priority_class
    return spec


def _node_term(action: CreatePod) -> KubeObject:
    if action.node is not None:
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [action.node]}]}
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in action.node_labels]}


def _on_host(job: TransferJob) -> bool:
    return traits_of(job).uses_node_interfaces


def _interface(job: TransferJob, side: Side, action: CreatePod) -> str:
    match job.spec.network:
        case "Host":
            return ",".join(action.interfaces) or AUTO_INTERFACE
        case "Attachment":
            return ",".join(names.attachment_interface(index) for index in range(len(side.named_attachments)))
        case "Pod":
            return _POD_INTERFACE


def _mover(job: TransferJob, side: Side, template: MoverTemplate, arguments: list[str], ports: list[KubeObject]) -> KubeObject:
    resources = _with_devices(template.moving_resources, side)
    return _container(job, MOVER_CONTAINER, template.mover, arguments, resources=resources, ports=ports)


def _with_devices(resources: Mapping[str, Any], side: Side) -> Mapping[str, Any]:
    """The resources with the devices of this end, which device plugins give in whole numbers to requests that equal their limits."""
    if not side.resources:
        return resources
    devices = {name: str(count) for name, count in side.resources.items()}
    return {**resources, **{part: {**resources.get(part, {}), **devices} for part in ("requests", "limits")}}


def _container(job: TransferJob, name: str, image: Image, arguments: list[str], *, resources: Any, ports: list[KubeObject]) -> KubeObject:
    address = "status.hostIP" if _on_host(job) else "status.podIP"
    container: KubeObject = {
        "name": name,
        "image": image.reference,
        "imagePullPolicy": image.pull_policy,
        "args": arguments,
        "env": [{"name": NODE_ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": address}}}],
        "resources": dict(resources),
        "terminationMessagePath": TERMINATION_LOG,
        "terminationMessagePolicy": "File",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    if ports:
        container["ports"] = ports
    return container


def _job_labels(job: TransferJob) -> dict[str, str]:
    return {
        names.LABEL_NAME: names.NAME,
        names.LABEL_COMPONENT: names.COMPONENT_MOVER,
        names.LABEL_MANAGED_BY: names.MANAGER,
        names.LABEL_JOB_UID: job.metadata.uid,
    }


def _identity(job: TransferJob, action: CreatePod) -> list[str]:
    return [*_option("--job", job.metadata.uid), *_option("--attempt", action.attempt)]


def _option(flag: str, value: object) -> list[str]:
    """One argument, so that a value that begins with a dash is still a value."""
    return [f"{flag}={value}"]


def _literal(text: str) -> str:
    """`text` as it survives the kubelet's `$(NAME)` expansion of arguments."""
    return text.replace("$", "$$")


def _directory(side: Side) -> str:
    parts = [part for part in side.path.split("/") if part]
    if ".." in parts or side.path.startswith("/"):
        raise BuildError(f"path {side.path!r} leaves its volume")
    return _literal("/".join([DATA_PATH, *parts]))


def _socket_address(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _node_listener(action: CreatePod, port: str) -> str:
    """The node's own address, so that the data interface does not serve it, or the pod's where it has one; the kubelet fills it in."""
    return f"$({NODE_ADDRESS}):{action.port_base + OFFSETS[port]}"


def _port(job: TransferJob, action: CreatePod, name: str, protocol: str = "TCP") -> KubeObject:
    number = action.port_base + OFFSETS[name]
    on_host = {"hostPort": number} if _on_host(job) else {}
    return {"name": name, "containerPort": number, **on_host, "protocol": protocol}


def _claim_volume(side: Side, *, read_only: bool = False) -> KubeObject:
    """`read_only` mounts the claim itself read-only: no container of the pod can write, and the kubelet changes no owner."""
    claim: KubeObject = {"claimName": side.claim_name}
    if read_only:
        claim["readOnly"] = True
    return {"name": "data", "persistentVolumeClaim": claim}


def _tls_mount() -> KubeObject:
    return {"name": "tls", "mountPath": TLS_PATH, "readOnly": True}


def _tls_volume(job: TransferJob, action: CreatePod) -> KubeObject:
    items = [
        {"key": "ca.crt", "path": "ca.crt"},
        {"key": f"{action.role.value}.crt", "path": "tls.crt"},
        {"key": f"{action.role.value}.key", "path": "tls.key"},
    ]
    secret = names.credentials_name(job.metadata.name, job.metadata.uid, action.attempt)
    return {"name": "tls", "secret": {"secretName": secret, "items": items}}


def _attachment_annotation(job: TransferJob, side: Side, action: CreatePod) -> dict[str, str]:
    if not traits_of(job).needs_attachment:
        return {}
    if not side.named_attachments:
        raise BuildError(f"{action.role} of attempt {action.attempt}: network Attachment, and no attachment is named")
    return networks_annotation(side, job.metadata.namespace, action.role, _bucket_bps(action))


def _watched(job: TransferJob) -> str:
    """The annotation by which a sender's mover paces."""
    return names.ANNOTATION_EGRESS_BANDWIDTH if traits_of(job).uses_node_interfaces else names.ANNOTATION_PACING


def _cap_annotation(job: TransferJob, name: str, action: CreatePod) -> dict[str, str]:
    """The cap on the nodes' network; on the pod network what its plugin makes a bucket of, and with an attachment nothing, as that bucket
    would hold the pod's own interface, which carries no data, and attachments that ask for none."""
    traits = traits_of(job)
    rate_bps = action.cap_bps if traits.uses_node_interfaces else _bucket_bps(action) if traits.bucket_follows_cap else None
    return {} if rate_bps is None else {name: format_rate(rate_bps)}


def _bucket_bps(action: CreatePod) -> int | None:
    return action.cap_bps if action.bucket_bps is None else action.bucket_bps
