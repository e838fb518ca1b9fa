"""The `TransferJob` resource as a whole: the metadata the operator uses, spec and status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, ValidationError

from fairlead.api.schema import ApiModel, Timestamp
from fairlead.api.spec import TransferJobSpec
from fairlead.api.status import TransferJobStatus

__all__ = ["InvalidResourceError", "Metadata", "TransferJob", "TransferJobSpec", "TransferJobStatus", "describe_problems"]


class InvalidResourceError(ValueError):
    """An object that is not what this version can read. A retry does not help; its owner must change it."""


def describe_problems(error: ValidationError) -> str:
    """Every wrong field and what is wrong with it."""
    return "; ".join(f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}" for problem in error.errors())


class Metadata(ApiModel):
    """The part of an object's metadata that the operator uses."""

    name: str
    namespace: str
    uid: str
    generation: int = 1
    resource_version: str = ""
    creation_timestamp: Timestamp
    deletion_timestamp: Timestamp | None = None
    finalizers: tuple[str, ...] = ()


class TransferJob(ApiModel):
    """One transfer of a directory between two nodes."""

    metadata: Metadata
    spec: TransferJobSpec
    status: TransferJobStatus = Field(default_factory=TransferJobStatus)

    @classmethod
    def from_object(cls, body: Mapping[str, Any]) -> Self:
        """The typed form of an object read from the API server. Raises InvalidResourceError that names every wrong field."""
        try:
            return cls.model_validate({"metadata": body.get("metadata"), "spec": body.get("spec"), "status": body.get("status") or {}})
        except ValidationError as error:
            raise InvalidResourceError(describe_problems(error)) from error

    @property
    def deleting(self) -> bool:
        """Whether somebody asked for the job to be deleted."""
        return self.metadata.deletion_timestamp is not None
