"""Where models are installed. Apart from `store`, so that asking costs no runtime."""

import re
from pathlib import Path

from fairlead_advisor.errors import NoModelError

# Beside this module: one folder a version, with `model.onnx`, `model.onnx.sha256`, `card.md`; written by `fairlead-advisor export`.
INSTALLED = Path(__file__).parent / "installed"
MODEL_FILE = "model.onnx"

_VERSIONED = re.compile(r"background-(\d+)\.(\d+)\.(\d+)")


def newest_installed(folder: Path = INSTALLED) -> Path:
    """The model file of the highest version in `folder`; NoModelError if there is none."""
    entries = list(folder.iterdir()) if folder.is_dir() else []
    versions = [(tuple(map(int, match.groups())), entry) for entry in entries if (match := _VERSIONED.fullmatch(entry.name))]
    if not versions:
        raise NoModelError("no classifier model is installed: name one with --model, or make one with `fairlead-advisor train`")
    return max(versions)[1] / MODEL_FILE
