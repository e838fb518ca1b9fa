"""The samples of a survey in a record: what training needs of it once somebody knows what was on the path."""

import math
from array import array
from collections.abc import Iterable
from itertools import pairwise

from fairlead_advisor.errors import RecordError
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.record.journal import Entry, EntryKind

MOST_SAMPLES = 4000
"""Some 60 kB: a record has room for several probes that somebody wanted long and dense."""

_MOST = 1e7


def samples_json(trace: Trace) -> Entry:
    """The last MOST_SAMPLES: times in s from the first of them on, round-trip times in ms, null for a lost one."""
    rows = list(trace.rows())[-MOST_SAMPLES:]
    first_s = rows[0][0] if rows else 0.0
    return {
        "send_times_s": [round(time_s - first_s, 4) for time_s, _ in rows],
        "rtts_ms": [None if rtt_ms is None else round(rtt_ms, 3) for _, rtt_ms in rows],
    }


def sampled_traces(entries: Iterable[Entry]) -> list[Trace]:
    """The traces of every survey in a record, oldest first. RecordError naming the entry if one is damaged."""
    return [_trace(entry) for entry in entries if entry.get("kind") == EntryKind.SURVEY]


def _trace(entry: Entry) -> Trace:
    times_s, rtts_ms = _column(entry.get("send_times_s")), _column(entry.get("rtts_ms"), lost=True)
    if not times_s or rtts_ms is None or len(times_s) != len(rtts_ms) or any(later < earlier for earlier, later in pairwise(times_s)):
        raise RecordError(f"the survey of {entry.get('at')} has no samples that belong together: it was not written by this program")
    return Trace(times_s, rtts_ms)


def _column(values: object, *, lost: bool = False) -> "array[float] | None":
    """The numbers in a list, NaN for null where requests may be `lost`; None if anything else is in it."""
    if not isinstance(values, list):
        return None
    column = array("d")
    for value in values:
        if lost and value is None:
            column.append(math.nan)
        elif isinstance(value, int | float) and 0 <= value <= _MOST:
            column.append(value)
        else:
            return None
    return column
