"""The `DataTransferNode` resource as a whole: spec, status and the columns of `kubectl get`."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from fairlead.api.datatransfernode.spec import DataTransferNodeSpec
from fairlead.api.datatransfernode.status import DataTransferNodeStatus
from fairlead.api.shared.resource import ObjectMetadata, Resource
from fairlead.api.shared.schema import Column

__all__ = ["DTN_COLUMNS", "DataTransferNode", "DataTransferNodeSpec", "DataTransferNodeStatus"]

DTN_COLUMNS: Final = (
    Column("Site", "string", ".spec.site", "Where the node is"),
    Column("Interfaces", "string", ".status.summary.interfaces", "Interfaces that may carry data, with their rates"),
    Column("Jobs", "string", ".status.summary.jobs", "Movers there, and slots"),
    Column("Free", "string", ".status.summary.free", "Free space of what it serves"),
    Column("Tuned", "string", ".status.conditions[?(@.type=='Tuned')].status", "Whether the host is set up for long paths"),
    Column("Ready", "string", ".status.conditions[?(@.type=='Ready')].status", "Whether its agent reports"),
    Column("Age", "date", ".metadata.creationTimestamp", "Time since creation"),
    Column("Load", "string", ".status.load", "Load of the last 5 minutes", wide=True),
    Column("CPUs", "integer", ".status.cpus", "Number of CPUs", wide=True),
    Column("Kernel", "string", ".status.kernel.release", "Release of the kernel", wide=True),
    Column("Reported", "date", ".status.lastReportTime", "Time since the agent's last report", wide=True),
)


class DataTransferNode(Resource):
    """A node that moves data, by the name of its node."""

    metadata: ObjectMetadata
    spec: DataTransferNodeSpec = Field(default_factory=DataTransferNodeSpec)
    status: DataTransferNodeStatus = Field(default_factory=DataTransferNodeStatus)
