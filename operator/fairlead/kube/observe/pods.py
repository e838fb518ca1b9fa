"""Reads a pod object as a `MoverPod`: only what the decisions use, and only if it is one that this operator made."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from fairlead.api import names
from fairlead.api.transferjob.spec import MOST_INTERFACES
from fairlead.api.transferjob.status import PodRecord, ProtocolInForce
from fairlead.core.observed import MoverPod, PodPhase, Role
from fairlead.core.reports import Verdict
from fairlead.core.verdicts import is_live
from fairlead.kube.observe.advice import parse_advice
from fairlead.kube.observe.forms import (
    LONGEST_TERMINATION_MESSAGE,
    Attempt,
    Checks,
    Count,
    FileCount,
    JobUid,
    MoverMessage,
    ReportError,
    Seconds,
    Version,
    encoded,
    parse_message,
    printable,
    read_checks,
)

MOVER_CONTAINER = "mover"
ADVISOR_CONTAINER = "advisor"

PORT_DATA = "data"
PORT_ECHO = "echo"
PORT_HTTP = "http"
PORT_ADVISOR = "advisor-http"
OFFSETS: Mapping[str, int] = {PORT_DATA: 0, PORT_ECHO: 0, PORT_HTTP: 1, PORT_ADVISOR: 2}

MOVER_SELECTOR = f"{names.LABEL_MANAGED_BY}={names.MANAGER},{names.LABEL_JOB_UID}"

_DATA_INTERFACES = frozenset(map(names.attachment_interface, range(MOST_INTERFACES)))
_ORDINARY_ENDS = frozenset({"", "Completed", "Error"})
_ORDINARY_WAITS = frozenset({"", "ContainerCreating", "PodInitializing"})


@dataclass(frozen=True, slots=True)
class OwnedPod:
    """A mover pod together with the job that owns it."""

    namespace: str
    job_name: str
    job_uid: str
    pod: MoverPod
    has_owner: bool = True
    """Whether it names a controller. Without one nobody collects it when its job goes."""

    @property
    def is_stray(self) -> bool:
        """Whether it is to be removed once its job is gone: a mover that would move data on, or a cleaner that has ended. A cleaner that
        still runs may end by itself."""
        if self.has_owner or self.pod.deleting:
            return False
        return is_live(self.pod) is not (self.pod.role is Role.CLEANER)

    @property
    def waits_for_record(self) -> bool:
        """Whether it is a new mover that is not placed until its creation is recorded."""
        return names.GATE_RECORDED in self.pod.gates and self.pod.node is None and not self.pod.deleting


class _VerdictMessage(MoverMessage):
    """A termination message (docs/contracts.md, "Verdict")."""

    version: Version
    role: Literal["sender", "receiver", "cleaner"]
    job: JobUid
    attempt: Attempt = 0
    verdict: Literal["Succeeded", "Failed", "Stopped"]
    reason: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]{0,63}$")]
    message: str = ""
    retry: bool = False
    bytes_total: Count = 0
    bytes_transferred: Count = 0
    bytes_skipped: Count = 0
    bytes_resumed: Count = 0
    blocks_damaged: Count = 0
    files_total: FileCount = 0
    files_transferred: FileCount = 0
    files_skipped: FileCount = 0
    seconds: Seconds = 0.0
    bulk_seconds: Seconds = 0.0
    protocol: ProtocolInForce | None = None
    bytes_resent: Count = 0
    retransmitted_bytes: Count | None = None
    cpu_seconds: Seconds | None = None
    checks: Checks = ()


def read_owned_pod(body: Mapping[str, Any]) -> OwnedPod | None:
    """The pod if it claims to be a mover of a TransferJob and its controller, if it has one, labels and name agree, else None.

    Whoever may create pods can make one that claims this. A job's pods are those that its status records (`core.pod_record`).
    """
    metadata = body.get("metadata") or {}
    labels = metadata.get("labels") or {}
    owner = _owner(metadata)
    if owner is None:
        return None
    role_label, attempt_label = labels.get(names.LABEL_ROLE), labels.get(names.LABEL_ATTEMPT, "")
    if role_label not in tuple(Role) or not attempt_label.isascii() or not attempt_label.isdigit():
        return None
    job_name, job_uid = owner
    role, attempt = Role(role_label), int(attempt_label)
    name = str(metadata.get("name", ""))
    if labels.get(names.LABEL_JOB_UID) != job_uid or not names.is_child_name(name, job_name, role.value, attempt):
        return None
    return OwnedPod(
        sys.intern(metadata["namespace"]), job_name, job_uid, _read_mover(body, role, attempt), has_owner=bool(_controllers(metadata))
    )


def recorded_pods(job: Mapping[str, Any]) -> list[PodRecord]:
    """The pods that a job's status records, as far as they can be read: one record that cannot must not hide the others."""
    found: list[PodRecord] = []
    records = (job.get("status") or {}).get("pods")
    for record in records if isinstance(records, list) else []:
        with contextlib.suppress(ValidationError):
            found.append(PodRecord.model_validate(record))
    return found


def read_recorded_pod(body: Mapping[str, Any], job_name: str, job_uid: str, record: PodRecord) -> OwnedPod | None:
    """The pod if it is the one that was recorded, whatever labels and owner it has by now, else None."""
    metadata = body["metadata"]
    if metadata["uid"] != record.uid or record.role not in tuple(Role):
        return None
    mover = _read_mover(body, Role(record.role), record.attempt)
    return OwnedPod(sys.intern(metadata["namespace"]), job_name, job_uid, mover, has_owner=bool(_controllers(metadata)))


def _owner(metadata: Mapping[str, Any]) -> tuple[str, str] | None:
    """Name and UID of the job that the pod claims: its controller, and where it has none those that it was made with, as a job that is
    deleted with `--cascade=orphan` leaves its pods without an owner."""
    owners = _controllers(metadata)
    for owner in owners:
        if owner.get("kind") == names.KIND and str(owner.get("apiVersion", "")).startswith(f"{names.GROUP}/"):
            return sys.intern(str(owner["name"])), sys.intern(str(owner["uid"]))
    name = (metadata.get("annotations") or {}).get(names.ANNOTATION_JOB)
    uid = (metadata.get("labels") or {}).get(names.LABEL_JOB_UID)
    return (sys.intern(str(name)), sys.intern(str(uid))) if not owners and name and uid else None


def _controllers(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [owner for owner in metadata.get("ownerReferences") or [] if owner.get("controller")]


def _read_mover(body: Mapping[str, Any], role: Role, attempt: int) -> MoverPod:
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    terminated = _terminated(status, MOVER_CONTAINER)
    advised = _terminated(status, ADVISOR_CONTAINER)
    annotations = metadata.get("annotations") or {}
    waiting_reason, waiting_message = _waiting(status)
    phase = status.get("phase")
    return MoverPod(
        name=metadata["name"],
        uid=sys.intern(metadata["uid"]),
        resource_version=str(metadata.get("resourceVersion", "")),
        role=role,
        attempt=attempt,
        phase=PodPhase(phase) if phase in tuple(PodPhase) else PodPhase.UNKNOWN if phase else PodPhase.PENDING,
        ready=_is_mover_ready(status),
        deleting=metadata.get("deletionTimestamp") is not None,
        created_at=datetime.fromisoformat(metadata["creationTimestamp"]),
        node=_interned(spec.get("nodeName")),
        address=_address(status),
        addresses=_addresses(status, on_host=bool(spec.get("hostNetwork"))),
        attached=_attached(annotations.get(names.ANNOTATION_NETWORK_STATUS)),
        port_base=_port_base(spec),
        egress_cap=annotations.get(names.ANNOTATION_EGRESS_BANDWIDTH),
        ingress_cap=annotations.get(names.ANNOTATION_INGRESS_BANDWIDTH),
        pacing_cap=annotations.get(names.ANNOTATION_PACING),
        path_caps=annotations.get(names.ANNOTATION_PATH_BANDWIDTH),
        watches_paths=_watches(spec, names.ANNOTATION_PATH_BANDWIDTH),
        verdict=parse_verdict(terminated.get("message") or "", role) if terminated else None,
        waiting_reason=waiting_reason,
        waiting_message=waiting_message,
        exit_code=terminated.get("exitCode") if terminated else None,
        ended_at=_time(terminated, "finishedAt") if terminated else None,
        advice=parse_advice(advised.get("message") or "") if advised else None,
        ready_since=_since(status, "Ready", "True"),
        unready_since=_since(status, "Ready", "False"),
        placed_at=_since(status, "PodScheduled", "True"),
        gates=tuple(str(gate.get("name", "")) for gate in spec.get("schedulingGates") or []),
        wanted_node=_interned(_wanted_node(spec)),
        on_host_network=spec.get("hostNetwork") is True,
        knows_path=annotations.get(names.ANNOTATION_PATH) == names.PATH_KNOWN,
    )


def _interned(node: str | None) -> str | None:
    """The same name, once in the process: thousands of pods have it."""
    return None if node is None else sys.intern(node)


def _watches(spec: Mapping[str, Any], annotation: str) -> bool:
    """Whether the pod's containers see the annotation by the Downward API."""
    items = (item for volume in spec.get("volumes") or [] for item in (volume.get("downwardAPI") or {}).get("items") or [])
    return any((item.get("fieldRef") or {}).get("fieldPath") == f"metadata.annotations['{annotation}']" for item in items)


def parse_verdict(message: str, role: Role) -> Verdict | None:
    """The verdict of a termination message; None unless it is well formed and of this role.

    Job and attempt are handed on for the reader to compare.
    """
    try:
        parsed = parse_message(_VerdictMessage, encoded(message), LONGEST_TERMINATION_MESSAGE)
    except ReportError:
        return None
    if parsed.role != role.value:
        return None
    return Verdict(
        job=parsed.job,
        attempt=parsed.attempt,
        verdict=parsed.verdict,
        reason=parsed.reason,
        message=printable(parsed.message),
        retry=parsed.retry,
        bytes_total=parsed.bytes_total,
        bytes_transferred=parsed.bytes_transferred,
        bytes_skipped=parsed.bytes_skipped,
        bytes_resumed=parsed.bytes_resumed,
        blocks_damaged=parsed.blocks_damaged,
        files_total=parsed.files_total,
        files_transferred=parsed.files_transferred,
        files_skipped=parsed.files_skipped,
        seconds=parsed.seconds,
        bulk_seconds=parsed.bulk_seconds,
        protocol=parsed.protocol,
        bytes_resent=parsed.bytes_resent,
        retransmitted_bytes=parsed.retransmitted_bytes,
        cpu_seconds=parsed.cpu_seconds,
        checks=read_checks(parsed.checks),
    )


def _terminated(status: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        if container.get("name") == name:
            ended = (container.get("state") or {}).get("terminated")
            return ended if isinstance(ended, dict) else None
    return None


def _is_mover_ready(status: Mapping[str, Any]) -> bool:
    """By its own container: the pod's condition counts the sidecar too, without which a transfer goes on."""
    movers = (container for container in status.get("containerStatuses") or [] if container.get("name") == MOVER_CONTAINER)
    return any(container.get("ready") is True for container in movers)


def _since(status: Mapping[str, Any], kind: str, state: str) -> datetime | None:
    found = (c for c in status.get("conditions") or [] if c.get("type") == kind and c.get("status") == state)
    return next((_time(condition, "lastTransitionTime") for condition in found), None)


def _time(ended: Mapping[str, Any], field: str) -> datetime | None:
    value = ended.get(field)
    return datetime.fromisoformat(value) if value else None


def _waiting(status: Mapping[str, Any]) -> tuple[str, str]:
    """What holds the pod back or ended its mover. The mover's container comes first, and once it has ended no sidecar counts."""
    mover_ended = _terminated(status, MOVER_CONTAINER)
    sidecars = [] if mover_ended else status.get("initContainerStatuses") or []
    for container in [*(status.get("containerStatuses") or []), *sidecars]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason", "") not in _ORDINARY_WAITS:
            return str(waiting["reason"]), printable(str(waiting.get("message", "")))
    ended = (mover_ended or {}).get("reason", "")
    if ended not in _ORDINARY_ENDS:
        return str(ended), ""
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("reason") or "Unschedulable"), printable(str(condition.get("message", "")))
    # A kubelet that refuses or evicts a pod reports it here and starts no container.
    return str(status.get("reason") or ""), printable(str(status.get("message") or ""))


def _address(status: Mapping[str, Any]) -> str | None:
    try:
        return str(ipaddress.ip_address(status["podIP"]))
    except (KeyError, ValueError):
        return None


def _addresses(status: Mapping[str, Any], *, on_host: bool) -> frozenset[str]:
    own = [status.get("podIP"), *(entry.get("ip") for entry in status.get("podIPs") or [])]
    hosts = [status.get("hostIP"), *(entry.get("ip") for entry in status.get("hostIPs") or [])] if on_host else []
    return _shared_addresses(tuple(map(str, (*own, *hosts))))


@functools.lru_cache(maxsize=1024)
def _shared_addresses(texts: tuple[str, ...]) -> frozenset[str]:
    """One set for all pods on a node's network."""
    return read_addresses(texts)


def read_addresses(texts: Iterable[object]) -> frozenset[str]:
    """Those of `texts` that are addresses, in their usual form."""
    found = set()
    for text in texts:
        with contextlib.suppress(ValueError):
            found.add(str(ipaddress.ip_address(str(text))))
    return frozenset(found)


def _attached(status: str | None) -> frozenset[str] | None:
    """The addresses of the data attachments in what Multus reports; None where it does not."""
    try:
        entries = json.loads(status or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(entries, list):
        return None
    data = [entry for entry in entries if isinstance(entry, dict) and entry.get("interface") in _DATA_INTERFACES]
    lists = [entry["ips"] for entry in data if isinstance(entry.get("ips"), list)]
    return read_addresses(address for addresses in lists for address in addresses) if data else None


def _port_base(spec: Mapping[str, Any]) -> int | None:
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        for port in container.get("ports") or []:
            if port.get("name") in OFFSETS:
                return int(port["containerPort"]) - OFFSETS[port["name"]]
    return None


def _wanted_node(spec: Mapping[str, Any]) -> str | None:
    """The node that the operator's own form of affinity names."""
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in affinity.get("nodeSelectorTerms") or []:
        for field in term.get("matchFields") or []:
            if field.get("key") == "metadata.name" and field.get("operator") == "In" and len(field.get("values") or []) == 1:
                return str(field["values"][0])
    return None
