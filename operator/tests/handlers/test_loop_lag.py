"""Whether the event loop had too much else to do."""

from __future__ import annotations

import asyncio
import time

import pytest

from fairlead.handlers.loop_lag import LoopLag


@pytest.mark.parametrize(
    ("late", "expected"),
    [([], False), ([0.1] * 4, False), ([0.1] * 5, True), ([2.0], True), ([-1.0] * 9, False)],
    ids=["at rest", "a little", "a quarter of the time", "one long pass", "early"],
)
def test_the_loop_was_late_if_a_quarter_of_the_time_went_to_other_work(late: list[float], expected: bool) -> None:
    lag = LoopLag(lambda: 100.0)
    for seconds in late:
        lag.note(seconds)
    assert lag.was_late(2.0) is expected


def test_what_is_long_ago_does_not_count() -> None:
    now = 100.0
    lag = LoopLag(lambda: now)
    lag.note(2.0)
    now = 102.1
    assert not lag.was_late(2.0)
    now = 200.0
    lag.note(0.0)
    assert not lag.was_late(200.0), "it is not kept either"


def test_work_that_keeps_the_loop_is_seen() -> None:
    async def run() -> bool:
        lag = LoopLag(asyncio.get_running_loop().time)
        watching = asyncio.create_task(lag.watch())
        await asyncio.sleep(0)
        time.sleep(0.7)  # noqa: ASYNC251 - that is the work
        for _ in range(10):
            await asyncio.sleep(0)
        watching.cancel()
        return lag.was_late(2.0)

    assert asyncio.run(run())
