"""What a bench needs of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_dev.bench.lab import machine
from fairlead_dev.errors import NotAvailableError


def test_what_is_missing_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, pattern = tmp_path / "library.cpython-311.so", str(tmp_path / "library.*.so")
    monkeypatch.setattr(machine, "PACKAGES", {"sh": "dash", "no-such-program": "a-package", pattern: "a-library"})
    assert machine.missing(["sh", "no-such-program", pattern]) == ["no-such-program", pattern]
    with pytest.raises(NotAvailableError, match="apt-get install a-library a-package"):
        machine.need("sh", "no-such-program", pattern)
    here.touch()
    assert machine.missing(["sh", pattern]) == []
