"""Checks the chart: `helm lint --strict`, and kubeconform on what every set of values under `charts/fairlead/ci` renders."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fairlead_dev.chart import schemas
from fairlead_dev.chart.render import CHART, VALUE_SETS, HelmError, helm, manifests
from fairlead_dev.checkout import BINARIES
from fairlead_dev.cluster.layout import KUBERNETES_VERSION
from fairlead_dev.errors import DevError


class ChartError(DevError):
    """What is wrong with the chart, a paragraph for each set of values."""


def check() -> int:
    """Lints and validates every set of values; returns the number of objects. Raises ChartError with all that was found."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(max_workers=2) as threads:
        location = schemas.write_files(Path(folder))
        outcomes = list(threads.map(lambda name: _check_one(name, location), VALUE_SETS))
    if wrong := [outcome for outcome in outcomes if isinstance(outcome, str)]:
        raise ChartError("\n".join(wrong))
    return sum(outcome for outcome in outcomes if isinstance(outcome, int))


def _check_one(name: str, location: str) -> int | str:
    """How many objects these values make, or what is wrong with them."""
    values = VALUE_SETS[name]
    try:
        helm("lint", "--strict", "--quiet", str(CHART), "--values", str(values))
        rendered = manifests(values)
    except HelmError as error:
        return f"{name}: {error}"
    wrong = validate(rendered, location)
    return f"{name}: {wrong}" if wrong else sum(line.startswith("kind:") for line in rendered.splitlines())


def validate(manifest: str, location: str) -> str:
    """What kubeconform says against a manifest, empty where it is valid. A kind without a schema is an error."""
    version = KUBERNETES_VERSION.removeprefix("v")
    command = (str(BINARIES / "kubeconform"), "-strict", "-kubernetes-version", version, "-schema-location", location, "-")
    done = subprocess.run(command, input=manifest, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip() if done.returncode else ""


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 if nothing is wrong."""
    parser = argparse.ArgumentParser(prog="python -m fairlead_dev.chart", description=__doc__)
    parser.add_argument(
        "command", nargs="?", choices=("check", "schemas"), default="check", help="schemas: write the committed schemas anew"
    )
    options = parser.parse_args(arguments)
    try:
        if options.command == "schemas":
            schemas.refresh()
        else:
            print(f"chart: {check()} objects of {len(VALUE_SETS)} sets of values are valid")
    except DevError as error:
        print(f"chart: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
