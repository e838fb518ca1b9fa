"""The `TransferJob` resource as a whole: the metadata the operator uses, spec and status."""

from __future__ import annotations

from pydantic import Field

from fairlead.api.names import FINALIZER
from fairlead.api.schema import ObjectMetadata, Resource
from fairlead.api.spec import TransferJobSpec
from fairlead.api.status import TransferJobStatus

__all__ = ["Metadata", "TransferJob", "TransferJobSpec", "TransferJobStatus"]


class Metadata(ObjectMetadata):
    """What the operator uses of a job's metadata."""

    namespace: str
    finalizers: tuple[str, ...] = ()


class TransferJob(Resource):
    """One transfer of a directory between two nodes."""

    metadata: Metadata
    spec: TransferJobSpec
    status: TransferJobStatus = Field(default_factory=TransferJobStatus)

    @property
    def deleting(self) -> bool:
        """Whether somebody asked for the job to be deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def holds_finalizer(self) -> bool:
        """Whether the object stays until its partial files are gone."""
        return FINALIZER in self.metadata.finalizers
