"""What stands for a transfer under way and within which limits: shared by those that adapt it."""

from dataclasses import dataclass

from fairlead_advisor.decide.model import Decision, History, Limits, PathMeasurement


@dataclass(slots=True)
class Course:
    """`decision` is what was last decided as a whole, `floor_s` the least RTT that anything has seen; `why_streams` tells of the count."""

    path: PathMeasurement
    decision: Decision
    limits: Limits
    history: History
    floor_s: float | None = None
    why_streams: str = ""
