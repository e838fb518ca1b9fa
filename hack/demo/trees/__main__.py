"""`python3 -m trees survey DIRECTORY`: writes the demonstration's tree, on whichever machine or in whichever pod this runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trees.plan import survey_tree
from trees.write import write_tree


def main(arguments: list[str]) -> int:
    """Writes the tree; 1 with a sentence on standard error where that fails."""
    parser = argparse.ArgumentParser(prog="trees")
    parser.add_argument("shape", choices=["survey"])
    parser.add_argument("directory", type=Path, help="absent or empty")
    parser.add_argument("--bytes", type=int, required=True, dest="bytes_total")
    parser.add_argument("--files", type=int, required=True)
    parser.add_argument("--owner", type=int, help="user and group ID of everything written")
    options = parser.parse_args(arguments)
    try:
        write_tree(survey_tree(options.bytes_total, options.files), options.directory, options.owner)
    except (OSError, ValueError) as error:
        print(f"cannot write the tree: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
