"""Counts what can be watched of a run with traffic; writes build/bench/observe.json."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fairlead_dev.bench.observe import boards
from fairlead_dev.bench.rows import heading, line, write
from fairlead_dev.bench.runner import BenchCommand
from fairlead_dev.boards.answers import BoardAnswers
from fairlead_dev.boards.files import FOLDER
from fairlead_dev.boards.reading import load
from fairlead_dev.checkout import CHECKOUT


def run(options: argparse.Namespace) -> int:
    """Counts, prints and writes."""
    rows = boards.rows(load(CHECKOUT / FOLDER), BoardAnswers.read(options.answers))
    print("\n".join([heading(), *(line(row) for row in rows)]))
    write(rows, options.output)
    return 0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--answers", type=Path, required=True, metavar="FILE", help="what `boards ask --over-time` printed")


BENCH = BenchCommand("observe", __doc__, _options, run)

if __name__ == "__main__":
    sys.exit(BENCH.main())
