"""The `TransferJob` resource as a whole: the metadata the operator uses, spec, status and the columns of `kubectl get`."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from fairlead.api.names import FINALIZER
from fairlead.api.shared.resource import ObjectMetadata, Resource
from fairlead.api.shared.schema import Column
from fairlead.api.transferjob.spec import TransferJobSpec
from fairlead.api.transferjob.status import TransferJobStatus

__all__ = ["JOB_COLUMNS", "Metadata", "TransferJob", "TransferJobSpec", "TransferJobStatus"]

JOB_COLUMNS: Final = (
    Column("Phase", "string", ".status.phase", "Summary for people"),
    Column("Reason", "string", '.status.conditions[?(@.type=="Stalled")].reason', "Why the job is in its phase"),
    Column("Progress%", "integer", ".status.progress.percent", "Per cent of the bytes that arrived or were skipped"),
    Column("Rate", "string", ".status.progress.rate", "Bits per second, mean of the last 10 seconds"),
    Column("ETA", "string", ".status.progress.eta", "Time left at the present rate"),
    Column("CC", "string", ".status.decision.congestionControl", "Congestion control"),
    Column("Streams", "integer", ".status.decision.streams", "Parallel streams"),
    Column("Protocol", "string", ".status.protocol", "Transport protocol of the data", wide=True),
    Column("From", "string", ".status.endpoints.source.node", "Node of the sender", wide=True),
    Column("To", "string", ".status.endpoints.destination.node", "Node of the receiver", wide=True),
    Column("RTT", "string", ".status.path.rtt", "Median round-trip time", wide=True),
    Column("Age", "date", ".metadata.creationTimestamp", "Time since creation"),
)


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
