"""Whose poll comes next, and who rests."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from fairlead.kube.observe.turns import MOST_HEARD_IN_A_ROW, MOST_SILENT_ON_NODE, NotNowError, PollTarget, PollTurns

pytestmark = pytest.mark.asyncio


class Bench:
    """Polls that last until the test ends them."""

    def __init__(self, most: int = 4, most_on_node: int = 4, longest_wait_seconds: float = 60.0) -> None:
        self.now = 100.0
        self.turns = PollTurns(lambda: self.now, most=most, most_on_node=most_on_node, longest_wait_seconds=longest_wait_seconds)
        self.asked: list[str] = []
        self.refused: list[tuple[str, bool]] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str, tenant: str = "lab", node: str = "dtn-a") -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._poll(target(name, tenant, node)))
        await settle()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks[name]
        await settle()

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        await settle()

    async def _poll(self, target: PollTarget) -> None:
        try:
            async with self.turns.turn(target):
                self.asked.append(target.pod_uid)
                await self._ends[target.pod_uid].wait()
        except NotNowError as error:
            self.refused.append((target.pod_uid, error.is_silent))


def target(name: str, tenant: str = "lab", node: str = "dtn-a", *, is_ready: bool = True) -> PollTarget:
    return PollTarget(name, 24001, is_ready, node=node, tenant=tenant)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_no_more_are_asked_at_a_time_than_may_be() -> None:
    bench = Bench(most=2)
    for name in ("a", "b", "c"):
        await bench.ask(name)
    assert (bench.asked, bench.turns.under_way, bench.turns.waiting) == (["a", "b"], 2, 1)
    await bench.end("a")
    assert bench.asked == ["a", "b", "c"]
    for name in ("b", "c"):
        await bench.end(name)
    assert (bench.turns.under_way, bench.turns.waiting) == (0, 0)


async def test_a_node_takes_a_part_of_the_turns_and_leaves_the_rest_to_others() -> None:
    bench = Bench(most=4, most_on_node=2)
    for name in ("a", "b", "c"):
        await bench.ask(name)
    await bench.ask("elsewhere", node="dtn-b")
    assert bench.asked == ["a", "b", "elsewhere"]
    await bench.end("b")
    assert bench.asked[-1] == "c"


async def test_tenants_take_turns_however_many_polls_one_of_them_wants() -> None:
    bench = Bench(most=1)
    await bench.ask("first")
    for number in range(50):
        await bench.ask(f"crowd-{number}", tenant="crowd")
    await bench.ask("one", tenant="quiet")
    await bench.ask("two", tenant="quiet")
    for name in ("first", "crowd-0", "one", "crowd-1"):
        await bench.end(name)
    assert bench.asked == ["first", "crowd-0", "one", "crowd-1", "two"]


async def test_those_who_were_silent_get_few_turns_on_a_node() -> None:
    bench = Bench(most=8, most_on_node=8)
    for number in range(6):
        bench.turns.was_silent(target(f"silent-{number}"))
    bench.now += 3.0
    for number in range(6):
        await bench.ask(f"silent-{number}")
    await bench.ask("talks")
    assert bench.asked == [f"silent-{number}" for number in range(MOST_SILENT_ON_NODE)] + ["talks"]
    await bench.end("silent-0")
    assert bench.asked[-1] == "silent-2"


async def test_tenants_whose_movers_are_silent_take_turns_as_others_do() -> None:
    bench = Bench(most=8, most_on_node=8)
    for name in ("a-1", "a-2", "a-3", "a-4", "b-1"):
        bench.turns.was_silent(target(name))
    bench.now += 3.0
    for name in ("a-1", "a-2", "a-3", "a-4", "b-1"):
        await bench.ask(name, tenant=name[0])
    assert bench.asked == ["a-1", "a-2"], "as many of a node as may be asked at a time"
    await bench.end("a-1")
    await bench.end("a-2")
    assert bench.asked[2:] == ["a-3", "b-1"]


async def test_the_longest_waiting_one_of_a_tenant_goes_first_of_those_whose_nodes_have_room() -> None:
    bench = Bench(most=8, most_on_node=1)
    for name, node in (("a", "one"), ("b", "one"), ("c", "two"), ("d", "one"), ("e", "two")):
        await bench.ask(name, node=node)
    assert bench.asked == ["a", "c"]
    await bench.end("c")
    await bench.end("a")
    assert bench.asked == ["a", "c", "e", "b"]
    assert bench.turns.waiting == 1


async def test_a_silent_one_rests_twice_as_long_each_time_until_it_answers() -> None:
    bench = Bench()
    for pause in (3, 6, 12, 24, 30, 30):
        bench.turns.was_silent(target("s"))
        bench.now += pause - 0.1
        await bench.ask("s")
        assert bench.refused.pop() == ("s", True)
        bench.now += 0.1
        await bench.ask("s")
        await bench.end("s")
    assert bench.turns.silent == 1
    bench.turns.answered(target("s"))
    assert bench.turns.silent == 0
    bench.turns.was_silent(target("s"))
    bench.now += 3.0
    await bench.ask("s")
    assert not bench.refused


async def test_one_that_becomes_ready_is_asked_anew_and_one_that_is_gone_is_forgotten() -> None:
    bench = Bench()
    bench.turns.was_silent(target("s", is_ready=False))
    await bench.ask("s")
    assert bench.asked == ["s"]
    bench.turns.forget("s")
    assert bench.turns.silent == 0


async def test_whoever_waits_too_long_is_left_out_this_time() -> None:
    bench = Bench(most=1, longest_wait_seconds=0.01)
    await bench.ask("a")
    await bench.ask("b")
    await bench._tasks["b"]
    assert (bench.refused, bench.turns.waiting) == ([("b", False)], 0)


async def test_whoever_gives_up_at_the_moment_in_which_a_turn_is_free_takes_none_away() -> None:
    bench = Bench(most=1)
    for name in ("a", "b", "c"):
        await bench.ask(name)
    # The turn is given back before "b" has come to leave the queue.
    bench._ends["a"].set()
    bench._tasks["b"].cancel()
    await settle()
    assert (bench.asked, bench.turns.under_way, bench.turns.waiting) == (["a", "c"], 1, 0)
    await bench.end("c")
    assert bench.turns.under_way == 0


async def test_a_poll_that_is_cancelled_leaves_its_place_to_the_next() -> None:
    bench = Bench(most=1)
    for name in ("a", "b", "c"):
        await bench.ask(name)
    await bench.cancel("b")
    await bench.cancel("a")
    assert (bench.asked, bench.turns.under_way, bench.turns.waiting) == (["a", "c"], 1, 0)
    await bench.end("c")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(bench.turns.turn(target("d")))
        assert bench.turns.under_way == 1
    assert bench.turns.under_way == 0


async def test_a_silent_one_is_asked_again_however_many_others_wait() -> None:
    bench = Bench(most=1)
    bench.turns.was_silent(target("silent"))
    bench.now += 60.0
    await bench.ask("0")
    await bench.ask("silent")
    for number in range(1, 2 * MOST_HEARD_IN_A_ROW):
        await bench.ask(str(number))
    for number in range(MOST_HEARD_IN_A_ROW):
        await bench.end(str(number))
    assert bench.asked == [*map(str, range(MOST_HEARD_IN_A_ROW)), "silent"]
    await bench.end("silent")
    for number in range(MOST_HEARD_IN_A_ROW, 2 * MOST_HEARD_IN_A_ROW):
        await bench.end(str(number))
    assert bench.turns.under_way == bench.turns.waiting == 0
