"""The columns that `kubectl get` prints for each kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column; `wide` ones appear with `-o wide` only."""

    name: str
    type: Literal["string", "integer", "date"]
    json_path: str
    description: str
    wide: bool = False


COLUMNS: Final = (
    Column("Phase", "string", ".status.phase", "Summary for people"),
    Column("Progress%", "integer", ".status.progress.percent", "Per cent of the bytes that arrived or were skipped"),
    Column("Rate", "string", ".status.progress.rate", "Bits per second, mean of the last 10 seconds"),
    Column("ETA", "string", ".status.progress.eta", "Time left at the present rate"),
    Column("CC", "string", ".status.decision.congestionControl", "Congestion control"),
    Column("Streams", "integer", ".status.decision.streams", "Parallel streams"),
    Column("From", "string", ".status.endpoints.source.node", "Node of the sender", wide=True),
    Column("To", "string", ".status.endpoints.destination.node", "Node of the receiver", wide=True),
    Column("RTT", "string", ".status.path.rtt", "Median round-trip time", wide=True),
    Column("Reason", "string", '.status.conditions[?(@.type=="Failed")].reason', "Why the job failed", wide=True),
    Column("Age", "date", ".metadata.creationTimestamp", "Time since creation"),
)

POLICY_COLUMNS: Final = (
    Column("Accepted", "string", '.status.conditions[?(@.type=="Accepted")].status', "Whether the policy is in force as written"),
    Column("Guarantees", "string", '.status.conditions[?(@.type=="GuaranteesMet")].status', "Whether every guarantee is kept"),
    Column("Jobs", "integer", ".status.jobs", "Jobs that share the links"),
    Column("Waiting", "integer", ".status.waiting", "Jobs that wait for room on a link"),
    Column("Jain", "string", ".status.jainIndex", "Jain's index of what was measured per weight, all jobs"),
    Column("Reason", "string", '.status.conditions[?(@.type=="Accepted")].reason', "Why it is accepted or not", wide=True),
    Column("Age", "date", ".metadata.creationTimestamp", "Time since creation"),
)

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
