"""What the tests of benches that open sealed sets share."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fairlead_dev.bench import sealed
from fairlead_dev.testbed.sealed import openings


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of openings of its own, and a checkout without changes."""
    file = tmp_path / "openings.json"
    file.write_text("[]")
    monkeypatch.setattr(sealed, "open_sealed", partial(openings.open_sealed, log=file))
    monkeypatch.setattr(sealed, "uncommitted", lambda _kept: ())
    return file
