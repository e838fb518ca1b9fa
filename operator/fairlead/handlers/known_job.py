"""A job as the cache keeps it: what is asked of all jobs at a time, and the object itself, packed."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.core.lifecycle.placing import holding_of
from fairlead.core.placement.model import Holding
from fairlead.core.queueing import QUEUE_LABEL
from fairlead.handlers.usual_job import USUAL_JOB
from fairlead.kube.client import KubeObject

_COMING_UP = frozenset({"Pending", "Probing"})


@dataclass(frozen=True, slots=True)
class KnownJob:
    """One version of a job. Ten thousand live ones as dictionaries take 80 MB, and packed 6: a pass unpacks its own one."""

    namespace: str
    name: str
    uid: str
    is_new: bool
    """Nothing was written into its status yet."""
    is_coming_up: bool
    """An attempt has a pod and does not transfer yet: its movers start, or its advisor measures the path, for which others may wait."""
    phase: str
    """Empty before the first one is written."""
    queue: str
    """The queue of Kueue that it names, empty without one."""
    holding: Holding | None
    """What it has while an attempt is under way."""
    packed: bytes

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> KnownJob:
        """What is kept of a job."""
        kept = slim(body)
        metadata, status = kept["metadata"], kept["status"]
        return cls(
            namespace=sys.intern(metadata["namespace"]),
            name=sys.intern(metadata["name"]),
            uid=sys.intern(metadata["uid"]),
            is_new=not status,
            is_coming_up=_is_coming_up(status),
            phase=sys.intern(str(status.get("phase", ""))),
            queue=str((metadata.get("labels") or {}).get(QUEUE_LABEL) or ""),
            holding=holding_of(kept),
            packed=_packed(kept),
        )

    def body(self) -> KubeObject:
        """The object without its `managedFields`: a new copy each time, but for what names the job, which passes leave in many places."""
        unpacked: KubeObject = json.loads(zlib.decompressobj(zdict=_USUAL).decompress(self.packed))
        unpacked["metadata"].update(namespace=self.namespace, name=self.name, uid=self.uid)
        return unpacked


def _encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


_USUAL = _encoded(USUAL_JOB)


def _packed(body: Mapping[str, Any]) -> bytes:
    packer = zlib.compressobj(zdict=_USUAL)
    return packer.compress(_encoded(body)) + packer.flush()


def slim(body: Mapping[str, Any]) -> KubeObject:
    """An object with no more than what is kept of it."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    return {"metadata": metadata, "spec": body.get("spec") or {}, "status": body.get("status") or {}}


def _is_coming_up(status: Mapping[str, Any]) -> bool:
    # One that waits for ports has begun an attempt too, and may do so for hours. Nobody has checked the form yet.
    records, attempt = status.get("pods"), status.get("attempts")
    has_pod = isinstance(records, list) and any(isinstance(pod, dict) and pod.get("attempt") == attempt for pod in records)
    return has_pod and bool(status.get("attemptStartTime")) and status.get("phase") in _COMING_UP
