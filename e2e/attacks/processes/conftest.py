"""Programs of the attacked checkout on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.attacks.lib.movers import Movers
from e2e.attacks.lib.target import Target


@pytest.fixture
def movers(target: Target, tmp_path: Path) -> Iterator[Movers]:
    """Starts movers, and ends them with the attack."""
    made = Movers(target.mover, tmp_path)
    yield made
    made.close()
