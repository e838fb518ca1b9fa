"""A packed split as trace files."""

from __future__ import annotations

from array import array
from pathlib import Path

from fairlead_advisor.probe.trace import Trace, write_trace
from fairlead_dev.testbed.data import read_split


def export_traces(dataset: Path, split: str, output: Path) -> int:
    """Write the traces of `split` to `output`, one CSV file per run, and return how many."""
    output.mkdir(parents=True, exist_ok=True)
    count = 0
    for recording in read_split(dataset, split):
        trace = Trace(array("d", recording.send_times_s), array("d", recording.rtts_ms))
        write_trace(output / f"{recording.name}.csv", trace)
        count += 1
    return count
