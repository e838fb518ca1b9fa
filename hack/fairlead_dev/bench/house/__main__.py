"""Counts what the repository's structure must keep, and its lines by room; writes build/bench/house.json.

`reference` is the count at the commit that `before.json` names, taken with the same functions.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from fairlead_dev.bench.house.repository import read_tree
from fairlead_dev.bench.house.rows import house_rows, house_table
from fairlead_dev.bench.rows import write
from fairlead_dev.bench.runner import BenchCommand
from fairlead_dev.checkout import CHECKOUT

BEFORE = Path(__file__).with_name("before.json")


def run(options: argparse.Namespace) -> int:
    """Counts, prints and writes."""
    before = json.loads(BEFORE.read_text())
    rows = house_rows(read_tree(CHECKOUT), before["counts"])
    print(f"{house_table(rows)}\nbefore: commit {before['commit']}")
    write(rows, options.output)
    return 0


BENCH = BenchCommand("house", __doc__, lambda _parser: None, run)

if __name__ == "__main__":
    sys.exit(BENCH.main())
