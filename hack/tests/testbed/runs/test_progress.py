import io

import pytest

from fairlead_dev.testbed.dataset.plan import plan_runs
from fairlead_dev.testbed.runs.batch import BatchState
from fairlead_dev.testbed.runs.packing import Budget, carried_bps
from fairlead_dev.testbed.runs.progress import BatchProgress, duration, line

from ..build import specification

PLAN = plan_runs(specification())


@pytest.mark.parametrize(("seconds", "text"), [(12.4, "12 s"), (59.4, "59 s"), (90, "2 min"), (3570, "1 h 00 min"), (3900, "1 h 05 min")])
def test_durations_are_as_a_person_says_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_line_says_what_is_done_under_way_and_left() -> None:
    state = BatchState(list(PLAN[3:]), {PLAN[0].name: PLAN[0]}, done=50, repeated=2, given_up={"x": "why"})
    mbps = carried_bps(PLAN[0].scenario) / 1e6
    assert line(state, 102, 600) == (
        f"[############............] 51/102 runs, 1 under way ({mbps:.0f} Mb/s), 2 repeated, 1 given up, about 10 min left"
    )


def test_a_file_gets_a_line_now_and_then_and_the_last_one() -> None:
    output, now_s = io.StringIO(), 0.0
    progress = BatchProgress(len(PLAN), Budget(1.5, 8), output, lambda: now_s)
    state = BatchState(list(PLAN[2:]), {PLAN[0].name: PLAN[0], PLAN[1].name: PLAN[1]})
    for _ in range(35):
        progress(state)
        now_s += 1
    assert output.getvalue().count("\n") == 2
    state.running.clear()
    progress(state)
    assert output.getvalue().count("\n") == 3
