import pytest

from fairlead_dev.bench.decisions.lab.run import silences

from ..made import samples


@pytest.mark.parametrize(("times_s", "fault"), [((1, 2, 3), False), ((1, 2, 6), False), ((1, 2, 6.5), True), ((), False)])
def test_a_mover_that_could_not_answer_for_long_marks_a_disturbed_run(times_s: tuple[float, ...], fault: bool) -> None:
    assert bool(silences(samples(*((time_s, 0, None) for time_s in times_s)))) is fault
