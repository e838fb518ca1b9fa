"""Lines by room, uses of PYTHONPATH, and layer contracts. Pure functions of the tracked files' texts, by path from the root."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePosixPath

Texts = Mapping[PurePosixPath, str]

ROOMS = ("operator", "images/advisor", "images/mover", "hack", "e2e", "docs")
_CODE = (".py", ".rs")
_PATH_VARIABLES = re.compile(r"PYTHONPATH|MYPYPATH|\bsys\.path\b")
OWN = (PurePosixPath("hack/fairlead_dev/bench/house"), PurePosixPath("hack/tests/bench/house"))
"""What is searched for stands in the code and tests of the search."""
_CONTRACT = re.compile(r"^\[importlinter:contract:", re.MULTILINE)


def lines_by_room(texts: Texts) -> dict[str, int]:
    """Lines of each room's code and tests, as `operator_code` and `operator_tests`, and of all pages, as `docs_pages`."""
    lines: Counter[str] = Counter()
    for path, text in texts.items():
        count = text.count("\n")
        room = next((room for room in ROOMS if path.is_relative_to(room)), None)
        if path.suffix == ".md":
            lines["docs_pages"] += count
        elif room is not None and path.suffix in _CODE:
            kind = "tests" if room == "e2e" or any(part.startswith("tests") for part in path.parts) else "code"
            lines[f"{PurePosixPath(room).name}_{kind}"] += count
    return dict(sorted(lines.items()))


def pythonpath_uses(texts: Texts) -> list[str]:
    """Each line of code, script or Makefile that sets or reads a path of modules, as `path:line`."""
    return [
        f"{path}:{number}"
        for path, text in texts.items()
        if path.suffix != ".md" and not any(path.is_relative_to(own) for own in OWN)
        for number, line in enumerate(text.splitlines(), 1)
        if _PATH_VARIABLES.search(line)
    ]


def layer_contracts(configuration: str) -> int:
    """The number of contracts in an import linter's configuration."""
    return len(_CONTRACT.findall(configuration))
