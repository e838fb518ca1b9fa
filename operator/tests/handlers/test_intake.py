from __future__ import annotations

import asyncio

import pytest
from fake_timers import FakeTimers

from fairlead.handlers.intake import PATIENCE_SECONDS, Intake
from fairlead.handlers.queue import WorkQueue

pytestmark = pytest.mark.asyncio


class Bench:
    def __init__(self, *listed: str) -> None:
        self.timers = FakeTimers()
        self.queue: WorkQueue[str] = WorkQueue(self.timers, tenant_of=lambda key: key[0])
        self.intake = Intake(self.queue, self.timers)
        for key in listed:
            self.queue.add(key)
        self.intake.expect(listed)

    async def taken(self) -> str | None:
        """The next key, None if the queue hands out none."""
        waiting = asyncio.create_task(self.queue.get())
        for _ in range(3):
            await asyncio.sleep(0)
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return None


async def test_no_key_is_handed_out_before_the_watches_have_shown_all_of_the_first_list() -> None:
    bench = Bench("a1", "a2", "a3")
    for key in ("a1", "a2"):
        bench.intake.seen(key, is_listed=True)
        assert await bench.taken() is None
    bench.intake.seen("a3", is_listed=True)
    assert await bench.taken() == "a1"


async def test_a_tenant_that_the_watches_show_first_has_its_turn_among_the_listed_ones() -> None:
    bench = Bench("a1", "a2", "a3")
    for key in ("a1", "a2", "b1", "a3"):
        bench.queue.add(key)
        bench.intake.seen(key, is_listed=True)
    assert [await bench.taken(), await bench.taken()] == ["a1", "b1"]


async def test_without_listed_keys_nothing_is_waited_for() -> None:
    bench = Bench()
    bench.queue.add("a1")
    assert await bench.taken() == "a1"


async def test_an_event_after_the_lists_ends_the_wait_for_what_was_deleted_meanwhile() -> None:
    bench = Bench("a1", "a2")
    bench.intake.seen("a1", is_listed=True)
    bench.intake.seen("b1", is_listed=False)
    assert await bench.taken() == "a1"


async def test_patience_ends_where_a_watch_shows_nothing() -> None:
    bench = Bench("a1", "a2")
    bench.timers.advance(PATIENCE_SECONDS - 0.1)
    assert await bench.taken() is None
    bench.timers.advance(0.2)
    assert await bench.taken() == "a1"


async def test_workers_that_waited_during_the_pause_all_get_keys() -> None:
    bench = Bench("a1", "b1", "c1")
    waiting = [asyncio.create_task(bench.queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    bench.timers.advance(PATIENCE_SECONDS)
    assert sorted(await asyncio.wait_for(asyncio.gather(*waiting), timeout=60)) == ["a1", "b1", "c1"]
