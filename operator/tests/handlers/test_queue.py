from __future__ import annotations

import asyncio

import pytest
from fake_timers import FakeTimers

from fairlead.handlers.queue import MOST_COMING_UP, Backoff, QueueClosedError, Rank, WorkQueue

pytestmark = pytest.mark.asyncio


@pytest.fixture
def timers() -> FakeTimers:
    return FakeTimers()


@pytest.fixture
def queue(timers: FakeTimers) -> WorkQueue[str]:
    return WorkQueue(timers, Backoff(first_seconds=1.0, most_seconds=8.0))


async def _take(queue: WorkQueue[str]) -> str:
    return await asyncio.wait_for(queue.get(), timeout=60)


async def _is_empty(queue: WorkQueue[str]) -> bool:
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    empty = not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    return empty


async def test_keys_come_out_in_order_of_arrival(queue: WorkQueue[str]) -> None:
    for key in "cab":
        queue.add(key)
    assert [await _take(queue) for _ in range(3)] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("added", "order"),
    [
        ("a1 a2 a3", "a1 a2 a3"),
        ("a1 a2 a3 b1", "a1 b1 a2 a3"),
        ("a1 a2 b1 b2 c1", "a1 b1 c1 a2 b2"),
        ("b1 a1 a2 a1 b2", "b1 a1 b2 a2"),
    ],
)
async def test_tenants_take_turns(timers: FakeTimers, added: str, order: str) -> None:
    queue: WorkQueue[str] = WorkQueue(timers, tenant_of=lambda key: key[0], most_beside_others=9)
    for key in added.split():
        queue.add(key)
    assert queue.depth == len(set(added.split()))
    assert [await _take(queue) for _ in order.split()] == order.split()
    assert queue.depth == 0


@pytest.mark.parametrize(
    ("first", "order"),
    [("a3", "a3 b1 a1 a2"), ("a1", "a1 b1 a2 a3"), ("a4", "a4 b1 a1 a2 a3"), ("b1", "a1 b1 a2 a3"), ("c1", "a1 b1 c1 a2 a3")],
)
async def test_what_goes_first_comes_before_all_else_of_its_tenant_and_others_keep_their_turns(
    timers: FakeTimers, first: str, order: str
) -> None:
    queue: WorkQueue[str] = WorkQueue(timers, tenant_of=lambda key: key[0], most_beside_others=9)
    for key in ("a1", "a2", "a3", "b1"):
        queue.add(key)
    timers.advance(3.0)
    queue.add_first(first)
    assert queue.oldest_wait_seconds() == 3.0
    assert [await _take(queue) for _ in order.split()] == order.split()
    assert queue.depth == 0


async def test_what_goes_first_keeps_its_own_order_and_leaves_every_eighth_turn_to_the_rest(queue: WorkQueue[str]) -> None:
    for key in ("a", "b", "c"):
        queue.add(key)
    ahead = [str(number) for number in range(15)]
    for key in ahead:
        queue.add_first(key)
    queue.add_first("5")
    assert [await _take(queue) for _ in range(18)] == [*ahead[:7], "a", *ahead[7:14], "b", ahead[14], "c"]


def rank_of(key: str) -> Rank:
    return {"n": Rank.NEW, "c": Rank.COMING_UP}.get(key[0], Rank.USUAL)


async def test_keys_come_by_their_rank_and_the_others_share_every_eighth_turn(timers: FakeTimers) -> None:
    queue: WorkQueue[str] = WorkQueue(timers, rank_of=rank_of)
    for number in range(2):
        for letter in "ucn":
            queue.add(f"{letter}{number}")
    queue.add_first("u9")
    assert [await _take(queue) for _ in range(7)] == ["u9", "n0", "n1", "c0", "c1", "u0", "u1"]
    for number in range(10, 40):
        for letter in "ucn":
            queue.add(f"{letter}{number}")
    taken = [await _take(queue) for _ in range(24)]
    assert [key for key in taken if key[0] != "n"] == ["u10", "c10", "u11"]


async def test_while_many_come_up_no_more_are_begun_but_by_other_tenants(timers: FakeTimers) -> None:
    queue: WorkQueue[str] = WorkQueue(timers, rank_of=rank_of, tenant_of=lambda key: key[-1], most_beside_others=9)
    for number in range(MOST_COMING_UP + 1):
        for letter in "cn":
            queue.add(f"{letter}{number}a")
    queue.add("n0b")
    assert [await _take(queue) for _ in range(3)] == ["c0a", "n0b", "n0a"]
    for number in (1000, 1001):
        queue.add(f"c{number}a")
    assert [await _take(queue) for _ in range(3)] == ["c1a", "c2a", "n1a"]


async def test_a_waiting_key_of_better_rank_goes_before_those_of_the_worse_one(timers: FakeTimers) -> None:
    ranks = {"a": Rank.USUAL, "b": Rank.USUAL}
    queue: WorkQueue[str] = WorkQueue(timers, rank_of=ranks.__getitem__)
    queue.add("a")
    timers.advance(2.0)
    queue.add("b")
    ranks["b"] = Rank.COMING_UP
    queue.add("b")
    ranks["b"] = Rank.USUAL
    queue.add("b")
    assert queue.depth == 2
    assert queue.oldest_wait_seconds() == 2.0
    assert [await _take(queue), await _take(queue)] == ["b", "a"]


async def test_the_oldest_wait_of_new_keys_counts_from_when_one_was_begun(timers: FakeTimers) -> None:
    queue: WorkQueue[str] = WorkQueue(timers, rank_of=rank_of)
    for key in ("n0", "n1", "n2"):
        queue.add(key)
    timers.advance(100.0)
    assert queue.oldest_wait_seconds() == 100.0
    await _take(queue)
    timers.advance(5.0)
    assert queue.oldest_wait_seconds() == 5.0
    queue.add("c")
    timers.advance(7.0)
    await _take(queue)
    assert queue.oldest_wait_seconds() == 7.0


async def test_what_was_urgent_while_it_is_worked_on_stays_so_and_all_else_has_the_rank_of_then(timers: FakeTimers) -> None:
    ranks = {"a": Rank.NEW, "b": Rank.NEW, "c": Rank.COMING_UP}
    queue: WorkQueue[str] = WorkQueue(timers, rank_of=ranks.__getitem__)
    for key in "ab":
        queue.add(key)
        await queue.get()
        queue.add(key)
        ranks[key] = Rank.USUAL
    queue.add("c")
    queue.add_first("b")
    for key in "ab":
        queue.done(key)
    assert [await _take(queue) for _ in range(3)] == ["b", "c", "a"]


async def test_what_goes_first_while_it_is_worked_on_comes_again(timers: FakeTimers) -> None:
    queue: WorkQueue[str] = WorkQueue(timers)
    queue.add("a")
    key = await queue.get()
    queue.add_first(key)
    assert queue.depth == 0
    queue.done(key)
    assert await _take(queue) == "a"


async def test_a_tenant_that_comes_late_waits_for_one_key_of_another_that_has_thousands(timers: FakeTimers) -> None:
    queue: WorkQueue[str] = WorkQueue(timers, tenant_of=lambda key: key[0], most_beside_others=9)
    for number in range(2000):
        queue.add(f"a{number}")
    await _take(queue)
    timers.advance(7.0)
    queue.add("b")
    assert queue.oldest_wait_seconds() == 7.0
    assert "b" in [await _take(queue), await _take(queue)]


async def test_beside_another_tenant_a_tenant_has_few_keys_at_work_and_alone_any_number(timers: FakeTimers) -> None:
    queue: WorkQueue[str] = WorkQueue(timers, tenant_of=lambda key: key[0], most_beside_others=2)
    for number in range(9):
        queue.add(f"a{number}")
    alone = [await _take(queue) for _ in range(4)]
    assert [key[0] for key in alone] == ["a"] * 4
    queue.add("b")
    assert await _take(queue) == "b"
    assert await _is_empty(queue)
    for key in alone[:3]:
        queue.done(key)
    assert await _take(queue) == "a4"
    assert await _is_empty(queue)
    queue.done("b")
    assert [await _take(queue) for _ in range(4)] == ["a5", "a6", "a7", "a8"]


async def test_every_waiting_worker_is_woken_once_a_tenant_is_alone_again(timers: FakeTimers) -> None:
    queue: WorkQueue[str] = WorkQueue(timers, tenant_of=lambda key: key[0])
    for key in ("b", "a1", "a2", "a3", "a4"):
        queue.add(key)
    assert [await _take(queue), await _take(queue)] == ["b", "a1"]
    waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    queue.done("b")
    assert set(await asyncio.wait_for(asyncio.gather(*waiting), timeout=60)) == {"a2", "a3", "a4"}


async def test_a_tenant_that_adds_its_keys_again_and_again_gets_no_second_turn(timers: FakeTimers) -> None:
    queue: WorkQueue[str] = WorkQueue(timers, tenant_of=lambda key: key[0])
    for key in ("a1", "a2", "b1", "b2"):
        queue.add(key)
    taken = []
    for _ in range(8):
        taken.append(await _take(queue))
        queue.done(taken[-1])
        queue.add(taken[-1])
    assert [key[0] for key in taken] == ["a", "b"] * 4


async def test_a_key_added_many_times_comes_out_once(queue: WorkQueue[str]) -> None:
    for _ in range(5):
        queue.add("a")
    assert queue.depth == 1
    assert await _take(queue) == "a"
    assert await _is_empty(queue)


async def test_a_key_at_work_is_not_handed_out_again_until_it_is_done(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await _take(queue)
    queue.add("a")
    queue.add("a")
    assert await _is_empty(queue)
    queue.done("a")
    assert await _take(queue) == "a"
    queue.done("a")
    assert await _is_empty(queue)


async def test_a_key_at_work_does_not_hold_up_others(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await _take(queue)
    queue.add("b")
    assert await _take(queue) == "b"


async def test_a_waiting_worker_is_woken(queue: WorkQueue[str]) -> None:
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    assert await asyncio.wait_for(waiting, timeout=60) == "a"


async def test_a_delayed_key_comes_out_at_its_time(queue: WorkQueue[str], timers: FakeTimers) -> None:
    queue.add_after("a", 5.0)
    assert queue.scheduled == 1
    timers.advance(4.9)
    assert queue.depth == 0
    timers.advance(0.2)
    assert queue.depth == 1
    assert queue.scheduled == 0


@pytest.mark.parametrize(("first", "second"), [(5.0, 3.0), (3.0, 5.0)])
async def test_of_two_delays_the_earlier_counts(queue: WorkQueue[str], timers: FakeTimers, first: float, second: float) -> None:
    queue.add_after("a", first)
    queue.add_after("a", second)
    timers.advance(3.0)
    assert await _take(queue) == "a"
    queue.done("a")
    timers.advance(10.0)
    assert queue.depth == 0


async def test_no_delay_means_now(queue: WorkQueue[str]) -> None:
    queue.add_after("a", 0.0)
    assert queue.depth == 1


async def test_work_that_starts_earlier_settles_the_delayed_wish(queue: WorkQueue[str], timers: FakeTimers) -> None:
    queue.add_after("a", 5.0)
    queue.add("a")
    await _take(queue)
    queue.done("a")
    timers.advance(10.0)
    assert queue.depth == 0


async def test_a_delay_that_ends_while_the_key_is_at_work_is_not_lost(queue: WorkQueue[str], timers: FakeTimers) -> None:
    queue.add("a")
    await _take(queue)
    queue.add_after("a", 1.0)
    timers.advance(2.0)
    assert queue.depth == 0
    queue.done("a")
    assert queue.depth == 1


async def test_backoff_doubles_to_its_cap_and_forgets(queue: WorkQueue[str]) -> None:
    assert [queue.retry("a") for _ in range(5)] == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert queue.retry("b") == 1.0
    queue.forget("a")
    assert queue.retry("a") == 1.0


async def test_backoff_stays_at_its_cap_after_thousands_of_failures() -> None:
    assert Backoff(0.5, 120.0).delay_seconds(100_000) == 120.0


async def test_an_event_does_not_wait_for_the_backoff(queue: WorkQueue[str]) -> None:
    queue.retry("a")
    queue.add("a")
    assert await _take(queue) == "a"


async def test_a_worker_that_is_cancelled_while_it_waits_loses_no_key(queue: WorkQueue[str]) -> None:
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, timeout=60) == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_closing_lets_all_waiting_workers_end_and_takes_no_more_keys(queue: WorkQueue[str], timers: FakeTimers) -> None:
    waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
    queue.add_after("a", 1.0)
    await asyncio.sleep(0)
    queue.close()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [QueueClosedError] * 3
    queue.add("b")
    timers.advance(5.0)
    assert queue.depth == 0
    with pytest.raises(QueueClosedError):
        await queue.get()


async def test_work_under_way_may_end_after_closing(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await _take(queue)
    queue.add("a")
    queue.close()
    queue.done("a")
    assert queue.depth == 0


async def test_shows_how_long_keys_wait_and_workers_work(queue: WorkQueue[str], timers: FakeTimers) -> None:
    assert queue.oldest_wait_seconds() == 0.0
    queue.add("a")
    timers.advance(2.0)
    queue.add("b")
    timers.advance(3.0)
    assert queue.oldest_wait_seconds() == 5.0
    await _take(queue)
    timers.advance(4.0)
    assert queue.longest_work_seconds() == 4.0
    assert queue.oldest_wait_seconds() == 7.0
    assert queue.working == 1
