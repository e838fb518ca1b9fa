from __future__ import annotations

import asyncio

from fake_timers import FakeTimers
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.handlers.queue import Rank, WorkQueue

_KEYS = st.sampled_from(["a1", "a2", "b1"])
_STEPS: st.SearchStrategy[tuple[str | Rank, str | None]] = st.one_of(
    st.tuples(st.just("add"), _KEYS),
    st.tuples(st.just("first"), _KEYS),
    st.tuples(st.just("after"), _KEYS),
    st.tuples(st.just("retry"), _KEYS),
    st.tuples(st.just("take"), st.none()),
    st.tuples(st.just("done"), _KEYS),
    st.tuples(st.just("pass"), st.none()),
    st.tuples(st.sampled_from(Rank), _KEYS),
)


@settings(max_examples=300)
@given(st.lists(_STEPS, max_size=60))
def test_no_wish_is_lost_and_no_key_is_held_twice(steps: list[tuple[str | Rank, str | None]]) -> None:
    asyncio.run(_run_steps(steps))


async def _run_steps(steps: list[tuple[str | Rank, str | None]]) -> None:
    timers = FakeTimers()
    ranks = dict.fromkeys(("a1", "a2", "b1"), Rank.USUAL)
    queue: WorkQueue[str] = WorkQueue(timers, tenant_of=lambda key: key[0], rank_of=ranks.__getitem__, most_beside_others=3)
    working: set[str] = set()
    owed: set[str] = set()
    for step, key in steps:
        if step == "take" and queue.depth:
            taken = await queue.get()
            assert taken not in working
            working.add(taken)
            owed.discard(taken)
        elif step == "done" and key in working:
            working.discard(key)
            queue.done(key)
        elif isinstance(step, Rank) and key is not None:
            ranks[key] = step
        elif step == "pass":
            timers.advance(0.7)
        elif key is not None and step in ("add", "first", "after", "retry"):
            owed.add(key)
            {"add": queue.add, "first": queue.add_first, "after": lambda k: queue.add_after(k, 2.0), "retry": queue.retry}[step](key)
    for key in working:
        queue.done(key)
    timers.advance(1e6)
    left = set()
    while queue.depth:
        left.add(await queue.get())
    assert left == owed
    assert queue._coming_up == 0
