"""A slowed device does not stay slow."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_dev.cluster.cleanup import Cleanup
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.cluster.machine.write_limits import WriteLimits, device_of


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """The kernel's file, which shows here what was written last."""
    file = tmp_path / "write_bps_device"
    file.touch()
    return file


def test_a_limit_is_on_record_before_it_is_set(tmp_path: Path) -> None:
    limits = WriteLimits(tmp_path / "record", tmp_path / "no-such-folder" / "file")
    with pytest.raises(FileNotFoundError):
        limits.set("7:3", 1000)
    assert limits.lift_all() == ["7:3"]


def test_the_limit_of_a_killed_run_is_lifted_by_the_next_one(tmp_path: Path, kernel: Path) -> None:
    WriteLimits(tmp_path / "record", kernel).set("7:3", 1000)
    assert kernel.read_text() == "7:3 1000"
    assert WriteLimits(tmp_path / "record", kernel).lift_all() == ["7:3"]
    assert kernel.read_text() == "7:3 0"
    assert WriteLimits(tmp_path / "record", kernel).lift_all() == []


def test_a_device_without_a_limit_on_record_is_left_alone(tmp_path: Path, kernel: Path) -> None:
    limits = WriteLimits(tmp_path / "record", kernel)
    limits.lift("7:3")
    assert kernel.read_text() == ""
    limits.set("7:4", 1000)
    limits.lift("7:3")
    assert kernel.read_text() == "7:4 1000"


def test_a_device_is_written_as_the_kernel_writes_it() -> None:
    assert device_of(Path("/proc")).split(":")[0] == "0"


def test_removing_a_cluster_lifts_its_limits(tmp_path: Path, kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = Layout(tmp_path / "checkout", tmp_path / "cache", tmp_path / "state", tmp_path / "target")
    WriteLimits(paths.write_limits, kernel).set("7:3", 1000)

    class Here(WriteLimits):
        def __init__(self, record: Path) -> None:
            super().__init__(record, kernel)

    class StopHereError(Exception):
        """What else is removed is the machine's."""

    def stop(_: Cleanup) -> int:
        raise StopHereError

    monkeypatch.setattr("fairlead_dev.cluster.cleanup.WriteLimits", Here)
    monkeypatch.setattr(Cleanup, "_check_state", lambda _: None)
    monkeypatch.setattr(Cleanup, "_count_box_processes", stop)
    with pytest.raises(StopHereError):
        Cleanup(paths).remove_all()
    assert kernel.read_text() == "7:3 0"
