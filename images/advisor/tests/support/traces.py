"""Traces from plain lists."""

from array import array
from collections.abc import Iterable
from math import nan

from fairlead_advisor.probe.trace import Trace


def trace_of(rows: Iterable[tuple[float, float | None]]) -> Trace:
    listed = list(rows)
    return Trace(array("d", (time for time, _ in listed)), array("d", (nan if rtt is None else rtt for _, rtt in listed)))


def steady(count: int = 200, period_s: float = 0.05, rtt_ms: float | None = 60.0) -> Trace:
    return trace_of((index * period_s, rtt_ms) for index in range(count))
