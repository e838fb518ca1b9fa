"""Writes what is generated from the code (`outputs`); with `--check`, prints what is out of date instead and exits 1."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from fairlead.api.names import GROUP
from fairlead_dev.boards.files import render as render_boards
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.generate import commands, crd, metrics, plugin, reference, values
from fairlead_dev.pictures.files import render as render_pictures


def outputs() -> Mapping[Path, str]:
    """The content of every generated file, by its path from the repository's root."""
    files: dict[Path, str] = {}
    for resource in crd.RESOURCES:
        definition = crd.render(resource)
        files[Path("crds") / f"{GROUP}_{resource.plural}.yaml"] = definition
        files[Path("charts/fairlead/files/crds") / f"{resource.plural}.yaml"] = definition
        files[Path("docs/reference") / f"{resource.singular}.md"] = reference.render(resource)
    files[Path("docs/reference/kubectl-fairlead.md")] = plugin.render()
    files[Path("charts/fairlead/files/defaults.yaml")] = values.render_defaults()
    files[Path("docs/reference/chart-values.md")] = values.render_page()
    for program in commands.PROGRAMS:
        files[Path("docs/reference") / f"{program.name}.md"] = commands.render(program)
    files[Path("docs/reference/metrics.md")] = metrics.render()
    return files | render_boards() | render_pictures()


def stale(files: Mapping[Path, str], root: Path) -> list[Path]:
    """The files beneath `root` whose content is not what it should be."""
    return [path for path, content in files.items() if not (root / path).is_file() or (root / path).read_text() != content]


def main(arguments: list[str] | None = None) -> int:
    """Generates or checks; the exit code is 1 only if a check found something stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    options = parser.parse_args(arguments)
    files = outputs()
    changed = stale(files, CHECKOUT)
    if options.check:
        for path in changed:
            print(f"{path} is out of date: run `make generate` and commit the result", file=sys.stderr)
        return 1 if changed else 0
    for path in changed:
        target = CHECKOUT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(files[path])
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
