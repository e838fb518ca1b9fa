"""What is known beside the data when the own transport changes."""

import pytest

from fairlead_advisor.decide.loop import loaded
from tests.support.model_mover import seen


@pytest.mark.parametrize(("control", "silent"), [("bbr", True), ("cubic", False)], ids=["other streams", "another congestion control"])
def test_bbr_that_was_seen_can_be_missed_though_the_stream_count_changed(control: str, silent: bool) -> None:
    state = loaded.begin((5.0, 10.0), 0.0, "bbr")
    for second in range(4):
        state = loaded.answered(state, float(second), seen("B1-B1"), failed=False)
    state = loaded.begin_anew(state, 10.0, control)
    for second in range(4):
        state = loaded.answered(state, 20.0 + second, seen("B0-C1"), failed=False)
    assert bool(loaded.contradiction(state, seen("B1-C0"))) is silent
