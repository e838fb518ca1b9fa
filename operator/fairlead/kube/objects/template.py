"""What an administrator sets for every mover pod: images, resources, where pods may run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fairlead.core.identities import Identities

_CPUS = re.compile(r"([0-9]+(?:[.][0-9]+)?)(m?)")
_MILLI = 1000

PullPolicy = Literal["Always", "IfNotPresent", "Never"]


@dataclass(frozen=True, slots=True)
class Image:
    """A container image and when to pull it."""

    reference: str
    pull_policy: PullPolicy = "IfNotPresent"


def _mover_resources() -> Mapping[str, Any]:
    return {"requests": {"cpu": "250m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}


def _advisor_resources() -> Mapping[str, Any]:
    return {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}


@dataclass(frozen=True, slots=True)
class WholeCpus:
    """CPUs that the containers of a sender or receiver have alone, so that its pod is Guaranteed: the kubelet's CPU Manager (policy
    `static`) then gives them whole CPUs, and its Topology Manager takes those beside a device plugin's network card.
    """

    mover: int
    advisor: int = 1

    def resources_of(self, container: Mapping[str, Any], cpus: int) -> dict[str, Any]:
        """The container's resources with requests equal to limits. Raises ValueError where no memory is named."""
        amounts = {**container.get("requests", {}), **container.get("limits", {}), "cpu": str(cpus)}
        if "memory" not in amounts:
            raise ValueError("whole CPUs need a limit of memory too: name limits.memory")
        return {**container, "requests": dict(amounts), "limits": dict(amounts)}


@dataclass(frozen=True, slots=True)
class MoverTemplate:
    """The part of mover pods that does not depend on the job. Mappings have the form of the pod's own fields."""

    mover: Image
    advisor: Image
    mover_resources: Mapping[str, Any] = field(default_factory=_mover_resources)
    advisor_resources: Mapping[str, Any] = field(default_factory=_advisor_resources)
    whole_cpus: WholeCpus | None = None
    """None leaves the pods' CPUs to what the resources above say."""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    image_pull_secrets: tuple[str, ...] = ()
    priority_class: str | None = None
    identities: Identities = field(default_factory=Identities)
    """What replaces the user and group that a job does not name."""
    probe_seconds: int = 10
    """How long the advisor samples the path before the data starts."""
    await_transport_seconds: int = 60
    """How long a sender waits for the advisor's choice before it starts with its own."""
    peer_timeout_seconds: int = 330
    """How long a receiver waits for its sender."""

    @property
    def moving_resources(self) -> Mapping[str, Any]:
        """Resources of the mover of a sender or receiver. Raises ValueError."""
        whole = self.whole_cpus
        return self.mover_resources if whole is None else whole.resources_of(self.mover_resources, whole.mover)

    @property
    def mover_cpus(self) -> float | None:
        """Processors that the mover of a sender or receiver is held to; None without a limit that can be read. Raises ValueError."""
        found = _CPUS.fullmatch(str((self.moving_resources.get("limits") or {}).get("cpu", "")))
        return None if found is None else float(found[1]) / (_MILLI if found[2] else 1)

    @property
    def advising_resources(self) -> Mapping[str, Any]:
        """Resources of the advisor beside it. Raises ValueError."""
        whole = self.whole_cpus
        return self.advisor_resources if whole is None else whole.resources_of(self.advisor_resources, whole.advisor)
