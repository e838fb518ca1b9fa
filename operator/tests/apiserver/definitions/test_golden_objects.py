"""The golden files are what the API server accepts word for word, so that a golden file cannot be wrong and stable."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from control_plane import CHECKOUT
from lab import Lab

GOLDEN = sorted((CHECKOUT / "operator" / "tests" / "kube" / "objects" / "golden").glob("*.yaml"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_is_accepted_under_strict_validation(lab: Lab, path: Path) -> None:
    manifest = yaml.safe_load(path.read_text())
    manifest["metadata"]["namespace"] = lab.namespace
    created = lab.kubectl("create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-", stdin=yaml.safe_dump(manifest))
    assert created.stdout.strip().endswith(manifest["metadata"]["name"])


def test_there_are_golden_files() -> None:
    assert len(GOLDEN) >= 6
