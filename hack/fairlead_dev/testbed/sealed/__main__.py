"""Draws each list of sealed sets once and checks it afterwards: python -m fairlead_dev.testbed.sealed."""

from __future__ import annotations

import sys

from fairlead_dev.errors import CommandUsageError, DevError
from fairlead_dev.testbed.sealed.openings import LOG, read_openings
from fairlead_dev.testbed.sealed.sets import (
    CLASSIFIER_2,
    ENGINES_LIST,
    LIST,
    SECOND_LIST,
    draw_engines,
    draw_sealed,
    draw_second,
    engine_specification,
    load_lists,
    specification,
    write_json,
    write_sealed,
)


def main() -> int:
    """Seals what is not sealed yet; else says what is sealed and opened. 2 if a list is not what its seed gives."""
    try:
        drawn = {
            LIST: draw_sealed(specification()),
            ENGINES_LIST: draw_engines(engine_specification()),
            SECOND_LIST: draw_second(specification(CLASSIFIER_2)),
        }
        for file, sealed in drawn.items():
            if not file.exists():
                write_sealed(sealed, file)
                if file == LIST:
                    write_json(LOG, [])
        lists, openings = load_lists(), read_openings()
        for file, sealed in zip(drawn, lists, strict=True):
            if sealed.sha256 != drawn[file].sha256:
                raise CommandUsageError(f"{file} is not what seed {sealed.seed} gives: a sealed set is never drawn again")
    except DevError as error:
        print(f"sealed: {error}", file=sys.stderr)
        return error.exit_code
    for sealed in lists:
        print(f"seed {sealed.seed}, sha256 {sealed.sha256}")
        for one in sealed.sets:
            dates = [opening.date for opening in openings if opening.set == one.name]
            print(f"{one.name:12} {len(one.paths):3} paths, for {one.purpose}; {'opened ' + ', '.join(dates) if dates else 'never opened'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
