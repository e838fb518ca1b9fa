"""The base of every resource model: camelCase names, frozen values, metadata, and how an object of the API server is read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError
from pydantic.alias_generators import to_camel

from fairlead.api.shared.errors import InvalidResourceError


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
    labels: dict[str, str] = Field(default_factory=dict)


class Resource(ApiModel):
    """An object of one of our kinds: `metadata`, `spec` and `status`."""

    @classmethod
    def from_object(cls, body: Mapping[str, Any]) -> Self:
        """The typed form of an object read from the API server. Raises InvalidResourceError that names every wrong field."""
        try:
            return cls.model_validate({"metadata": body.get("metadata"), "spec": body.get("spec"), "status": body.get("status") or {}})
        except ValidationError as error:
            raise InvalidResourceError(_describe_problems(error)) from error
