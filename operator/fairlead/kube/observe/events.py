"""What the kubelet's events tell of a pod that does not start."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.kube.client import KubeObject
from fairlead.kube.observe.forms import printable

NETWORK_FAILED = "FailedCreatePodSandBox"
"""The kubelet's reason where the container runtime, or a plugin of the network, could not make the pod's surroundings."""

_KUBELET = "kubelet"
_LONGEST_MESSAGE = 4096


def latest_message(events: Iterable[KubeObject]) -> str:
    """The message of the kubelet's last event among these; empty without one.

    Whoever may create events in the namespace can write one in the kubelet's name: it explains a failure and decides nothing.
    """
    told = [event for event in events if _reporter(event) == _KUBELET]
    latest = max(told, key=_time, default=None)
    return "" if latest is None else printable(str(latest.get("message") or ""), _LONGEST_MESSAGE)


def _reporter(event: KubeObject) -> object:
    return event.get("reportingComponent") or (event.get("source") or {}).get("component")


def _time(event: KubeObject) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event.get("metadata", {}).get("creationTimestamp") or "")
