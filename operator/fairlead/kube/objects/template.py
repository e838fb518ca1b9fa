"""What an administrator sets for every mover pod: images, resources, where pods may run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fairlead.core.identities import Identities

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
class MoverTemplate:
    """The part of mover pods that does not depend on the job. Mappings have the form of the pod's own fields."""

    mover: Image
    advisor: Image
    mover_resources: Mapping[str, Any] = field(default_factory=_mover_resources)
    advisor_resources: Mapping[str, Any] = field(default_factory=_advisor_resources)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    image_pull_secrets: tuple[str, ...] = ()
    priority_class: str | None = None
    identities: Identities = field(default_factory=Identities)
    """What replaces the user and group that a job does not name."""
    probe_seconds: int = 10
    """How long the advisor samples the path before the data starts."""
    await_transport_seconds: int = 60
    """How long a sender waits for the advisor's choice before it starts with its own."""
