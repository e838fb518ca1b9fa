"""Measures the mover beside what it is compared with: prints a table, writes build/bench/mover.json.

Needs root, for network namespaces. What is compared with is installed by apt if it is missing; what cannot be had is said in its row.
A run that was interrupted goes on with the parts it had not done; --fresh begins again. With --only before it measures the mover beside an
earlier one, in pairs. A figure short of its target is no failure of the
run: exit code 0 says that everything was measured, 1 that something was not, 2 is for wrong use.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from fairlead_dev.bench.lab.machine import TEST_BED
from fairlead_dev.bench.lab.mover import MoverLab, MoverProgram
from fairlead_dev.bench.mover.plan import GOALS, OTHERS, PARTS
from fairlead_dev.bench.runner import PartsBench, exit_with, run_bench
from fairlead_dev.netlab.pair import remove_leftovers


def _lab(options: argparse.Namespace, scratch: Path) -> MoverLab:
    before = None if options.before is None else MoverProgram(options.before)
    return MoverLab(MoverProgram(options.mover), options.emulator, scratch, options.quick, before=before)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--before", type=Path, metavar="FILE", help="an earlier mover, for --only before")


BENCH = PartsBench(
    name="mover",
    about=__doc__,
    parts=PARTS,
    goals=GOALS,
    lab=_lab,
    add_options=_add_options,
    remove_leftovers=remove_leftovers,
    binaries={"mover": "the binary under test", "emulator": "the wide-area emulator"},
    programs=TEST_BED,
    compared=(*OTHERS, "iperf3", "openssl"),
    scratch_bytes=20 << 30,
)

if __name__ == "__main__":
    exit_with(partial(run_bench, BENCH))
