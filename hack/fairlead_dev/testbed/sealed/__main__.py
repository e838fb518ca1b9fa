"""Draws the sealed sets once and checks them afterwards: python -m fairlead_dev.testbed.sealed."""

from __future__ import annotations

import sys

from fairlead_dev.errors import DevError
from fairlead_dev.testbed.sealed.openings import LOG, read_openings
from fairlead_dev.testbed.sealed.sets import LIST, draw_sealed, load_sealed, specification, write_json, write_sealed


def main() -> int:
    """Seals where nothing is sealed yet; else says what is sealed and opened. 2 if the list is not what its seed gives."""
    try:
        drawn = draw_sealed(specification())
        if not LIST.exists():
            write_sealed(drawn)
            write_json(LOG, [])
        sealed, openings = load_sealed(), read_openings()
    except DevError as error:
        print(f"sealed: {error}", file=sys.stderr)
        return error.exit_code
    if sealed.sha256 != drawn.sha256:
        print(f"sealed: {LIST} is not what seed {drawn.seed} gives: a sealed set is never drawn again", file=sys.stderr)
        return 2
    print(f"seed {sealed.seed}, sha256 {sealed.sha256}")
    for one in sealed.sets:
        dates = [opening.date for opening in openings if opening.set == one.name]
        print(f"{one.name:12} {len(one.paths):3} paths, for {one.purpose}; {'opened ' + ', '.join(dates) if dates else 'never opened'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
