"""Counts metrics, alerts and what they cost, and what the boards show of a run with traffic; writes build/bench/observe.json."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fairlead_dev.bench.observe import boards, failures, metrics, run
from fairlead_dev.bench.rows import heading, line, markdown, write
from fairlead_dev.bench.runner import BenchCommand, rows_of_file
from fairlead_dev.boards.answers import BoardAnswers
from fairlead_dev.boards.files import FOLDER
from fairlead_dev.boards.reading import load
from fairlead_dev.checkout import CHECKOUT


def count(options: argparse.Namespace) -> int:
    """Counts, prints and writes, or prints the table of what was written."""
    if options.markdown is not None:
        print(markdown(rows_of_file(options.markdown)))
        return 0
    rows = metrics.rows()
    if options.answers is not None:
        found = BoardAnswers.read(options.answers) if options.answers.exists() else None
        rows += boards.rows(load(CHECKOUT / FOLDER), found)
    if options.tests is not None:
        rows.append(run.row_of(options.tests))
    if options.failures is not None:
        rows.append(failures.row_of(failures.read_records(options.failures)))
    print("\n".join([heading(), *(line(row) for row in rows)]))
    write(rows, options.output)
    return 0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--answers", type=Path, metavar="FILE", help="what `boards ask --over-time` printed; without it the boards are left out"
    )
    parser.add_argument("--tests", type=Path, metavar="FILE", help="pytest's report of that run (--junitxml); left out without it")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="print the table of a written file for the documentation and stop")
    parser.add_argument("--failures", type=Path, metavar="FOLDER", help="what the tests of induced failures wrote; left out without it")


BENCH = BenchCommand("observe", __doc__, _options, count, is_partial=lambda options: options.answers is None)

if __name__ == "__main__":
    sys.exit(BENCH.main())
