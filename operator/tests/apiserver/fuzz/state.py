"""What is there, without what is another one each time: times, UIDs, versions, ports, numbers of attempts, and what movers measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from faults.proxy import general_name
from faults.world import is_true, job_of, role_of

from fairlead.api import names
from fairlead.kube.client import KubeObject
from fairlead.kube.observe.pods import ADVISOR_CONTAINER

_DROPPED_METADATA = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "namespace",
    "deletionGracePeriodSeconds",
)
_DROPPED_STATUS = frozenset(
    ["observedGeneration", "attempts", "progress", "measured", "pods", "pod", "lastFailure", "failures", "decision", "instance"]
)
_DROPPED_LABELS = (names.LABEL_JOB_UID, names.LABEL_ATTEMPT)
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_NUMBER = re.compile(r"(?<=[:=])[0-9]{4,5}\b|(?<=--attempt=)[0-9]+")
ATTEMPT = re.compile(r"-[0-9]+$")
_OF_THE_WAY_THERE = ("CapEnforced", "ReportsBelieved", "Suspended")
"""Conditions that depend on how long it took, or tell that something was and is no more."""
_ON_THE_WAY = frozenset({"MoversStarting", "InProgress"})


def without_time(value: Any) -> Any:
    """A part of a status, without moments and what is measured."""
    if isinstance(value, dict):
        return {
            key: without_time(each)
            for key, each in value.items()
            if key not in _DROPPED_STATUS and not key.endswith("Time") and not (key == "path" and isinstance(each, dict))
        }
    return [without_time(each) for each in value] if isinstance(value, list) else value


def conditions_of(body: KubeObject) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    listed = (body.get("status") or {}).get("conditions") or []
    return {each["type"]: (each["status"], each["reason"]) for each in listed}


def object_state(body: KubeObject) -> dict[str, Any]:
    """An object of ours, or a child of one."""
    metadata = {key: each for key, each in body["metadata"].items() if key not in _DROPPED_METADATA}
    metadata["name"] = general_name(metadata["name"])
    if owners := metadata.pop("ownerReferences", None):
        metadata["owners"] = [[owner["kind"], owner["name"]] for owner in owners]
    status = without_time({key: each for key, each in (body.get("status") or {}).items() if key != "conditions"})
    conditions = {kind: list(each) for kind, each in conditions_of(body).items() if kind not in _OF_THE_WAY_THERE}
    return {"metadata": metadata, "spec": body.get("spec"), "status": {**status, "conditions": conditions}}


def pod_state(pod: KubeObject) -> dict[str, Any]:
    """A pod: what it was made with, and how far it is."""
    metadata = pod["metadata"]
    labels = {key: each for key, each in (metadata.get("labels") or {}).items() if key not in _DROPPED_LABELS}
    return {
        "name": ATTEMPT.sub("", general_name(metadata["name"])),
        "labels": labels,
        "annotations": {key: each for key, each in (metadata.get("annotations") or {}).items() if key != names.ANNOTATION_PATH},
        "finalizers": metadata.get("finalizers") or [],
        "deleted": "deletionTimestamp" in metadata,
        "phase": (pod.get("status") or {}).get("phase"),
        "spec": _general(pod["spec"]),
    }


def _general(value: Any) -> Any:
    """A part of a pod's spec, without UIDs, ports and attempts."""
    if isinstance(value, dict):
        if value.get("name") == ADVISOR_CONTAINER:
            # A path that one attempt has measured is known to the next.
            value = {**value, "args": []}
        return {key: 0 if key in ("containerPort", "hostPort") else _general(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_general(each) for each in value]
    if isinstance(value, str):
        return ATTEMPT.sub("", general_name(_NUMBER.sub("0", _UID.sub("UID", value))))
    return value


def is_current(body: KubeObject) -> bool:
    """Whether the operator has seen the object's present version."""
    return (body.get("status") or {}).get("observedGeneration") == body["metadata"]["generation"]


def is_told(job: KubeObject, pods: Iterable[KubeObject]) -> bool:
    """Whether a job is under way, or says what keeps it from that: nothing that is on the way is left."""
    if any(is_true(job, kind) for kind in ("MoversReady", "Stalled", "Suspended", "Succeeded", "Failed")):
        return True
    if any(is_true(job, kind, "False") for kind in ("Accepted", "Scheduled")):
        return True
    if "lastFailure" in (job.get("status") or {}):
        return True
    reason = conditions_of(job).get("MoversReady", ("", ""))[1]
    uid = job["metadata"]["uid"]
    # A mover whose pod has been bound is on its way unless something is said of it.
    return bool(reason) and reason not in _ON_THE_WAY and not any(job_of(pod) == uid and role_of(pod) == "cleaner" for pod in pods)


def difference(usual: Mapping[str, Any], found: Mapping[str, Any], most: int = 600) -> str:
    """Where two states differ, in a line."""
    return "; ".join(_differences(usual, found, ""))[:most]


def _differences(usual: Any, found: Any, where: str) -> list[str]:
    if usual == found:
        return []
    if isinstance(usual, dict) and isinstance(found, dict):
        keys = [*usual, *(key for key in found if key not in usual)]
        return [text for key in keys for text in _differences(usual.get(key), found.get(key), f"{where}.{key}".removeprefix("."))]
    if isinstance(usual, list) and isinstance(found, list) and len(usual) == len(found):
        return [
            text
            for number, (one, other) in enumerate(zip(usual, found, strict=True))
            for text in _differences(one, other, f"{where}[{number}]")
        ]
    return [f"{where} is {str(found)[:200]}, not {str(usual)[:200]}"]
