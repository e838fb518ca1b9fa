"""What TCP and UDP flows have in common: where they run and what they report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from fairlead_dev.testbed.scenario.expand import SingleFlow

_MOST_FAILURES = 20


@dataclass(frozen=True, slots=True)
class FlowEnds:
    """From where to where a flow sends."""

    source_namespace: str
    destination_namespace: str
    destination_address: str


@dataclass(frozen=True, slots=True)
class FlowSample:
    """Counters of a flow: totals since its start, and the state of the newest connection."""

    received_bytes: int
    congestion_window_segments: int | None
    rtt_ms: float | None
    retransmits: int


@dataclass(slots=True)
class FlowReport:
    """What became of a flow."""

    number: int
    name: str
    congestion_controls: set[str] = field(default_factory=set)
    transfers: int = 0
    edges: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def edge(self, what: str, planned_s: float, actual_s: float) -> None:
        """Note that the flow went on or off."""
        self.edges.append({"what": what, "planned_s": round(planned_s, 4), "actual_s": round(actual_s, 4)})

    def as_json(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "number": self.number,
            "name": self.name,
            "congestion_controls": sorted(self.congestion_controls),
            "transfers": self.transfers,
            "edges": self.edges,
            "failures": self.failures[:_MOST_FAILURES],
        }


class RunningFlow(Protocol):
    """A flow that an agent drives."""

    single: SingleFlow
    report: FlowReport

    def arrange(self) -> None:
        """Plan every on phase."""

    def sample(self) -> FlowSample:
        """The counters now."""

    def close(self) -> None:
        """Let go of the sockets."""
