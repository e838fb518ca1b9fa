"""Keywords that only an OpenAPI schema of Kubernetes has: CEL rules, list types, printer columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


def cel(rule: str, message: str) -> Mapping[str, str]:
    """One validation rule of the API server, with the message a user sees when it refuses."""
    return {"rule": rule, "message": message}


def marks(
    *rules: Mapping[str, str], list_type: str | None = None, list_map_keys: tuple[str, ...] = (), default: object = None, **more: object
) -> dict[str, Any]:
    """Schema keywords of Kubernetes for a field: CEL rules, how lists merge, and the default of an object."""
    extra: dict[str, Any] = dict(more)
    if rules:
        extra["x-kubernetes-validations"] = [dict(rule) for rule in rules]
    if list_type is not None:
        extra["x-kubernetes-list-type"] = list_type
    if list_map_keys:
        extra["x-kubernetes-list-map-keys"] = list(list_map_keys)
    if default is not None:
        extra["default"] = default
    return extra


def immutable(field: str, thing: str = "job", kind: str = "TransferJob") -> Mapping[str, str]:
    """The rule that refuses any change of `field` after creation."""
    return cel("self == oldSelf", f"{field} cannot change once the {thing} exists: create a new {kind} instead")


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column; `wide` ones appear with `-o wide` only."""

    name: str
    type: Literal["string", "integer", "date"]
    json_path: str
    description: str
    wide: bool = False
