"""Measures the mover's transports: prints a table, writes build/bench/transports.json.

TCP in TLS, QUIC and UDT move the same bytes over the same emulated path, keep the same cap and are switched under load. They move bytes
over a path with losses. A scavenger has a path alone, then beside a CUBIC flow, then alone again. Peers take their turns among these:
iperf3, nuttcp, uftp, uTP by libtorrent, and programs over libudt and s2n-quic that are compiled first. All cases take turns in an order by
a seed; a figure is the median of the repeats, which are all kept, and its interval is by resampling them.
"""

from __future__ import annotations

import argparse
from functools import partial

from fairlead_dev.bench.lab.machine import TEST_BED
from fairlead_dev.bench.lab.mover import MoverLab, MoverProgram
from fairlead_dev.bench.runner import PartsBench, exit_with, run_bench
from fairlead_dev.bench.transports.parts import GOALS, PARTS, PROGRAMS
from fairlead_dev.netlab.pair import remove_leftovers


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--full", action="store_true", help="three repeats in place of two: 35 minutes in place of 25")


BENCH = PartsBench(
    name="transports",
    about=__doc__,
    parts=PARTS,
    goals=GOALS,
    lab=lambda options, scratch: MoverLab(MoverProgram(options.mover), options.emulator, scratch, options.quick, options.full),
    add_options=_add_options,
    remove_leftovers=remove_leftovers,
    binaries={"mover": "the mover to measure", "emulator": "the wide-area emulator"},
    programs=(*TEST_BED, *PROGRAMS),
    scratch_bytes=1 << 30,
)

if __name__ == "__main__":
    exit_with(partial(run_bench, BENCH))
