"""Which pods of a node are to be held, and to what."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from fairlead.api import names
from fairlead.api.shared.quantity import RateError, parse_rate
from fairlead.core.observed import PodPhase, Role
from fairlead.guard.ruleset import HeldSender
from fairlead.kube.observe.pods import MOVER_CONTAINER, read_owned_pod

_CONNECT = "--connect="


def held_sender(pod: Mapping[str, Any]) -> HeldSender | None:
    """A running sender of ours on the node's network that has a cap; None for every other pod.

    A cap that is no rate holds nobody: it is the mover's to refuse, and an annotation that somebody else wrote is not ours to guess.
    """
    owned = read_owned_pod(pod)
    spec = pod.get("spec") or {}
    if owned is None or owned.pod.role is not Role.SENDER or not spec.get("hostNetwork"):
        return None
    if owned.pod.phase not in (PodPhase.PENDING, PodPhase.RUNNING):
        return None
    cap = (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_EGRESS_BANDWIDTH)
    movers = (container for container in spec.get("containers") or [] if container.get("name") == MOVER_CONTAINER)
    words = (str(word) for container in movers for word in container.get("args") or [])
    target = next((word.removeprefix(_CONNECT) for word in words if word.startswith(_CONNECT)), None)
    if cap is None or target is None:
        return None
    host, _, port = target.rpartition(":")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        return HeldSender(str(address), int(port), int(parse_rate(cap)))
    except (ValueError, RateError):
        return None
