"""How often progress alone is written, and whose."""

from __future__ import annotations

import pytest
from fake_timers import FakeTimers

from fairlead.core.observed import ProgressWrites
from fairlead.handlers.progress_budget import SCARCE_SECONDS, ProgressBudget


@pytest.mark.parametrize(("idle_seconds", "busy_seconds", "written"), [(0, 10, 56), (100, 10, 56), (0, 0, 6)])
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
        while budget.allowed() is not ProgressWrites.NONE:
            budget.spend()
            count += 1
    assert count == pytest.approx(written, abs=1)


def test_where_there_were_too_few_writes_they_are_for_a_while_for_those_that_have_waited_for_long() -> None:
    timers = FakeTimers()
    budget = ProgressBudget(timers.time, most_a_second=1.0)
    assert budget.allowed() is ProgressWrites.ALL
    while budget.allowed() is not ProgressWrites.NONE:
        budget.spend()
    timers.advance(SCARCE_SECONDS - 1.0)
    assert budget.allowed() is ProgressWrites.OVERDUE
    timers.advance(1.0)
    assert budget.allowed() is ProgressWrites.ALL
