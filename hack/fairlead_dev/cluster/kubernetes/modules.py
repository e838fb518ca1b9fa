"""Files that a pinned Go module brings beside its programs, such as charts and definitions."""

from __future__ import annotations

import json
from pathlib import Path

from fairlead_dev.cluster.artifacts.programs import GO_MODULES
from fairlead_dev.cluster.machine import shell


def module_folder(name: str, pinned_in: str) -> Path:
    """The files of a module in the version that go/`pinned_in` pins; fetched where the module cache lacks it."""
    environment = {"GOTOOLCHAIN": "local", "GOWORK": "off"}
    answer = shell.run(["go", "mod", "download", "-json", name], cwd=GO_MODULES / pinned_in, env=environment)
    return Path(json.loads(answer)["Dir"])
