"""Measures what the node guard lets through: prints a table, writes build/bench/guard.json.

A real mover that is told of no cap, and a process beside it in the same pod that floods by UDP from two addresses to changing ports, send
for a minute while the pod's annotation is rewritten every second and the guard is killed and started again. What arrives is counted at the
receiver's interface, IP headers included. Needs root and control groups of version 2.
"""

from __future__ import annotations

from functools import partial

from fairlead_dev.bench.guard.parts import GOALS, PARTS
from fairlead_dev.bench.lab.machine import TEST_BED
from fairlead_dev.bench.lab.mover import MoverLab, MoverProgram
from fairlead_dev.bench.runner import PartsBench, exit_with, run_bench
from fairlead_dev.netlab.pair import remove_leftovers

BENCH = PartsBench(
    name="guard",
    about=__doc__,
    parts=PARTS,
    goals=GOALS,
    lab=lambda options, scratch: MoverLab(MoverProgram(options.mover), options.emulator, scratch, options.quick),
    remove_leftovers=remove_leftovers,
    binaries={"mover": "the mover that does not obey", "emulator": "the wide-area emulator"},
    programs=(*TEST_BED, "nft"),
    scratch_bytes=3 << 30,
)

if __name__ == "__main__":
    exit_with(partial(run_bench, BENCH))
