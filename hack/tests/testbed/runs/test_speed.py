import pytest

from fairlead_dev.testbed.runs.speed import REFERENCE_SQUARES_S, scaled_cores


@pytest.mark.parametrize(
    ("taken_s", "cores"),
    [
        pytest.param(2 * REFERENCE_SQUARES_S, 0.75, id="half as fast"),
        pytest.param(REFERENCE_SQUARES_S, 1.5, id="the same"),
        pytest.param(REFERENCE_SQUARES_S / 2, 1.5, id="faster: runs wake up as often there"),
    ],
)
def test_a_slow_machine_has_fewer_runs_at_a_time(taken_s: float, cores: float) -> None:
    assert scaled_cores(1.5, taken_s) == cores
