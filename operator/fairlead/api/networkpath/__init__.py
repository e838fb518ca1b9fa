"""The `NetworkPath` resource as a whole: spec, status and the columns of `kubectl get`."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from fairlead.api.networkpath.spec import NetworkPathSpec
from fairlead.api.networkpath.status import NetworkPathStatus
from fairlead.api.shared.resource import ObjectMetadata, Resource
from fairlead.api.shared.schema import Column

__all__ = ["PATH_COLUMNS", "NetworkPath", "NetworkPathSpec", "NetworkPathStatus"]

PATH_COLUMNS: Final = (
    Column("From", "string", ".spec.source.node", "Node that sends"),
    Column("To", "string", ".spec.destination.node", "Node that receives"),
    Column("RTT", "string", ".status.rtt", "Median round-trip time"),
    Column("Background", "string", ".status.background.class", "Class of the other traffic when it was last looked at"),
    Column("Capacity", "string", ".status.capacity", "Most that one transfer got lately"),
    Column("Measured", "date", ".status.lastMeasuredTime", "Time since the last probe"),
    Column("Declared", "string", ".spec.capacity", "Capacity that somebody declared", wide=True),
    Column("Via", "string", ".spec.source.interface", "Interface that sends", wide=True),
    Column("Loss", "string", ".status.loss", "Share of probes that were lost", wide=True),
    Column("Age", "date", ".metadata.creationTimestamp", "Time since creation"),
)


class NetworkPath(Resource):
    """One direction between two nodes."""

    metadata: ObjectMetadata
    spec: NetworkPathSpec
    status: NetworkPathStatus = Field(default_factory=NetworkPathStatus)
