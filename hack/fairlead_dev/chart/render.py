"""What the chart makes of a set of values."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from fairlead_dev.checkout import BINARIES, CHECKOUT
from fairlead_dev.cluster.layout import KUBERNETES_VERSION
from fairlead_dev.errors import DevError

CHART = CHECKOUT / "charts" / "fairlead"
VALUE_SETS: Mapping[str, Path] = {path.name.removesuffix("-values.yaml"): path for path in sorted((CHART / "ci").glob("*-values.yaml"))}
"""Values that the chart is checked with, by name. A new file there is taken up by every check."""


class HelmError(DevError):
    """Helm refused; the message is Helm's."""


def helm(*arguments: str, values: Mapping[str, Any] | None = None) -> str:
    """What a Helm command prints. `values` go to it as a file. Raises HelmError."""
    given = ("--values", "-") if values is not None else ()
    done = subprocess.run(
        (str(BINARIES / "helm"), *arguments, *given), input=json.dumps(values), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise HelmError(f"helm {' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def manifests(values: Mapping[str, Any] | Path, chart: Path = CHART, *, namespace: str = "fairlead-system") -> str:
    """Everything that the chart renders with these values, or with the values of a file."""
    version = ("--kube-version", KUBERNETES_VERSION)
    command = ("template", "fairlead", str(chart), "--namespace", namespace, *version)
    return helm(*command, "--values", str(values)) if isinstance(values, Path) else helm(*command, values=values)


def objects(values: Mapping[str, Any] | Path, chart: Path = CHART) -> list[dict[str, Any]]:
    """The same as objects, hooks among them."""
    return [document for document in yaml.load_all(manifests(values, chart), Loader=yaml.CSafeLoader) if document]
