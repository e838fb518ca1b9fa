"""What the figures are to reach, and their rows."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_dev.bench.mover import report

GOALS = {
    "jain_managed": report.Goal("at_least", 0.99, "value"),
    "utilisation": report.Goal("at_least", 0.95, "value"),
    "convergence_s_p95": report.Goal("at_most", 10, "value"),
    "overshoot_max": report.Goal("at_most", 0.02, "value"),
    "enforce_latency_s_p99": report.Goal("at_most", 3, "value"),
    "allocate_1000x200x100_ms": report.Goal("at_most", 50, "value"),
}


@dataclass(frozen=True, slots=True)
class Row(report.Row):
    """One figure of this bench."""

    @property
    def goal(self) -> report.Goal | None:
        """What it is to reach, if anything."""
        return GOALS.get(self.name)
