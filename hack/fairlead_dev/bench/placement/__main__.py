"""Measures placement: prints a table, writes build/bench/placement.json.

The choice is timed for a full pass over 1,000 nodes and 5,000 jobs, none of which is placed yet; what comes out is checked by a second
count of what every interface carries.
"""

from __future__ import annotations

from functools import partial

from fairlead_dev.bench.lab.machine import TEST_BED
from fairlead_dev.bench.lab.mover import MoverLab, MoverProgram
from fairlead_dev.bench.placement.parts import GOALS, PARTS
from fairlead_dev.bench.runner import PartsBench, exit_with, run_bench
from fairlead_dev.netlab.pair import remove_leftovers

BENCH = PartsBench(
    name="placement",
    about=__doc__,
    parts=PARTS,
    goals=GOALS,
    lab=lambda options, scratch: MoverLab(MoverProgram(options.mover), options.emulator, scratch, options.quick),
    remove_leftovers=remove_leftovers,
    binaries={"mover": "the mover to measure", "emulator": "the wide-area emulator"},
    programs=TEST_BED,
    scratch_bytes=3 << 30,
)

if __name__ == "__main__":
    exit_with(partial(run_bench, BENCH))
