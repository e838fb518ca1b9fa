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
from fairlead_dev.checkout import BENCH_RESULTS, CHECKOUT

BEFORE = Path(__file__).with_name("before.json")


def main() -> int:
    """Print the table and write the rows."""
    parser = argparse.ArgumentParser(prog="python -m fairlead_dev.bench.house", description=__doc__)
    parser.add_argument("--output", type=Path, default=BENCH_RESULTS / "house.json")
    options = parser.parse_args()
    before = json.loads(BEFORE.read_text())
    rows = house_rows(read_tree(CHECKOUT), before["counts"])
    print(f"{house_table(rows)}\nbefore: commit {before['commit']}")
    write(rows, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
