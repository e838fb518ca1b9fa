"""`python3 -m fairlead_dev.trees SHAPE DIRECTORY`: writes a tree on whichever machine or in whichever pod this runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fairlead_dev.trees.plan import SHAPES, planned
from fairlead_dev.trees.write import write_tree


def main(arguments: list[str]) -> int:
    """Writes the tree; 1 with a sentence on standard error where that fails."""
    parser = argparse.ArgumentParser(prog="trees")
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("directory", type=Path, help="absent or empty")
    parser.add_argument("--bytes", type=int, default=0, dest="bytes_total", help="of all files; beside the oddities for an odd tree")
    parser.add_argument("--files", type=int, default=1, help="how many; an odd tree has its own number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--owner", type=int, help="user and group ID of everything written")
    options = parser.parse_args(arguments)
    try:
        write_tree(planned(options.shape, options.bytes_total, options.files, options.seed), options.directory, options.owner)
    except (OSError, ValueError) as error:
        print(f"cannot write the tree: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
