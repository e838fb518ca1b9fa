from pathlib import Path

import pytest

from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.lab.emulator import quantum_us
from fairlead_dev.testbed.scenario.model import Path as NetworkPath
from fairlead_dev.wan.emulator import PROGRAM_VARIABLE, find_program


@pytest.mark.parametrize(
    ("rtt_ms", "buffer_bdp", "expected_us"),
    [
        pytest.param(5, 1, 100, id="short path"),
        pytest.param(30, 1, 300, id="a hundredth of the RTT"),
        pytest.param(30, 0.5, 150, id="a hundredth of the queue"),
        pytest.param(200, 5, 500, id="long path"),
    ],
)
def test_packets_are_late_by_a_hundredth_of_what_is_to_be_seen(rtt_ms: float, buffer_bdp: float, expected_us: int) -> None:
    assert quantum_us(NetworkPath(rate_bps=50_000_000, rtt_ms=rtt_ms, buffer_bdp=buffer_bdp)) == expected_us


def test_a_named_emulator_that_is_missing_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(PROGRAM_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(CommandUsageError, match=r"none: no such program: build it with `make rust`"):
        find_program()
