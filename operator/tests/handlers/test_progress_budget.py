"""How often progress alone is written."""

from __future__ import annotations

import pytest
from fake_timers import FakeTimers

from fairlead.handlers.progress_budget import ProgressBudget


@pytest.mark.parametrize(("idle_seconds", "busy_seconds", "written"), [(0, 10, 51), (100, 10, 51), (0, 0, 6)])
def test_writes_are_as_many_a_second_as_allowed_and_time_without_any_saves_up_for_a_second_alone(
    idle_seconds: int, busy_seconds: int, written: int
) -> None:
    timers = FakeTimers()
    budget = ProgressBudget(timers.time, most_a_second=5.0)
    timers.advance(idle_seconds)
    count = 0
    for step in range(100 * busy_seconds + 1):
        if step:
            timers.advance(0.01)
        while budget.is_left:
            budget.spend()
            count += 1
    assert count == pytest.approx(written + 5 * (busy_seconds > 0), abs=1)
