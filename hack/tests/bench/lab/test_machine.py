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


def test_what_a_machine_did_between_two_readings_is_a_share_of_its_time() -> None:
    assert machine.busy_share((1000, 400), (3000, 900)) == 0.75
    assert machine.busy_share((1000, 400), (1000, 400)) == 0.0
    before = machine.processor_ticks()
    assert 0 < before[1] < before[0] <= machine.processor_ticks()[0]
