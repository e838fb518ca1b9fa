"""What every resource model shares: camelCase names, frozen values, and the marks that only an OpenAPI schema of Kubernetes has."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, PlainSerializer, ValidationError
from pydantic.alias_generators import to_camel


class ApiModel(BaseModel):
    """A frozen part of a resource. Unknown fields are ignored, so that an older operator reads a newer object."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )

    def to_object(self) -> dict[str, Any]:
        """The value as the API server takes it: camelCase, RFC 3339 times, nothing that is unset."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Timestamp = Annotated[datetime, PlainSerializer(_rfc3339, return_type=str, when_used="json")]
"""A moment, written to whole seconds in UTC as Kubernetes writes its own."""


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


class ReconcileError(Exception):
    """Ends a pass over an object. The worker acts on these properties alone.

    `kind` is a short constant for metrics. `blame` is who can mend it: `cluster`, `operator` (this program), `administrator`, `owner` (of
    the object) or `nobody` (normal concurrency). `retry`: whether another pass may succeed before the object changes.
    """

    kind: ClassVar[str] = "Internal"
    blame: ClassVar[str] = "operator"
    retry: ClassVar[bool] = True
    is_defect: ClassVar[bool] = False
    """Whether the traceback is wanted: the operator did something that it never should."""

    @property
    def delay_seconds(self) -> float | None:
        """When another pass is wanted; None where the back-off decides."""
        return None


class InvalidResourceError(ReconcileError, ValueError):
    """An object that is not what this version can read. A retry does not help; its owner must change it."""

    kind = "InvalidResource"
    blame = "owner"
    retry = False


def _describe_problems(error: ValidationError) -> str:
    """Every wrong field and what is wrong with it."""
    return "; ".join(f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}" for problem in error.errors())


class ObjectMetadata(ApiModel):
    """The part of an object's metadata that the operator uses."""

    name: str
    uid: str
    generation: int = 1
    resource_version: str = ""
    creation_timestamp: Timestamp
    deletion_timestamp: Timestamp | None = None


class Resource(ApiModel):
    """An object of one of our kinds: `metadata`, `spec` and `status`."""

    @classmethod
    def from_object(cls, body: Mapping[str, Any]) -> Self:
        """The typed form of an object read from the API server. Raises InvalidResourceError that names every wrong field."""
        try:
            return cls.model_validate({"metadata": body.get("metadata"), "spec": body.get("spec"), "status": body.get("status") or {}})
        except ValidationError as error:
            raise InvalidResourceError(_describe_problems(error)) from error
